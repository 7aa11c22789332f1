"""Conversation that every contender saves: the same messages in every run and every process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Message = dict[str, Any]

#: An assistant's message with a tool call, the tool's result, and the assistant's reply.
MESSAGES_PER_TURN = 3
PLAN = {"goal": "answer the customer", "steps": [{"name": "look up", "done": True}, {"name": "reply", "done": False}]}
SPENT_USD = 0.25

_START_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_VOCABULARY = (
    'the order was sent on Monday and the parcel is at the depot; customer says "no mail" so far\n path/to/file.py '
    "total: 40.00 EUR status=paid retry {id} <table> naïve café 数据 next step: ask again, then close the ticket if ok "
    "select name from people where age > 30 order by name limit 10 ; error 502 upstream timed out after 30 seconds"
)
_PARAGRAPHS = 256


@dataclass(frozen=True)
class Conversation:
    """Long conversation, built once and never changed."""

    messages: list[Message]

    def get_messages_of_turn(self, number: int) -> list[Message]:
        """Return the messages that turn `number` (from 1) adds."""
        return self.messages[(number - 1) * MESSAGES_PER_TURN : number * MESSAGES_PER_TURN]

    def get_messages_through_turn(self, number: int) -> list[Message]:
        """Return all messages up to and including turn `number`."""
        return self.messages[: number * MESSAGES_PER_TURN]

    def compute_json_bytes_through_turn(self, number: int) -> int:
        """Return the size in bytes of the messages up to turn `number` as compact JSON."""
        return sum(len(to_compact_json(message).encode()) for message in self.get_messages_through_turn(number))


def to_compact_json(value: Any) -> str:
    """Encode a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def build_conversation(turns: int) -> Conversation:
    """Build a conversation of `turns` turns; a message has 1.1 to 1.9 KB of JSON, 1.5 KB on average."""
    numbers = _generate_pseudo_random_numbers()
    paragraphs = [_build_paragraph(numbers, 900 + 800 * index // _PARAGRAPHS) for index in range(_PARAGRAPHS)]
    count = turns * MESSAGES_PER_TURN
    return Conversation([_build_message(index, paragraphs[next(numbers) % _PARAGRAPHS]) for index in range(count)])


def _build_message(index: int, paragraph: str) -> Message:
    turn, part = divmod(index, MESSAGES_PER_TURN)
    call = {"kind": "tool_call", "id": f"call_{turn}", "name": "look_up", "args": {"number": turn, "deep": False}}
    answer: dict[str, Any] = {"kind": "tool_result", "call_id": f"call_{turn}", "content": paragraph, "is_error": False}
    text_block: dict[str, Any] = {"kind": "text", "text": paragraph}
    blocks: list[dict[str, Any]] = [[text_block, call], [answer], [text_block]][part]
    return {
        "id": f"msg_{index:08}",
        "role": "tool" if part == 1 else "assistant",
        "created_at": (_START_TIME + timedelta(seconds=index)).isoformat(),
        "blocks": blocks,
    }


def _build_paragraph(numbers: Iterator[int], length: int) -> str:
    words = _VOCABULARY.split(" ")
    paragraph = ""
    while len(paragraph) < length:
        paragraph += words[next(numbers) % len(words)] + " "
    return paragraph


def _generate_pseudo_random_numbers() -> Iterator[int]:
    """Yield pseudo-random numbers, the same in every run."""
    state = 20260101
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33
