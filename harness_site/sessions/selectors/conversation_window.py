"""A window of a transcript as a conversation: messages, calls with their outcomes, and handovers between runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain, pairwise
from math import inf
from typing import Any

from checkpoints.enums import CallStatus, RunStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.formats import parse_json, parse_json_or_return_text, parse_message_parts, to_canonical_json
from checkpoints.formats.caller_argument_order import restore_argument_order
from checkpoints.formats.digests import digest_text
from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart, TextPart
from checkpoints.formats.token_counts import TokenCounts
from checkpoints.models import Session
from checkpoints.models.run import FORK_RUN_NUMBER
from harness_site.sessions.selectors import (
    call_records,
    call_result_pairs,
    message_origin_versions_and_runs,
    transcript_message_queries,
    version_list,
    version_lookup,
)
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.call_result_pairs import Spot
from harness_site.sessions.selectors.message_origin_versions_and_runs import Origin, RunFacts, SegmentFacts
from harness_site.sessions.selectors.transcript_message_queries import WINDOW, SegmentRange, StoredMessage
from harness_site.sessions.selectors.version_lookup import Version

#: Number of messages by which a window may grow to keep a call and its result together.
_MARGIN = 16
#: Remaining messages up to this number are included, instead of a link to so few.
_FEW = 10
#: Folded messages up to this number can be opened together.
MAX_OPENED_TOGETHER = 500
#: Statuses of calls that are errors.
ERROR_STATUSES = frozenset({CallStatus.FAILED, CallStatus.INTERRUPTED, CallStatus.REJECTED})
#: Maximum number of messages with the id of one call that are read to find the one that asks for it.
_MESSAGES_OF_ONE_CALL_ID = 8
AGENT_ROLES = frozenset({"assistant", "model", "ai"})
#: Maximum number of ended runs named between two messages; there may be thousands that wrote nothing.
NAMED_RUNS = 4


@dataclass(frozen=True)
class TranscriptVersion:
    """A version of a session: the first `length` messages of the transcript that ends in `segment_id`.

    If `newest`, calls that are not in the transcript yet belong to it.
    """

    version: int
    segment_id: int | None
    length: int
    newest: bool

    @cached_property
    def segment_ranges(self) -> list[SegmentRange]:
        """The segments that have its messages, from its start; one query."""
        return (
            []
            if self.segment_id is None
            else transcript_message_queries.load_segment_ranges(self.segment_id, self.length)
        )


@dataclass(frozen=True, slots=True)
class StoredResultUse:
    """An answer to a call with the stored result of an earlier one, so that nothing ran.

    `first_position` is that of the message with the earlier call. `at`, `version` and `run_number` are those of the
    message with the result; None if the transcript has none, and without a run or if the version was deleted.
    """

    first_position: int
    at: datetime | None
    version: int | None
    run_number: int | None


@dataclass(frozen=True, slots=True)
class CallCard:
    """A call in the conversation with its result and its logged attempts, oldest first.

    Read-only calls are not logged and have no attempts. `time_to_result` is the time from the message with the call to
    the message with its result; None if that message has several calls, and where a new run or another branch begins.
    `is_of_last_turn`: nothing but results follows the message with the call in the newest version of the session.
    `stored_result_use` is set if nothing ran for this call, and `attempts` are those of the earlier one; then
    `positions_given_again` of the earlier one, in the same window, contains the position of this one.
    """

    call: CallPart
    result: ResultPart | None
    result_position: int | None
    attempts: tuple[CallRecord, ...]
    time_to_result: timedelta | None = None
    is_of_last_turn: bool = False
    stored_result_use: StoredResultUse | None = None
    positions_given_again: tuple[int, ...] = ()
    kind: str = field(default="card", init=False)

    @property
    def newest_attempt(self) -> CallRecord | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def attempts_with_lost_run(self) -> tuple[CallRecord, ...]:
        """Return the attempts during which a run was lost; none for a call for which nothing ran."""
        if self.stored_result_use is not None:
            return ()
        return tuple(attempt for attempt in self.attempts if attempt.has_lost_its_run)

    @property
    def has_error(self) -> bool:
        """Return whether an attempt or its command failed, or was interrupted or rejected, or the tool says so."""
        if self.stored_result_use is not None:
            return self.has_failed
        return self.has_failed or any(
            attempt.status in ERROR_STATUSES or attempt.is_failed_command for attempt in self.attempts
        )

    @property
    def has_failed(self) -> bool:
        """Return whether the tool reported an error, as the result says or else the log.

        Of a stored result only the log counts: some frameworks refuse the call to give the result to the model.
        """
        is_logged_as_failed = self.newest_attempt is not None and self.newest_attempt.status == CallStatus.FAILED
        if self.has_stored_result:
            return is_logged_as_failed
        return is_logged_as_failed or (self.result is not None and self.result.is_error)

    @property
    def has_stored_result(self) -> bool:
        """Return whether the call was answered with a stored result, be it of one that no saved message has."""
        attempt = self.newest_attempt
        return self.stored_result_use is not None or (
            attempt is not None and attempt.replays > 0 and attempt.call_id != self.call.call_id
        )

    @property
    def stored_result_behind_refusal(self) -> str | None:
        """Return the stored result, if the framework refused the call to give it to the model; else None."""
        is_refused = self.has_stored_result and self.result is not None and self.result.is_error
        attempt = self.newest_attempt
        return attempt.result if is_refused and attempt is not None and not self.has_failed else None

    @property
    def result_parts(self) -> tuple[Part, ...]:
        """Return the parts of the result as the model received it, else as the log has it.

        Of a refusal that gave the model a stored result, return only that.
        """
        if self.stored_result_behind_refusal is not None:
            return (TextPart(self.stored_result_behind_refusal),)
        if self.result is not None:
            return self.result.parts
        if self.newest_attempt is None or self.newest_attempt.result is None:
            return ()
        return (TextPart(self.newest_attempt.result),)


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """One message. `version` is the first version that contains it; None if that version was deleted.

    `usage` is what the message says about the tokens of its request; empty if it says nothing. `version_tokens` is what
    its version added to those of the session, if it ends the version and no message of that has a usage of its own; it
    has no counts if the totals went down.
    `answer_time` is the
    time that the agent took for a message of its own, since the message before; None for other messages, and where a
    new run or another branch begins. `previous_at` is the time of the message that is shown before it.
    """

    pk: int
    position: int
    role: str
    at: datetime
    version: int | None
    run_number: int | None
    size: int
    usage: Mapping[str, Any]
    parts: tuple[Part | CallCard, ...]
    answer_time: timedelta | None = None
    previous_at: datetime | None = None
    version_tokens: TokenCounts | None = None
    kind: str = field(default="message", init=False)

    def has_message_or_result_at(self, position: int | None) -> bool:
        """Return whether this message, or a result displayed with its call, has this position."""
        results = (part.result_position for part in self.parts if isinstance(part, CallCard))
        return position is not None and position in {self.position, *results}


@dataclass(frozen=True, slots=True)
class Handover:
    """Handover from the runs `ended` (in order) to `follower`."""

    ended: tuple[RunFacts, ...]
    follower: RunFacts
    kind: str = field(default="handover", init=False)

    @property
    def ended_runs_to_name(self) -> tuple[RunFacts, ...]:
        """Return the ended runs to name; of many, the first, the newest lost ones, and the last."""
        if len(self.ended) <= NAMED_RUNS:
            return self.ended
        lost_runs = [run for run in self.ended[1:-1] if run.status == RunStatus.LOST]
        return (self.ended[0], *lost_runs[-(NAMED_RUNS - 2) :], self.ended[-1])

    @property
    def unnamed_run_count(self) -> int:
        """Return the number of ended runs that are only counted."""
        return len(self.ended) - len(self.ended_runs_to_name)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Start of messages in which `version` replaced those of an earlier version, of another session if `forked`.

    `compacted` tells that they are summarised.
    """

    version: int | None
    forked: bool
    compacted: bool = False
    kind: str = field(default="rewrite", init=False)


