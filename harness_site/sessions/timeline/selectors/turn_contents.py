"""What happened in turns: which model answered and which tools ran, by the messages that their versions added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

from django.db.models import Case, F, Q, When
from django.db.models.functions import Length

from checkpoints.db.decompressed_text_sql import DecompressedText, StoredSize
from checkpoints.formats import parse_json
from checkpoints.formats.parse_message_parts import CallPart, ResultPart, list_message_parts
from checkpoints.models import Message
from harness_site.core.epoch_microseconds import Instant
from harness_site.sessions.selectors.conversation_window import AGENT_ROLES
from harness_site.sessions.selectors.stored_results_given_again import LoggedCall, StoredResultIndex

#: Largest number of turns, and of their messages, that are read for one page. More turns are drawn in groups.
MAX_TURNS: Final = 300
MAX_MESSAGES: Final = 900
#: Largest number of characters of a message that is read.
_MAX_MESSAGE_SIZE: Final = 32_000
#: Largest number of characters of the name of a tool or a model. What is longer is no name.
_MAX_NAME_LENGTH: Final = 200
#: Number of messages before a turn in which the calls of its results are looked for.
_MAX_RESULT_DISTANCE: Final = 8


class TurnContents(NamedTuple):
    """What a turn added: the number of answers of the model, the names of the models, and the results of tools.

    `results` are calls, whose name is empty if it is not known, each with whether its result is an error. For those
    `given_again`, no tool ran: they got the stored results of logged calls.
    """

    answers: int
    models: tuple[str, ...]
    results: tuple[tuple[CallPart, bool], ...]
    given_again: tuple[LoggedCall, ...] = ()
    #: When the message with the only call of the turn was saved, and that with its result; None if there are several.
    call_and_result_at: tuple[int, int] | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(call.name for call, _is_error in self.results)

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(call.name for call, is_error in self.results if is_error)

    @property
    def has_only_stored_results(self) -> bool:
        """Return whether nothing worked: no model answered and no tool ran."""
        return bool(self.given_again) and not self.answers and not self.results


class MessageRange(NamedTuple):
    """The messages `first` to `upto` (exclusive) of a segment, which a version added."""

    version: int
    segment: int
    first: int
    upto: int


class VersionMessages(NamedTuple):
    """Number of messages of a version, and the segment at its end, which has those from `parent_length` on."""

    version: int
    length: int
    segment: int
    parent_length: int


@dataclass(slots=True)
class _ReadMessage:
    is_answer: bool
    model: str
    calls: list[CallPart]
    results: list[tuple[str, bool]]
    at: int = 0


def list_added_message_ranges(
    versions: Iterable[tuple[VersionMessages | None, VersionMessages]], *, most: int = MAX_MESSAGES
) -> list[MessageRange]:
    """List which messages versions have added, `most` together, and those of the newest versions first.

    Each version comes with the one that is known before it. What a version has added is known only if that is the one
    with the number before its own, or if it is the first one of its session. A version that has added more than `most`
    is left out alone.
    """
    ranges: list[MessageRange] = []
    for before, after in reversed(list(versions)):
        if after.version != (1 if before is None else before.version + 1):
            continue
        is_continued = before is not None and before.segment == after.segment
        first = before.length if before is not None and is_continued else after.parent_length
        added = after.length - first
        if 0 < added <= most:
            most -= added
            ranges.append(MessageRange(after.version, after.segment, first, after.length))
    return ranges[::-1]


def load_turn_contents(ranges: Sequence[MessageRange]) -> dict[int, TurnContents]:
    """Load what turns added, by version, in one query. The messages are not verified; very long ones are left out."""
    if not ranges:
        return {}
    spans = reduce(or_, _iterate_conditions_of_message_ranges(ranges))
    # To count the characters of a text reads and decompresses it, so its size is compared first.
    is_short = Q(stored_size__lte=4 * _MAX_MESSAGE_SIZE, size__lte=_MAX_MESSAGE_SIZE)
    body = Case(When(is_short, then=F("body")), default=None)
    rows = (
        Message.objects.filter(spans)
        .alias(stored_size=StoredSize("body"), size=Length(DecompressedText("body")))
        .order_by("segment", "position")
    )
    messages: dict[tuple[int, int], _ReadMessage] = {}
    calls: dict[str, CallPart] = {}
    only_calls_at: dict[str, int] = {}
    tools: dict[tuple[int, int], list[tuple[CallPart, bool]]] = {}
    for segment, position, role, text, at in rows.values_list(
        "segment_id", "position", "role", body, Instant("created_at")
    ):
        message = _parse_calls_results_and_model(role, text)
        message.at = at
        calls.update((call.call_id, call) for call in message.calls)
        if len(message.calls) == 1:
            only_calls_at[message.calls[0].call_id] = at
        messages[segment, position] = message
        if message.results:
            tools[segment, position] = [
                (calls.get(call_id) or CallPart(call_id, "", None), is_error) for call_id, is_error in message.results
            ]
    return {each.version: _build_turn_contents(each, messages, tools, only_calls_at) for each in ranges}


def _iterate_conditions_of_message_ranges(ranges: Sequence[MessageRange]) -> Iterator[Q]:
    """Yield a condition for each group of ranges that are near to each other, with the messages before it."""
    spans: list[list[int]] = []
    for _version, segment, first, upto in sorted(ranges, key=lambda each: each[1:]):
        start = max(0, first - _MAX_RESULT_DISTANCE)
        if spans and spans[-1][0] == segment and start <= spans[-1][2]:
            spans[-1][2] = max(upto, spans[-1][2])
        else:
            spans.append([segment, start, upto])
    for segment, start, end in spans:
        yield Q(segment=segment, position__gte=start, position__lt=end)


def _parse_calls_results_and_model(role: str, body: str | None) -> _ReadMessage:
    read = _ReadMessage(role.lower() in AGENT_ROLES, "", [], [])
    try:
        message = parse_json(body) if body else None
    except ValueError:
        message = None
    if isinstance(message, dict):
        if read.is_answer:
            read.model = _get_model_or_empty(message)
        if not _read_blocks_if_all_plain(message.get("blocks"), read):
            for part in list_message_parts(message):
                if isinstance(part, CallPart):
                    read.calls.append(CallPart(part.call_id, _get_name_or_empty(part.name), part.args))
                elif isinstance(part, ResultPart):
                    read.results.append((part.call_id, part.is_error))
    return read


def _read_blocks_if_all_plain(blocks: Any, read: _ReadMessage) -> bool:
    """Read the library's own blocks, which most messages have; return whether the message has nothing else.

    To list the parts of a message takes several times as long.
    """
    if not isinstance(blocks, list):
        return False
    calls: list[CallPart] = []
    results: list[tuple[str, bool]] = []
    for block in blocks:
        match block:
            case {"kind": "text" | "reasoning"}:
                pass
            case {"kind": "tool_call", "id": str(call_id), "name": str(name)}:
                calls.append(CallPart(call_id, _get_name_or_empty(name), block.get("args")))
            case {"kind": "tool_result", "call_id": str(call_id)}:
                results.append((call_id, bool(block.get("is_error"))))
            case _:
                return False
    read.calls, read.results = calls, results
    return True


def _get_model_or_empty(message: dict[str, Any]) -> str:
    usage = message.get("usage")
    model = message.get("model") or (usage.get("model") if isinstance(usage, dict) else "")
    return _get_name_or_empty(model)


def _get_name_or_empty(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= _MAX_NAME_LENGTH else ""


def _build_turn_contents(
    added: MessageRange,
    messages: dict[tuple[int, int], _ReadMessage],
    tools: dict[tuple[int, int], list[tuple[CallPart, bool]]],
    only_calls_at: dict[str, int],
) -> TurnContents:
    answers = 0
    models: list[str] = []
    results: list[tuple[CallPart, bool]] = []
    results_at: list[int] = []
    for position in range(added.first, added.upto):
        message = messages.get((added.segment, position))
        if message is not None and message.is_answer:
            answers += 1
            if message.model and message.model not in models:
                models.append(message.model)
        if message is not None and message.results:
            results += tools[added.segment, position]
            results_at.append(message.at)
    called_at = only_calls_at.get(results[0][0].call_id) if len(results) == 1 else None
    times = None if called_at is None else (called_at, results_at[0])
    return TurnContents(answers, tuple(models), tuple(results), call_and_result_at=times)


def separate_stored_results_given_again(
    contents: TurnContents, version: int, run_number: int, index: StoredResultIndex
) -> TurnContents:
    """Return what a turn added with its stored results apart from those of tools that ran.

    Args:
        contents: What the turn added.
        version: The version that was saved at its end.
        run_number: Number of the run that saved it, or of the last run that had started before.
        index: Index with the logged calls of the session.
    """
    results: list[tuple[CallPart, bool]] = []
    given: list[LoggedCall] = []
    for call, is_error in contents.results:
        logged = index.find_logged_call_given_in_version(call, version, run_number)
        if logged is None:
            results.append((call, is_error))
        else:
            given.append(logged)
    return contents._replace(results=tuple(results), given_again=tuple(given)) if given else contents
