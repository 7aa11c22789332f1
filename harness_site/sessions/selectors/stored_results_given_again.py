"""Calls of a transcript that got the stored result of a logged call, so that no tool ran for them.

Which calls these are, and the messages of a transcript that have those of one logged call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from django.db.models import QuerySet

from checkpoints.enums import CallStatus
from checkpoints.formats.parse_message_parts import CallPart, parse_message_parts
from checkpoints.formats.storable_text import is_storable_text
from checkpoints.models import Session, ToolCall
from harness_site.sessions.selectors import conversation_window, transcript_message_queries
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.conversation_window import (
    CallCard,
    MessageEntry,
    StoredResultUse,
    TranscriptVersion,
    digest_arguments,
)

#: Maximum number of messages that name the tool and are read, and of uses among them.
_MAX_MESSAGES: Final = 200
_MAX_USES: Final = 5
#: Maximum number of messages between a call and its result.
_MAX_RESULT_DISTANCE: Final = 16
#: Maximum number of logged calls of a session that are known to have given their stored results, the newest ones.
_MAX_LOGGED_CALLS: Final = 1_000


class LoggedCall(NamedTuple):
    """What the log says about one attempt at a call. `digests` are those of its arguments, as asked and as changed."""

    pk: int
    call_id: str
    tool: str
    digests: frozenset[str]
    step: int
    status: str
    replays: int
    run_number: int
    answered_version: int | None


class StoredResultIndex:
    """Index of logged calls, which finds the one whose stored result answered a call of a transcript."""

    def __init__(self, logged_calls: Iterable[LoggedCall]) -> None:
        self._calls: defaultdict[tuple[str, str], list[LoggedCall]] = defaultdict(list)
        for logged in logged_calls:
            for digest in logged.digests:
                self._calls[logged.tool, digest].append(logged)

    def find_logged_call_asked_again(self, call: CallPart) -> LoggedCall | None:
        """Find the logged call that answered one with another id; None if the log has a call with this id."""
        logged_calls = self._list_calls_with_tool_and_arguments(call)
        if any(logged.call_id == call.call_id for logged in logged_calls):
            return None
        return max(logged_calls, key=attrgetter("step"), default=None)

    def find_logged_call_given_in_version(self, call: CallPart, version: int, run_number: int) -> LoggedCall | None:
        """Find the logged call whose stored result a version added as the result of this call.

        Args:
            call: The call of the transcript.
            version: The version that added the result.
            run_number: Number of the run that saved it, or of the last run that had started before.
        """
        logged_calls = [each for each in self._list_calls_with_tool_and_arguments(call) if each.step < version]
        same_id = [each for each in logged_calls if each.call_id == call.call_id]
        if not same_id:
            return max(logged_calls, key=attrgetter("step"), default=None)
        newest = max(same_id, key=attrgetter("step", "pk"))
        is_answered_before = newest.answered_version is not None and newest.answered_version < version
        is_of_earlier_run = newest.run_number < run_number or is_answered_before
        return newest if newest.replays and newest.status == CallStatus.COMPLETED and is_of_earlier_run else None

    def _list_calls_with_tool_and_arguments(self, call: CallPart) -> list[LoggedCall]:
        """List the logged calls with the id of a call, and those with others that have given their stored results."""
        logged_calls = self._calls.get((call.name, digest_arguments(call.args)), ()) if self._calls else ()
        return [logged for logged in logged_calls if logged.replays or logged.call_id == call.call_id]


def load_calls_with_given_results(session_pk: int) -> list[LoggedCall]:
    """Load the newest calls of a session whose stored results were given, without failed ones, in one query."""
    return _load_logged_calls(
        ToolCall.objects.filter(session=session_pk, replay_count__gt=0).exclude(status=CallStatus.FAILED)
    )


def load_stored_result_index(
    session_pk: int, calls: Collection[CallPart], given: Sequence[LoggedCall] | None = None
) -> StoredResultIndex:
    """Load an index that tells which of these calls of a transcript got stored results.

    Some frameworks refuse such a call to give the model the result, so that it looks like an error there, although
    nothing failed. No query without calls.

    Args:
        session_pk: Key of the session.
        calls: The calls of the transcript. One query loads what the log has under their ids.
        given: What `load_calls_with_given_results` has loaded; None if it is to be loaded here.
    """
    if not calls:
        return StoredResultIndex(())
    if given is None:
        given = load_calls_with_given_results(session_pk)
    tools = {logged.tool for logged in given}
    call_ids = sorted({call.call_id for call in calls if call.name in tools and is_storable_text(call.call_id)})
    if not call_ids:
        return StoredResultIndex(given)
    known = {logged.pk for logged in given}
    same_ids = _load_logged_calls(ToolCall.objects.filter(session=session_pk, call_id__in=call_ids))
    return StoredResultIndex([*given, *(logged for logged in same_ids if logged.pk not in known)])


def _load_logged_calls(calls: QuerySet[ToolCall]) -> list[LoggedCall]:
    columns = "pk", "call_id", "tool", "args_digest", "asked_args_digest", "step", "status", "replay_count"
    rows = calls.order_by("-step", "-pk").values_list(*columns, "run__number", "answered_version")[:_MAX_LOGGED_CALLS]
    return [
        LoggedCall(pk, call_id, tool, frozenset(filter(None, (digest, asked_digest))), *others)
        for pk, call_id, tool, digest, asked_digest, *others in rows
    ]


@dataclass(frozen=True, slots=True)
class PlacedUse:
    """A use of a stored result, and the position of the message with the call that it answered."""

    position: int
    use: StoredResultUse


@dataclass(frozen=True, slots=True)
class AskedAgainSpot:
    """The message that asked for a logged call again under another id: its position, and the version that saved it.

    `version` is None if that version was deleted.
    """

    position: int
    version: int | None
    call_id: str


def find_message_that_asked_again(session: Session, call: CallRecord) -> AskedAgainSpot | None:
    """Find the first message of the newest transcript where another call got the stored result of a logged one.

    For a call that no saved message has: a run that died may not have saved what the model asked for. Without a replay,
    there is no query. Raises `IntegrityError` if a message was altered.
    """
    if not call.replays:
        return None
    transcript = conversation_window.get_newest_transcript_version(session)
    for position in _iterate_positions_of_same_calls(transcript, call, first_position=-1):
        entry, cards = _load_entry_and_cards_of_call(session, transcript, call, position)
        again = next((card for card in cards if card.has_stored_result), None)
        if entry is not None and again is not None:
            return AskedAgainSpot(position, entry.version, again.call.call_id)
    return None


def load_uses_of_stored_result(session: Session, call: CallRecord, first_position: int) -> list[PlacedUse]:
    """Load the first calls of the newest transcript that were answered with the stored result of a logged call.

    Args:
        session: The session.
        call: The logged call. Without a replay, there is no query.
        first_position: Position of the message that asks for it.

    Raises:
        IntegrityError: A message was altered.
    """
    if not call.replays:
        return []
    transcript = conversation_window.get_newest_transcript_version(session)
    uses: list[PlacedUse] = []
    for position in _iterate_positions_of_same_calls(transcript, call, first_position):
        uses += _load_uses_in_message(session, transcript, call, position)
        if len(uses) >= _MAX_USES:
            break
    return uses


def _iterate_positions_of_same_calls(
    transcript: TranscriptVersion, call: CallRecord, first_position: int
) -> Iterator[int]:
    """Yield the positions of the later messages that ask for the same tool with the same arguments."""
    digests = set(ToolCall.objects.values_list("args_digest", "asked_args_digest").get(pk=call.pk))
    messages = transcript_message_queries.query_messages_of_ranges(transcript.segment_ranges).filter(
        transcript_message_queries.build_body_contains_condition(call.tool), position__gt=first_position
    )
    rows = messages.order_by("position").values_list("position", "body")[:_MAX_MESSAGES]
    for position, body in rows.iterator(chunk_size=20):
        parts = (part for part in parse_message_parts(body) if isinstance(part, CallPart) and part.name == call.tool)
        if any(digest_arguments(part.args) in digests for part in parts):
            yield position


def _load_uses_in_message(
    session: Session, transcript: TranscriptVersion, call: CallRecord, position: int
) -> Iterator[PlacedUse]:
    _entry, cards = _load_entry_and_cards_of_call(session, transcript, call, position)
    for card in cards:
        if card.stored_result_use is not None:
            yield PlacedUse(position, card.stored_result_use)


def _load_entry_and_cards_of_call(
    session: Session, transcript: TranscriptVersion, call: CallRecord, position: int
) -> tuple[MessageEntry | None, list[CallCard]]:
    """Load the message at a position, and its calls whose newest attempt is the logged one."""
    window = conversation_window.load_conversation_window(
        session, transcript, first=position, upto=position + 1 + _MAX_RESULT_DISTANCE
    )
    items = (item for item in window.items if isinstance(item, MessageEntry) and item.position == position)
    entry = next(items, None)
    parts = () if entry is None else entry.parts
    cards = [part for part in parts if isinstance(part, CallCard)]
    return entry, [card for card in cards if card.newest_attempt is not None and card.newest_attempt.pk == call.pk]