Item = MessageEntry | CallCard | Handover | Rewrite


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages `first` to `upto` (exclusive) of a version, with the items between them."""

    place: TranscriptVersion
    first: int
    upto: int
    items: tuple[Item, ...]

    @property
    def has_earlier(self) -> bool:
        return self.first > 0

    @property
    def has_later(self) -> bool:
        return self.upto < self.place.length

    @property
    def has_error(self) -> bool:
        """Return whether a call or a result in it has an error."""
        parts = chain.from_iterable(item.parts if isinstance(item, MessageEntry) else (item,) for item in self.items)
        return any(
            part.has_error if isinstance(part, CallCard) else isinstance(part, ResultPart) and part.is_error
            for part in parts
        )


def get_newest_transcript_version(session: Session) -> TranscriptVersion:
    return TranscriptVersion(session.latest_version, session.head_segment_id, session.message_count, newest=True)


def find_transcript_version(session: Session, version: int | None = None) -> TranscriptVersion | None:
    """Return the transcript of a version, the newest by default; None if the version does not exist.

    Raises `IntegrityError` for a version that was altered.
    """
    if version is None or version == session.latest_version:
        return get_newest_transcript_version(session)
    found = version_lookup.load_version(session.pk, version)
    return None if found is None else _build_transcript_version(found)


def _build_transcript_version(version: Version) -> TranscriptVersion:
    return TranscriptVersion(version.version, version.segment_id, version.length, newest=False)


def count_messages_opened_at_once(count: int) -> int:
    """Return how many of `count` messages a window has: all of them, if few would be left."""
    return count if count - WINDOW <= _FEW else WINDOW


def load_conversation_window(
    session: Session,
    transcript: TranscriptVersion,
    *,
    first: int | None = None,
    upto: int | None = None,
    within: int | None = None,
    newest_run: int | None = None,
    with_version_tokens: bool = False,
) -> Conversation:
    """Load a window of the conversation of a version.

    Without bounds, the newest messages; with one bound, the window beside it, which ends before position `within`.
    With the number of the session's newest run, runs that cannot have taken over are not looked for. With
    `with_version_tokens`, one more query loads the tokens of versions whose messages state none.
    """
    if upto is None:
        end = transcript.length if within is None else min(within, transcript.length)
        upto = end if first is None else first + count_messages_opened_at_once(end - first)
    upto = max(0, min(upto, transcript.length))
    if first is None:
        first = upto - WINDOW if upto - WINDOW > _FEW else 0
    message_before, messages = _load_widened_window_and_message_before(transcript, first, upto)
    first, upto = (messages[0].position, messages[-1].position + 1) if messages else (upto, upto)
    builder = _ConversationBuilder(
        session, transcript, messages, message_before, ends=upto == transcript.length, newest_run=newest_run
    )
    items = builder.build_items()
    if with_version_tokens and session.total_tokens:
        items = _add_tokens_of_versions(session, items, ends=upto == transcript.length)
    return Conversation(transcript, first, upto, items)


def _add_tokens_of_versions(session: Session, items: Sequence[Item], *, ends: bool) -> tuple[Item, ...]:
    """Add the tokens of each version to its last message, where its messages state none.

    The last version of a window that does not end the transcript may go on after it, and is left out.
    """
    entries = [item for item in items if isinstance(item, MessageEntry)]
    last_entries = {entry.version: entry for entry in entries if entry.version is not None}
    for entry in entries:
        if entry.usage or (entry is entries[-1] and not ends):
            last_entries.pop(entry.version or 0, None)
    added = version_list.load_tokens_added_by_versions(
        session.pk, last_entries, is_fork=session.forked_from_id is not None
    )
    tokens = {last_entries[version].pk: counts for version, counts in added.items()}
    return tuple(
        replace(item, version_tokens=tokens[item.pk]) if isinstance(item, MessageEntry) and item.pk in tokens else item
        for item in items
    )


def load_prompt_if_before_window(session: Session, window: Conversation, position: int) -> Conversation | None:
    """Load the prompt at a position alone; None if the window contains it."""
    if position >= window.first:
        return None
    return load_conversation_window(session, window.place, first=position, upto=position + 1)


def find_newest_transcript_version_upto_step(session: Session, step: int) -> TranscriptVersion | None:
    """Return the transcript of the newest version up to `step`, where a call was issued; None if there is none.

    Raises `IntegrityError` for a version that was altered.
    """
    found = version_lookup.load_newest_version(session.pk, upto=step)
    return None if found is None else _build_transcript_version(found)


def iterate_conversation_windows(
    session: Session, transcript: TranscriptVersion, *, size: int = 100
) -> Iterator[Conversation]:
    """Yield a version from start to end in windows of `size` messages, or fewer if the messages are large."""
    first, width = 0, size
    while not first or first < transcript.length:
        window = load_conversation_window(session, transcript, first=first, upto=first + width)
        if window.first > first and width > 1:
            width //= 2
            continue
        yield replace(
            window, items=tuple(item for item in window.items if _get_item_position_or_infinity(item) >= first)
        )
        first, width = max(window.upto, first + 1), size


def _get_item_position_or_infinity(item: Item) -> float:
    return item.position if isinstance(item, MessageEntry) else inf


def _load_widened_window_and_message_before(
    transcript: TranscriptVersion, first: int, upto: int
) -> tuple[StoredMessage | None, list[StoredMessage]]:
    """Load the messages of a window, widened so that no result is separated from its call, and the one before it."""
    if transcript.segment_id is None or first >= upto:
        return None, []
    stored = transcript_message_queries.load_message_window_or_raise_if_gap(
        transcript.segment_id, max(0, first - _MARGIN), min(transcript.length, upto + _MARGIN)
    )
    if stored[0].position > first:  # very large neighbours would displace the requested messages
        stored = transcript_message_queries.load_message_window_or_raise_if_gap(transcript.segment_id, first, upto)
    start = next((index for index, message in enumerate(stored) if message.position >= first), 0)
    while start > 0 and _begins_with_tool_result(stored[start]):
        start -= 1
    end = next((index for index, message in enumerate(stored) if message.position >= upto), len(stored))
    while end < len(stored) and _begins_with_tool_result(stored[end]):
        end += 1
    return stored[start - 1] if start else None, stored[start:end]


def _find_usage_object_of_message_or_empty(body: str) -> Mapping[str, Any]:
    """Read the usage of a message: its own, or that of its source."""
    if '"usage":{' not in body:
        return {}
    try:
        message = parse_json(body)
    except ValueError:
        return {}
    if not isinstance(message, dict):
        return {}
    source = message.get("source")
    usage = (source if isinstance(source, dict) else message).get("usage") or message.get("usage")
    return usage if isinstance(usage, dict) else {}


def _list_first_messages_of_segments(
    messages: Sequence[StoredMessage], message_before: StoredMessage | None
) -> list[StoredMessage]:
    """List the messages that may be the first ones of their segments: those whose predecessor is in another one."""
    return [
        message
        for before, message in pairwise([message_before, *messages])
        if message is not None and (before is None or before.segment_id != message.segment_id)
    ]


def _begins_with_tool_result(message: StoredMessage) -> bool:
    parts = parse_message_parts.parse_message_parts(message.body)
    return bool(parts) and isinstance(parts[0], ResultPart)


def _asks_for_call(body: str, record: CallRecord) -> bool:
    """Return whether a message asks for a logged call; people may have changed the arguments of it afterwards."""
    return any(
        isinstance(part, CallPart)
        and part.call_id == record.call_id
        and part.name == record.tool
        and (record.has_changed_args or canonicalize_arguments_or_empty(part.args) == record.args)
        for part in parse_message_parts.parse_message_parts(body)
    )


def _get_key_of_attempts(attempts: Sequence[CallRecord]) -> tuple[str, int]:
    return attempts[0].call_id, attempts[0].step


def canonicalize_arguments_or_empty(args: Any) -> str:
    """Return arguments as canonical JSON, as the log stores them; empty if they cannot be encoded (for example
    infinity)."""
    try:
        return to_canonical_json(args)
    except InvalidInput:
        return ""


def digest_arguments(args: Any) -> str:
    """Return the digest of arguments, as the log stores it."""
    return digest_text(canonicalize_arguments_or_empty(args))


class _ConversationBuilder:
    """Builder of one window, in as many queries for any length."""

    def __init__(
        self,
        session: Session,
        transcript: TranscriptVersion,
        messages: Sequence[StoredMessage],
        message_before: StoredMessage | None,
        *,
        ends: bool,
        newest_run: int | None,
    ) -> None:
        self.session, self.newest_run, self.transcript = session, newest_run, transcript
        self.messages, self.message_before = messages, message_before
        self.parts = [parse_message_parts.parse_message_parts(message.body) for message in messages]
        self.newest_end = transcript.newest and ends
        self.segments = message_origin_versions_and_runs.load_segments_of_messages(
            _list_first_messages_of_segments(messages, message_before)
        )
        self.origins = message_origin_versions_and_runs.load_origins_by_position(
            session.pk, [message_before, *messages] if message_before else messages
        )
        self.continued = self._find_keys_of_grown_messages()
        self.log = self._load_logged_calls(transcript.version)
        self.replayed = self._load_replayed_calls()
        self.pairs = call_result_pairs.pair_calls_with_results(self.parts)
        self.used: set[tuple[str, int]] = set()
        #: Key of a logged call whose result was used again → position of the first message with it.
        self.first_positions: dict[tuple[str, int], int] = {}
        self.positions_given_again: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self.start_of_last_turn = self._find_start_of_last_turn() if self.newest_end else len(messages)
        self.runs = self._load_runs_if_handover_is_possible()

    def build_items(self) -> tuple[Item, ...]:
        items: list[Item] = []
        before = self.origins.get(self.message_before.position) if self.message_before else None
        run_number = before.run_number if before else None
        shown_at: datetime | None = None
        for index, message in enumerate(self.messages):
            origin = self.origins.get(message.position)
            entry = self._build_conversation_entry(index, message, origin, shown_at)
            items += self._build_rewrite_items(index, message, origin)
            saved_by = _find_run_of_message(entry)
            if saved_by is not None:
                items += self._build_handovers(run_number, saved_by)
                run_number = saved_by
            if entry.parts or not self.parts[index]:  # a result is displayed with its call
                items.append(entry)
                shown_at = entry.at
        if self.positions_given_again:
            items = [self._add_positions_given_again(item) for item in items]
        return (*items, *self._build_pending_items(run_number)) if self.newest_end else tuple(items)

    def _add_positions_given_again(self, item: Item) -> Item:
        """Add to a message's calls where their stored results were given again."""
        return (
            replace(item, parts=tuple(map(self._add_positions, item.parts))) if isinstance(item, MessageEntry) else item
        )

    def _add_positions(self, part: Part | CallCard) -> Part | CallCard:
        if not isinstance(part, CallCard) or part.stored_result_use is not None or not part.attempts:
            return part
        positions = self.positions_given_again.get(_get_key_of_attempts(part.attempts), ())
        return replace(part, positions_given_again=tuple(positions)) if positions else part

    def _find_start_of_last_turn(self) -> int:
        """Return the index of the first message of the turn after which there are only results."""
        start = len(self.messages)
        while start and self.parts[start - 1] and isinstance(self.parts[start - 1][0], ResultPart):
            start -= 1
        while start and self.messages[start - 1].role.lower() in AGENT_ROLES:
            start -= 1
        return start

    def _build_conversation_entry(
        self, index: int, message: StoredMessage, origin: Origin | None, previous_at: datetime | None
    ) -> MessageEntry:
        version = origin.version if origin else None
        parts = [
            self._build_call_card(part, (index, number), version) if isinstance(part, CallPart) else part
            for number, part in enumerate(self.parts[index])
            if (index, number) not in self.pairs.taken
        ]
        return MessageEntry(
            pk=message.pk,
            position=message.position,
            role=message.role,
            at=message.created_at,
            version=version,
            run_number=origin.run_number if origin else None,
            size=message.size,
            usage=_find_usage_object_of_message_or_empty(message.body),
            parts=tuple(parts),
            answer_time=self._measure_time_taken_to_answer(index),
            previous_at=previous_at,
        )

    def _measure_time_taken_to_answer(self, index: int) -> timedelta | None:
        before, message = self.messages[index - 1] if index else self.message_before, self.messages[index]
        if before is None or message.role.lower() not in AGENT_ROLES:
            return None
        return self._measure_time_within_run(before, message)

    def _measure_time_to_result(self, call_index: int, result_index: int) -> timedelta | None:
        if sum(isinstance(part, CallPart) for part in self.parts[call_index]) > 1:
            return None
        return self._measure_time_within_run(self.messages[call_index], self.messages[result_index])

    def _measure_time_within_run(self, earlier: StoredMessage, later: StoredMessage) -> timedelta | None:
        """Return the time between two messages of one run, if nobody rewrote the later one; None if it is not positive.

        Versions that were saved without a run, as frameworks do, count as those of one run.
        """
        saved, saved_later = self.origins.get(earlier.position), self.origins.get(later.position)
        if saved is None or saved_later is None or saved.run_number != saved_later.run_number:
            return None
        if earlier.segment_id != later.segment_id and later.pk not in self.continued:
            return None
        return later.created_at - earlier.created_at if later.created_at > earlier.created_at else None

    def _build_call_card(self, call: CallPart, spot: Spot, version: int | None) -> CallCard:
        attempts = self._find_and_use_up_call_attempts(call, version, self.messages[spot[0]].position)
        if attempts:
            call = replace(call, args=restore_argument_order(call.args, attempts[0].args_order))
        use = self._find_use_of_stored_result(spot, attempts)
        if spot not in self.pairs.answers:
            is_of_last_turn = spot[0] >= self.start_of_last_turn
            return CallCard(call, None, None, attempts, is_of_last_turn=is_of_last_turn, stored_result_use=use)
        index, number = self.pairs.answers[spot]
        result = self.parts[index][number]
        return CallCard(
            call,
            result if isinstance(result, ResultPart) else None,
            self.messages[index].position,
            attempts,
            self._measure_time_to_result(spot[0], index),
            stored_result_use=use,
        )

    def _find_use_of_stored_result(self, spot: Spot, attempts: tuple[CallRecord, ...]) -> StoredResultUse | None:
        """Find out whether an earlier message has the call of these attempts, so that nothing ran for this one.

        None if no saved message has it: a run that died may not have saved what the model asked for.
        """
        if not any(attempt.replays for attempt in attempts):
            return None
        key, position = _get_key_of_attempts(attempts), self.messages[spot[0]].position
        if key not in self.first_positions:
            earlier = self._find_message_before_window(attempts[0])
            self.first_positions[key] = position if earlier is None else earlier
        if self.first_positions[key] == position:
            return None
        self.positions_given_again[key].append(position)
        if spot not in self.pairs.answers:
            return StoredResultUse(self.first_positions[key], None, None, None)
        result = self.messages[self.pairs.answers[spot][0]]
        origin = self.origins.get(result.position)
        return StoredResultUse(
            self.first_positions[key],
            result.created_at,
            origin.version if origin else None,
            origin.run_number if origin else None,
        )

    def _find_message_before_window(self, record: CallRecord) -> int | None:
        """Find the last message before the window that asks for a logged call; one query unless the window begins the
        transcript."""
        first = self.messages[0].position
        if not first:
            return None
        quoted_id = json.dumps(record.call_id, ensure_ascii=False)
        messages = transcript_message_queries.query_messages_of_ranges(self.transcript.segment_ranges).filter(
            transcript_message_queries.build_body_contains_condition(quoted_id), position__lt=first
        )
        rows = messages.order_by("-position").values_list("position", "body")[:_MESSAGES_OF_ONE_CALL_ID]
        return next((position for position, body in rows if _asks_for_call(body, record)), None)

    def _find_and_use_up_call_attempts(
        self, call: CallPart, version: int | None, position: int
    ) -> tuple[CallRecord, ...]:
        """Find the logged attempts of a call in the transcript, which the message at `position` asks for.

        Providers reuse call ids, so the tool, the arguments and the step have to match too; without an unused match, an
        earlier call answered it.
        """
        steps = {key: rows for key, rows in self.log.items() if key[0] == call.call_id and rows[0].tool == call.name}
        text = canonicalize_arguments_or_empty(call.args)
        steps = {key: rows for key, rows in steps.items() if rows[0].args == text} or steps
        if not steps:
            return self._find_and_use_up_replayed_calls(call)
        fresh = [key for key in steps if key not in self.used and (version is None or key[1] >= version - 1)]
        key_of_match = min(fresh) if fresh else max(steps)
        if fresh:
            self.first_positions.setdefault(key_of_match, position)
        self.used.add(key_of_match)
        return tuple(steps[key_of_match])

    def _find_and_use_up_replayed_calls(self, call: CallPart) -> tuple[CallRecord, ...]:
        """Find the logged call whose result answered a call under another id."""
        rows = tuple(self.replayed.get((call.name, digest_arguments(call.args)), ()))
        self.used |= {(record.call_id, record.step) for record in rows}
        return rows

    def _load_replayed_calls(self) -> dict[tuple[str, str], list[CallRecord]]:
        logged_ids = {call_id for call_id, _ in self.log}
        calls = (part for parts in self.parts for part in parts if isinstance(part, CallPart))
        unknown = (call for call in calls if call.call_id not in logged_ids)
        return call_records.load_replayed_calls_by_tool_and_digest(
            self.session.pk, {digest_arguments(call.args) for call in unknown}
        )

    def _load_logged_calls(self, version: int) -> dict[tuple[str, int], list[CallRecord]]:
        call_ids = {part.call_id for parts in self.parts for part in parts if isinstance(part, CallPart)}
        log: defaultdict[tuple[str, int], list[CallRecord]] = defaultdict(list)
        for record in call_records.load_calls_with_ids_and_open_or_since_step(
            self.session.pk, call_ids, since_step=version if self.newest_end else None
        ):
            log[record.call_id, record.step].append(record)
        return log

    def _build_rewrite_items(self, index: int, message: StoredMessage, origin: Origin | None) -> Iterator[Rewrite]:
        parent = self._find_rewrite_that_begins_with_message(message)
        if parent is not None and message.pk not in self.continued:
            yield Rewrite(
                origin.version if origin else None,
                forked=parent.parent_session != self.session.pk,
                compacted=parse_message_parts.ends_with_compaction_sentence(self.parts[index]),
            )

    def _find_rewrite_that_begins_with_message(self, message: StoredMessage) -> SegmentFacts | None:
        """Return the facts of a message's segment if the message is the first one that differs from its parent."""
        segment = self.segments.get(message.segment_id)
        is_rewrite = segment and segment.parent_id is not None and segment.parent_length == message.position
        return segment if is_rewrite else None

    def _find_keys_of_grown_messages(self) -> set[int]:
        """Find messages that have grown: the parts of the message that they replaced, and more."""
        replaced = {
            message.pk: (segment.parent_id, message.position)
            for message in self.messages
            if message.message_id
            and (segment := self._find_rewrite_that_begins_with_message(message)) is not None
            and segment.parent_id is not None
            and segment.parent_session == self.session.pk
        }
        longest = max((message.size for message in self.messages if message.pk in replaced), default=0)
        bodies = transcript_message_queries.load_unverified_ids_and_bodies_by_place(
            set(replaced.values()), longest=longest
        )
        return {
            message.pk
            for message, parts in zip(self.messages, self.parts, strict=True)
            if message.pk in replaced
            and transcript_message_queries.has_message_only_grown(
                bodies.get(replaced[message.pk]), message.message_id, parts
            )
        }

    def _build_pending_items(self, run_number: int | None) -> Iterator[Item]:
        """Yield logged calls that the transcript does not contain yet, then runs that have not saved."""
        pending = [rows for key, rows in self.log.items() if key not in self.used]
        for rows in sorted(pending, key=lambda rows: rows[0].pk):
            last = rows[-1]
            yield from self._build_handovers(run_number, last.run_number)
            run_number = max(run_number or 0, last.run_number)
            call = CallPart(last.call_id, last.tool, parse_json_or_return_text(last.args_json_in_caller_order))
            yield CallCard(call, None, None, tuple(rows))
        if self.runs:
            yield from self._build_handovers(run_number, max(self.runs))

    def _build_handovers(self, before: int | None, after: int) -> Iterator[Handover]:
        if before is None or after <= before or after not in self.runs:
            return
        runs = (self.runs[number] for number in range(before, after) if number in self.runs)
        if ended_runs := tuple(run for run in runs if run.number > FORK_RUN_NUMBER):
            yield Handover(ended_runs, self.runs[after])

    def _load_runs_if_handover_is_possible(self) -> dict[int, RunFacts]:
        numbers = [origin.run_number for origin in self.origins.values() if origin.run_number is not None]
        numbers += [record.run_number for rows in self.log.values() for record in rows]
        is_one_run = bool(numbers) and min(numbers) == max(numbers)
        if not numbers or (is_one_run and (not self.newest_end or max(numbers) == self.newest_run)):
            return {}  # there is no handover
        return message_origin_versions_and_runs.load_runs_by_number(
            self.session.pk, min(numbers), None if self.newest_end else max(numbers)
        )


def _find_run_of_message(entry: MessageEntry) -> int | None:
    """Find the run that saved a message, else the one that first made a call of it; None if neither is known.

    Frameworks save versions without a run, and their calls are logged by the run that guards them.
    """
    if entry.run_number is not None:
        return entry.run_number
    cards = (part for part in entry.parts if isinstance(part, CallCard))
    attempts = (card.attempts[0] for card in cards if card.attempts and card.stored_result_use is None)
    return max((attempt.run_number for attempt in attempts if attempt.run_number > FORK_RUN_NUMBER), default=None)
