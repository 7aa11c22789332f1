"""Search for words, errors and decisions in a whole stored transcript."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import and_, or_

from django.db.models import Q, QuerySet
from django.db.models.lookups import IContains

from checkpoints.db.decompressed_text_sql import DecompressedText
from checkpoints.exceptions import IntegrityError
from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import CallPart, ResultPart
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from checkpoints.models.tool_calls_and_results import FAILED_COMMANDS
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from checkpoints.versions import version_seals_and_transcript_verification
from harness_site.sessions.selectors import conversation_window
from harness_site.sessions.selectors.conversation_window import ERROR_STATUSES, TranscriptVersion
from harness_site.sessions.selectors.stored_results_given_again import load_stored_result_index
from harness_site.sessions.selectors.transcript_message_queries import (
    build_body_contains_condition,
    query_messages_of_ranges,
)

#: Messages in memory at once.
_CHUNK_SIZE = 25
#: Number of calls examined for the next landmark.
_MAX_CALLS = 50
#: Maximum distance in messages between a call and its result.
_MAX_RESULT_DISTANCE = 16
#: Largest number of messages that are searched only to know whether one of them reports an error.
_MAX_MESSAGES_SEARCHED_FOR_ANY_ERROR = 1_000
#: Spelling of the flag in canonical JSON; inside of a string its quotes would be escaped.
_ERROR_FLAG_JSON = '"is_error":true'
#: Condition of the calls that are errors; `CallCard.has_error` tells the same about one.
_IS_ERROR = Q(status__in=ERROR_STATUSES) | FAILED_COMMANDS


class Landmark(StrEnum):
    ERROR = "error"
    DECISION = "decision"


@dataclass(frozen=True, slots=True)
class LandmarkSpot:
    """A message, or a call that is not in the transcript yet (then `position` is None)."""

    position: int | None
    call_pk: int | None = None


@dataclass(frozen=True, slots=True)
class CallSpot:
    """The message that asks for a call: its position in a transcript, and the version with which it was saved.

    `shown_version` is the newest version that has the message, or else the one with which it was saved.
    """

    position: int
    version: int
    shown_version: int


@dataclass(frozen=True, slots=True)
class MessageTime:
    position: int
    at: datetime


def iterate_messages_with_all_words(
    transcript: TranscriptVersion, words: Iterable[str], *, beyond: int, back: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield position and body of the messages that contain all `words`, ignoring case, nearest first.

    Searches behind position `beyond`, or with `back` before it. On SQLite, letters beyond ASCII match in their
    common case variants only.
    """
    condition = reduce(and_, map(_build_word_condition, words))
    while True:
        rows = (
            _query_messages_beyond(transcript, beyond, back=back)
            .filter(condition)
            .values_list("position", "body")[:_CHUNK_SIZE]
        )
        yield from rows
        if len(rows) < _CHUNK_SIZE:
            return
        beyond = rows[len(rows) - 1][0]


def _build_word_condition(word: str) -> Q:
    stored = json.dumps(word.replace("\0", ""), ensure_ascii=False)[1:-1]
    cases = {stored} if stored.isascii() else {stored, stored.lower(), stored.upper(), stored.title()}
    return reduce(or_, (Q(IContains(DecompressedText("body"), case)) for case in sorted(cases)))


def find_first_message_since_time(
    transcript: TranscriptVersion, *, since: datetime | None = None
) -> MessageTime | None:
    """Find the first message, or the first one created at `since` or later; None if there is none."""
    messages = query_version_messages(transcript)
    if since is not None:
        messages = messages.filter(created_at__gte=since)
    row = messages.order_by("position").values_list("position", "created_at").first()
    return None if row is None else MessageTime(*row)


def find_next_error_or_decision(
    session: Session, transcript: TranscriptVersion, wanted: Landmark, *, beyond: int, back: bool = False
) -> LandmarkSpot | None:
    """Find the next error or decision behind position `beyond`, or with `back` the last one before it."""
    spots = [
        spot
        for spot in (
            _find_next_error_result_if_wanted(session, transcript, wanted, beyond, back),
            _find_next_failed_or_decided_call(session, transcript, wanted, beyond, back),
        )
        if spot
    ]
    ending = transcript.length
    order = sorted(spots, key=lambda spot: ending if spot.position is None else spot.position, reverse=back)
    return order[0] if order else None


