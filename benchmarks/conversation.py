"""The conversation that every contender saves: the same messages in every run and every process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Message = dict[str, Any]

#: An assistant that calls a tool, the tool's answer, and what the assistant says to it.
MESSAGES_PER_TURN = 3
PLAN = {"goal": "answer the customer", "steps": [{"name": "look up", "done": True}, {"name": "reply", "done": False}]}
SPENT_USD = 0.25

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_VOCABULARY = (
    'the order was sent on Monday and the parcel is at the depot; customer says "no mail" so far\n path/to/file.py '
    "total: 40.00 EUR status=paid retry {id} <table> naïve café 数据 next step: ask again, then close the ticket if ok "
    "select name from people where age > 30 order by name limit 10 ; error 502 upstream timed out after 30 seconds"
)
_PARAGRAPHS = 256


@dataclass(frozen=True)
class Conversation:
    """A long conversation, made once and never changed."""

    messages: list[Message]

    def turn(self, number: int) -> list[Message]:
        """The messages that turn `number` (from 1) adds."""
        return self.messages[(number - 1) * MESSAGES_PER_TURN : number * MESSAGES_PER_TURN]

    def until(self, number: int) -> list[Message]:
        """All messages after turn `number`."""
        return self.messages[: number * MESSAGES_PER_TURN]

    def size(self, number: int) -> int:
        """Bytes of compact JSON of the messages up to turn `number`."""
        return sum(len(text(message).encode()) for message in self.until(number))


def text(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def conversation(turns: int) -> Conversation:
    """A conversation of `turns` turns, whose messages have 1.5 KB of JSON each on average, from 1.1 to 1.9."""
    numbers = _numbers()
    paragraphs = [_paragraph(numbers, 900 + 800 * index // _PARAGRAPHS) for index in range(_PARAGRAPHS)]
    count = turns * MESSAGES_PER_TURN
    return Conversation([_message(index, paragraphs[next(numbers) % _PARAGRAPHS]) for index in range(count)])


def _message(index: int, said: str) -> Message:
    turn, part = divmod(index, MESSAGES_PER_TURN)
    call = {"kind": "tool_call", "id": f"call_{turn}", "name": "look_up", "args": {"number": turn, "deep": False}}
    answer: dict[str, Any] = {"kind": "tool_result", "call_id": f"call_{turn}", "content": said, "is_error": False}
    words: dict[str, Any] = {"kind": "text", "text": said}
    blocks: list[dict[str, Any]] = [[words, call], [answer], [words]][part]
    return {
        "id": f"msg_{index:08}",
        "role": "tool" if part == 1 else "assistant",
        "created_at": (_BEGAN + timedelta(seconds=index)).isoformat(),
        "blocks": blocks,
    }


def _paragraph(numbers: Iterator[int], length: int) -> str:
    words = _VOCABULARY.split(" ")
    said = ""
    while len(said) < length:
        said += words[next(numbers) % len(words)] + " "
    return said


def _numbers() -> Iterator[int]:
    """Numbers without a pattern that matters, and always the same."""
    state = 20260101
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33
