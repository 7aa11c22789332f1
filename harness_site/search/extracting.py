"""What can be found of a message, a call, a session: its words as a person reads them, masked.

Masked under the rules of the workspace, whoever searches: what somebody may not see they must not be able to guess by
searching for it, and an index for each reader is none. People who may see secrets read them in the transcript.
"""

import re
from collections.abc import Iterator
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
#: What PostgreSQL cannot store, and halves of characters.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def of_message(body: str, message_id: str) -> str:
    parts = blocks.read(body)
    with hiding_values_of(*(part.args for part in parts if isinstance(part, Call))):
        return _whole([message_id, *_said(parts)])


def of_call(call: ToolCall) -> str:
    args = parse_or_text(call.args)
    with hiding_values_of(args):
        sentence = shown_sentence(call.tool, call.sentence, args) if call.sentence else ""
        told = [call.call_id, call.tool, sentence, *_leaves(args), call.error_type]
        return _whole([*told, *_leaves(parse_or_text(call.result or "null"))])


def of_decision(decision: Decision) -> str:
    told = [decision.actor, decision.reason, *_leaves(parse_or_text(decision.evidence or "null"))]
    return _whole([*told, *_leaves(parse_or_text(decision.result or "null"))])


def of_session(session: Session) -> str:
    return _whole([session.session_id, session.title, session.agent])


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces; one, even if it is empty."""
    yield text[:PIECE]
    for start in range(PIECE - OVERLAP, len(text) - OVERLAP, PIECE - OVERLAP):
        yield text[start : start + PIECE]


def _whole(parts: list[str]) -> str:
    return _UNSTORABLE.sub("\ufffd", masked("\n".join(part for part in parts if part)))


def _said(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) | Reasoning(text=text):
                yield text
            case Image(url=url, alt=alt):
                yield alt if alt or url.startswith("data:") else url
            case Call(call_id=call_id, name=name, args=args):
                yield f"{name} {call_id}"
                yield from _leaves(args)
            case Result(call_id=call_id, parts=inner):
                yield call_id
                yield from _said(inner)
            case _:
                yield from _leaves(part.value)


def _leaves(value: Any) -> Iterator[str]:
    """A JSON value line by line: texts as they are, without quotes and escapes."""
    return _lines("", masked_value(value))


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