def may_have_errors(session: Session, transcript: TranscriptVersion) -> bool:
    """Return whether `find_next_error_or_decision` finds an error anywhere.

    Also True for a transcript that is too long to be searched for each of its readers.
    """
    if transcript.length > _MAX_MESSAGES_SEARCHED_FOR_ANY_ERROR:
        return True
    if ToolCall.objects.filter(_IS_ERROR, session=session).exists():
        return True
    return _find_next_error_result_if_wanted(session, transcript, Landmark.ERROR, -1, back=False) is not None


def find_message_of_call(session: Session, call_id: str, step: int) -> CallSpot | None:
    """Find the message that asks for a call, which was issued while `step` was the newest version.

    None if it is not saved yet, or if no message names the call. A newer version may have replaced the transcript.
    """
    for version in (None, step, step + 1):
        transcript = conversation_window.find_transcript_version(session, version)
        if transcript is None:
            continue
        lengths = _load_version_lengths(session, transcript)
        position = _find_call_request_position(transcript, call_id, step, lengths)
        if position is not None:
            saved = (number for number, length in lengths if number >= step and length > position)
            version = _find_first_version_with_message(session, transcript, position)
            return CallSpot(position, version or next(saved, transcript.version), transcript.version)
    return None


def _find_first_version_with_message(session: Session, transcript: TranscriptVersion, position: int) -> int | None:
    """Find the version that the transcript names at a message, as `load_origins_by_position` does.

    An earlier version may have another message at this position. None for a message that a fork has copied.
    """
    segment = next(
        (part.segment_id for part in transcript.segment_ranges if part.first <= position < part.upto),
        None,
    )
    versions = Checkpoint.objects.filter(session=session, segment=segment, length__gt=position)
    return versions.order_by("length", "version").values_list("version", flat=True).first()


def _find_next_error_result_if_wanted(
    session: Session, transcript: TranscriptVersion, landmark: Landmark, start: int, back: bool
) -> LandmarkSpot | None:
    """Find the next result flagged as an error; it is displayed at the position of its call."""
    if landmark is not Landmark.ERROR:
        return None
    matches = (
        _query_messages_beyond(transcript, start, back=back)
        .filter(build_body_contains_condition(_ERROR_FLAG_JSON))
        .values_list("position", "body")
    )
    for position, body in matches[:_CHUNK_SIZE]:
        shown_position = _find_position_where_error_is_shown(session, transcript, position, body)
        if shown_position is None:
            continue
        if shown_position < start if back else shown_position > start:
            return LandmarkSpot(shown_position)
    return None


def _find_position_where_error_is_shown(
    session: Session, transcript: TranscriptVersion, position: int, body: str
) -> int | None:
    """Find where the errors of a message with results are displayed.

    None if they are refusals that gave the model the stored results of earlier calls.
    """
    error_call_ids = {
        part.call_id
        for part in parse_message_parts.parse_message_parts(body)
        if isinstance(part, ResultPart) and part.is_error
    }
    if not error_call_ids:
        return position
    calls = _load_newest_calls_before(transcript, position, error_call_ids)
    index = load_stored_result_index(session.pk, [call for _, call in calls])
    given = {call.call_id for _, call in calls if index.find_logged_call_asked_again(call) is not None}
    if given == error_call_ids:
        return None
    return max((at for at, call in calls if call.call_id not in given), default=position)


