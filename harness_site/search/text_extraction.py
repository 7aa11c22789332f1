"""Searchable text of messages, calls, decisions and sessions, masked.

The rules of the workspace apply to all readers: hidden text must not be guessable by searching, and a separate index
for each reader is not feasible. Members who may see secrets read them in the transcript.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from checkpoints.formats import parse_json_or_return_text, parse_message_parts
from checkpoints.formats.parse_message_parts import (
    AudioPart,
    CallPart,
    ImagePart,
    Part,
    ReasoningPart,
    ResultPart,
    TextPart,
)
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.models.decision import ARGS_BEFORE_EDIT, get_args_json_before_edit
from checkpoints.models.tool_calls_and_results import INTERRUPT_TOOL
from harness_site.core.call_sentences import (
    build_masked_call_sentence,
    does_sentence_describe_call,
    remove_sentence_from_question_args,
)
from harness_site.core.hidden_characters import replace_unencodable_characters
from harness_site.core.masking.masker import mask_json_value, mask_text, mask_values_of_secret_fields_in_context
from harness_site.core.rendering.terminal_sequence_removal import remove_terminal_sequences

#: Length of the pieces of a long text, and their overlap, so that no term is split.
PIECE: Final = 8_000
OVERLAP: Final = 200
#: Maximum searchable characters of one text, the length of a long book. More would delay all other texts.
LONGEST: Final = 1_000_000
_MARGIN: Final = 10_000


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """Searchable text; `whole` is False if it is truncated."""

    text: str
    whole: bool = True


def extract_masked_message_text(body: str, message_id: str) -> ExtractedText:
    parts = parse_message_parts.parse_message_parts(body)
    with mask_values_of_secret_fields_in_context(*(part.args for part in parts if isinstance(part, CallPart))):
        words = _TextCollector()
        words.add_text(message_id)
        words.add_parts(parts)
        return words.build_masked_text()


def find_call_ids_in_message(body: str) -> frozenset[str]:
    """List the ids of the calls that a message makes or answers."""
    parts = parse_message_parts.parse_message_parts(body)
    return frozenset(part.call_id for part in parts if isinstance(part, CallPart | ResultPart))


def extract_masked_message_text_without_calls(body: str, call_ids: Collection[str]) -> ExtractedText:
    """Extract what a message says beside these calls and their results."""
    parts = parse_message_parts.parse_message_parts(body)
    words = _TextCollector()
    words.add_parts(
        part for part in parts if not (isinstance(part, CallPart | ResultPart) and part.call_id in call_ids)
    )
    return words.build_masked_text()


def extract_masked_call_text(call: ToolCall) -> ExtractedText:
    args = parse_json_or_return_text(call.args)
    with mask_values_of_secret_fields_in_context(args):
        words = _TextCollector()
        has_sentence = does_sentence_describe_call(call.sentence)
        sentence = build_masked_call_sentence(call.tool, call.sentence, args) if has_sentence else ""
        for text in (call.call_id, call.tool, sentence):
            words.add_text(text)
        words.add_value(
            remove_sentence_from_question_args(args, call.sentence) if call.tool == INTERRUPT_TOOL else args
        )
        words.add_text(call.error_type)
        result = parse_json_or_return_text(call.result or "null")
        if not (isinstance(result, str) and call.error_message in result):  # a failed call returns the message
            words.add_text(call.error_message)
        words.add_result(result)
        return words.build_masked_text()


def extract_masked_decision_text(decision: Decision) -> ExtractedText:
    evidence = parse_json_or_return_text(decision.evidence or "null")
    args_json = get_args_json_before_edit(decision.evidence)
    args_before = None if args_json is None else parse_json_or_return_text(args_json)
    if args_json is not None and isinstance(evidence, dict):
        evidence = {name: value for name, value in evidence.items() if name != ARGS_BEFORE_EDIT}
    with mask_values_of_secret_fields_in_context(args_before):
        words = _TextCollector()
        words.add_text(decision.actor)
        words.add_text(decision.reason)
        words.add_value(evidence)
        words.add_value(args_before)
        words.add_value(parse_json_or_return_text(decision.result or "null"))
        return words.build_masked_text()


def extract_masked_session_text(session: Session) -> ExtractedText:
    words = _TextCollector()
    for text in (session.session_id, session.title, session.agent):
        words.add_text(text)
    return words.build_masked_text()


def split_into_overlapping_pieces(text: str) -> Iterator[str]:
    """Split `text` into overlapping pieces; at least one, which may be empty."""
    yield text[:PIECE]
    for start in range(PIECE - OVERLAP, len(text) - OVERLAP, PIECE - OVERLAP):
        yield text[start : start + PIECE]


class _TextCollector:
    """Collector of lines up to `LONGEST` characters.

    Text beyond that is neither masked nor kept, which bounds the time.
    """

    def __init__(self) -> None:
        # The margin allows masking of secrets that extend beyond the last character kept.
        self.remaining_chars = LONGEST + _MARGIN
        self.whole = True
        self.lines: list[str] = []

    def build_masked_text(self) -> ExtractedText:
        text = mask_text(remove_terminal_sequences("\n".join(self.lines)))
        return ExtractedText(replace_unencodable_characters(text[:LONGEST]), self.whole and len(text) <= LONGEST)

    def add_text(self, text: str) -> None:
        if not text:
            return
        self.whole = self.whole and len(text) <= self.remaining_chars
        if self.remaining_chars > 0:
            self.lines.append(text[: self.remaining_chars])
        self.remaining_chars -= len(text) + 1

    def add_parts(self, parts: Iterable[Part]) -> None:
        for part in parts:
            match part:
                case TextPart(text=text) | ReasoningPart(text=text):
                    self.add_text(text)
                case ImagePart(url=url, alt=description) | AudioPart(url=url, transcript=description):
                    self.add_text(description if description or url.startswith("data:") else url)
                case CallPart(call_id=call_id, name=name, args=args):
                    self.add_text(f"{name} {call_id}")
                    self.add_value(args)
                case ResultPart(call_id=call_id, parts=inner):
                    self.add_text(call_id)
                    for result_part in inner:
                        if isinstance(result_part, TextPart):
                            self.add_result(result_part.text)
                        else:
                            self.add_parts((result_part,))
                case _:
                    self.add_value(part.value)

    def add_result(self, result: Any) -> None:
        """Add the result of a tool. Text that is a JSON object or list is added as its value, without escapes."""
        is_container = isinstance(result, str) and result.startswith(("{", "[")) and len(result) <= LONGEST
        self.add_value(parse_json_or_return_text(result) if is_container else result)

    def add_value(self, value: Any) -> None:
        """Add a JSON value line by line, strings without quotes and escapes."""
        beginning = _ValueTruncator(self.remaining_chars)
        first = beginning.truncate_value(value)
        self.whole = self.whole and beginning.remaining_chars >= 0
        for line in _iterate_value_lines("", mask_json_value(first)):
            self.add_text(line)


class _ValueTruncator:
    """Truncation of a JSON value to `remaining_chars` characters, where each number, text and list costs one more.

    `remaining_chars` is negative if something was omitted.
    """

    def __init__(self, remaining_chars: int) -> None:
        self.remaining_chars = remaining_chars

    def truncate_value(self, value: Any) -> Any:
        self.remaining_chars -= 1
        if isinstance(value, dict):
            fields: dict[str, Any] = {}
            for key, inner in value.items():
                if self.remaining_chars <= 0:
                    break
                self.remaining_chars -= len(key)
                fields[key] = self.truncate_value(inner)
            self._set_budget_exceeded_if_any_omitted(len(value) - len(fields))
            return fields
        if isinstance(value, list):
            items = [self.truncate_value(inner) for inner in takewhile(lambda _: self.remaining_chars > 0, value)]
            self._set_budget_exceeded_if_any_omitted(len(value) - len(items))
            return items
        if not isinstance(value, str):
            return value
        room = max(self.remaining_chars, 0)
        self.remaining_chars -= len(value)
        return value[:room]

    def _set_budget_exceeded_if_any_omitted(self, count: int) -> None:
        if count:
            self.remaining_chars = min(self.remaining_chars, -1)


def _iterate_value_lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _iterate_value_lines(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_value_lines(name, inner)
    elif value is not None:
        text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
        yield f"{name}: {text}" if name else text
