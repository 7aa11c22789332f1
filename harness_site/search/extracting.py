"""What can be found of a message, a call, a session: its words as a person reads them, masked.

Masked under the rules of the workspace, whoever searches: what somebody may not see they must not be able to guess by
searching for it, and an index for each reader is none. People who may see secrets read them in the transcript.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from checkpoints.models import Decision, Session, ToolCall
from checkpoints.queries import blocks
from checkpoints.queries.blocks import Call, Image, Part, Reasoning, Result, Text
from checkpoints.serde import parse_or_text
from harness_site.rendering.masking import hiding_values_of, masked, masked_value
from harness_site.wording import shown_sentence

#: Longer texts are kept in pieces, which overlap so that nothing is cut apart for who looks for it.
PIECE: Final = 8_000
OVERLAP: Final = 200
#: Characters of one text that can be found: as many as a long book has. More of them would hold up all other texts.
LONGEST: Final = 1_000_000
_MARGIN: Final = 10_000
#: What PostgreSQL cannot store, and halves of characters.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Extract:
    """What can be found of a text; `whole` is False where it is only the beginning."""

    text: str
    whole: bool = True


def of_message(body: str, message_id: str) -> Extract:
    parts = blocks.read(body)
    with hiding_values_of(*(part.args for part in parts if isinstance(part, Call))):
        words = _Words()
        words.add(message_id)
        words.add_parts(parts)
        return words.extract()


def of_call(call: ToolCall) -> Extract:
    args = parse_or_text(call.args)
    with hiding_values_of(args):
        words = _Words()
        sentence = shown_sentence(call.tool, call.sentence, args) if call.sentence else ""
        for text in (call.call_id, call.tool, sentence):
            words.add(text)
        words.add_value(args)
        words.add(call.error_type)
        words.add_value(parse_or_text(call.result or "null"))
        return words.extract()


def of_decision(decision: Decision) -> Extract:
    words = _Words()
    words.add(decision.actor)
    words.add(decision.reason)
    words.add_value(parse_or_text(decision.evidence or "null"))
    words.add_value(parse_or_text(decision.result or "null"))
    return words.extract()


def of_session(session: Session) -> Extract:
    words = _Words()
    for text in (session.session_id, session.title, session.agent):
        words.add(text)
    return words.extract()


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces; one, even if it is empty."""
    yield text[:PIECE]
    for start in range(PIECE - OVERLAP, len(text) - OVERLAP, PIECE - OVERLAP):
        yield text[start : start + PIECE]


def storable(text: str) -> str:
    """`text` with what a database cannot store replaced."""
    return _UNSTORABLE.sub("\ufffd", text)


class _Words:
    """Collects texts line by line, up to `LONGEST` characters. What comes after is neither masked nor kept, so that no
    text takes longer than others."""

    def __init__(self) -> None:
        # What is masked may reach beyond the last character that is kept.
        self.left = LONGEST + _MARGIN
        self.whole = True
        self.lines: list[str] = []

    def extract(self) -> Extract:
        text = masked("\n".join(self.lines))
        return Extract(storable(text[:LONGEST]), self.whole and len(text) <= LONGEST)

    def add(self, text: str) -> None:
        if not text:
            return
        self.whole = self.whole and len(text) <= self.left
        if self.left > 0:
            self.lines.append(text[: self.left])
        self.left -= len(text) + 1

    def add_parts(self, parts: Iterable[Part]) -> None:
        for part in parts:
            match part:
                case Text(text=text) | Reasoning(text=text):
                    self.add(text)
                case Image(url=url, alt=alt):
                    self.add(alt if alt or url.startswith("data:") else url)
                case Call(call_id=call_id, name=name, args=args):
                    self.add(f"{name} {call_id}")
                    self.add_value(args)
                case Result(call_id=call_id, parts=inner):
                    self.add(call_id)
                    self.add_parts(inner)
                case _:
                    self.add_value(part.value)

    def add_value(self, value: Any) -> None:
        """A JSON value line by line: texts as they are, without quotes and escapes."""
        beginning = _Beginning(self.left)
        first = beginning.of(value)
        self.whole = self.whole and beginning.left >= 0
        for line in _lines("", masked_value(first)):
            self.add(line)


class _Beginning:
    """As much of a JSON value as `left` characters; each number, text and list takes one more. Below zero, something
    was left out."""

    def __init__(self, left: int) -> None:
        self.left = left

    def of(self, value: Any) -> Any:
        self.left -= 1
        if isinstance(value, dict):
            kept: dict[str, Any] = {}
            for key, inner in value.items():
                if self.left <= 0:
                    break
                self.left -= len(key)
                kept[key] = self.of(inner)
            self._left_out(len(value) - len(kept))
            return kept
        if isinstance(value, list):
            items = [self.of(inner) for inner in takewhile(lambda _: self.left > 0, value)]
            self._left_out(len(value) - len(items))
            return items
        if not isinstance(value, str):
            return value
        room = max(self.left, 0)
        self.left -= len(value)
        return value[:room]

    def _left_out(self, count: int) -> None:
        if count:
            self.left = min(self.left, -1)


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(name, inner)
    elif value is not None:
        text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        yield f"{name}: {text}" if name else text