def _load_newest_calls_before(
    transcript: TranscriptVersion, position: int, call_ids: Collection[str]
) -> list[tuple[int, CallPart]]:
    """Load the newest call with each id, and its position, from the messages before a result."""
    condition = reduce(
        or_, (build_body_contains_condition(json.dumps(call_id, ensure_ascii=False)) for call_id in call_ids)
    )
    messages = query_version_messages(transcript).filter(
        condition, position__gte=position - _MAX_RESULT_DISTANCE, position__lt=position
    )
    found: dict[str, tuple[int, CallPart]] = {}
    for at, body in messages.order_by("-position").values_list("position", "body"):
        for part in parse_message_parts.parse_message_parts(body):
            if isinstance(part, CallPart) and part.call_id in call_ids:
                found.setdefault(part.call_id, (at, part))
    return list(found.values())


def _find_next_failed_or_decided_call(
    session: Session, transcript: TranscriptVersion, landmark: Landmark, start: int, back: bool
) -> LandmarkSpot | None:
    lengths = _load_version_lengths(session, transcript)
    step_at_start = next((version for version, length in lengths if length > start), transcript.version + 1)
    calls = ToolCall.objects.filter(session=session)
    calls = calls.filter(_IS_ERROR) if landmark is Landmark.ERROR else calls.filter(decisions__final=True)
    calls = calls.filter(step__lte=step_at_start) if back else calls.filter(step__gte=step_at_start - 1)
    order = ("-step", "-pk") if back else ("step", "pk")
    for pk, call_id, step in calls.order_by(*order).values_list("pk", "call_id", "step").distinct()[:_MAX_CALLS]:
        position = _find_call_request_position(transcript, call_id, step, lengths)
        if position is None:
            if transcript.newest and not back and start < transcript.length:
                return LandmarkSpot(None, pk)
        elif position < start if back else position > start:
            return LandmarkSpot(position, pk)
    return None


def _find_call_request_position(
    transcript: TranscriptVersion, call_id: str, step: int, lengths: list[tuple[int, int]]
) -> int | None:
    """Find the position of a call issued while `step` was the newest version.

    The message was saved with that version or with the next one.
    """
    first = max((length for version, length in lengths if version < step), default=0)
    upto = min((length for version, length in lengths if version > step), default=transcript.length)
    call_id_json = json.dumps(call_id, ensure_ascii=False)
    messages = query_version_messages(transcript).filter(
        build_body_contains_condition(call_id_json), position__gte=first, position__lt=upto
    )
    return messages.order_by("position").values_list("position", flat=True).first()


def _load_version_lengths(session: Session, transcript: TranscriptVersion) -> list[tuple[int, int]]:
    """Load version and length of each version up to this one, oldest first."""
    checkpoints = Checkpoint.objects.filter(session=session, version__lte=transcript.version).order_by("version")
    return list(checkpoints.values_list("version", "length"))


def _query_messages_beyond(transcript: TranscriptVersion, beyond: int, *, back: bool) -> QuerySet[Message]:
    messages = query_version_messages(transcript)
    if back:
        return messages.filter(position__lt=beyond).order_by("-position")
    return messages.filter(position__gt=beyond).order_by("position")


def verify_message_beginnings(transcript: TranscriptVersion, beginnings: Mapping[int, str]) -> None:
    """Verify messages of a version, by position, of which `beginnings` of their bodies were read by themselves.

    Nothing if sealing is off. Raises `IntegrityError` naming a message that was altered.
    """
    if get_seal_keys() is None:
        return
    messages, positions = query_version_messages(transcript), sorted(beginnings)
    for start in range(0, len(positions), _CHUNK_SIZE):
        piece = positions[start : start + _CHUNK_SIZE]
        before = messages.filter(position__in=[position - 1 for position in piece])
        chains = {position: bytes(chain) for position, chain in before.values_list("position", "chain")}
        for message in messages.filter(position__in=piece):
            version_seals_and_transcript_verification.verify_message(
                message, message.position, chains.get(message.position - 1)
            )
            if not message.body.startswith(beginnings[message.position]):
                row = row_seals.describe_row(message)
                raise IntegrityError(Message._meta.db_table, row, "it was changed while it was read")


def query_version_messages(transcript: TranscriptVersion) -> QuerySet[Message]:
    """Query the messages of a version."""
    return query_messages_of_ranges(transcript.segment_ranges)
