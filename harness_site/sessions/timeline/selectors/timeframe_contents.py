"""Contents of a time range of a session: runs with their turns, calls, waits, versions and events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django.db.models import Q

from checkpoints.db import clock
from checkpoints.enums import HOOK_KINDS, RunStatus
from checkpoints.models import Run
from harness_site.core.epoch_microseconds import convert_to_datetime, convert_to_microseconds, fill_open_range_ends
from harness_site.sessions.selectors import calls_of_original_after_fork, stored_results_given_again
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.selectors.stored_results_given_again import LoggedCall
from harness_site.sessions.timeline.selectors import (
    lane_turns,
    run_lanes,
    takeover_approval_verification_and_handover_events,
    timeline_queries,
    turn_contents,
)
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import (
    STATUS_CHANGING_KINDS,
    CallDecisionRow,
    Lane,
    Stretch,
    VersionMark,
)
from harness_site.sessions.timeline.selectors.timeline_queries import CallGroupSize
from harness_site.sessions.timeline.selectors.turn_contents import TurnContents

#: Maximum numbers of the newest runs, and of calls, versions and peer calls each, in one timeframe.
LANES = 24
LIMIT = 10_000

#: Number of calls that are drawn one by one. Of more calls, short completed ones are grouped by parts of the time,
#: narrower than a bar, and of the steps, so that a busy hour of a long session has several groups.
SINGLE_CALLS = 500
PARTS_OF_TIME = 256
PARTS_OF_STEPS = 32

#: Kinds of turns in which only tools ran whose calls are not logged. They are drawn as calls.
_UNLOGGED_KINDS = frozenset({"ran", "failed"})
_START, _END = itemgetter(1), itemgetter(2)


class PeerWait(NamedTuple):
    """A call to another agent (`kind` is peer) with its `status`; an open one ends now."""

    kind: str
    start: int
    end: int
    peer: str
    status: str


class Event(NamedTuple):
    """A moment: `kind` is crash, takeover, pause, taken, verified, vote or decision.

    A decision names its call and its actor; the answer of a verify hook (`kind` is verified) is one of a program. A
    vote is a decision with which more of the `approvals` people have to agree.
    """

    kind: str
    start: int
    end: int
    decision: str = ""
    actor: str = ""
    tool: str = ""
    call_pk: int | None = None
    approvals: int = 1


class StoredResult(NamedTuple):
    """A stored result that was given for a call, so that no tool ran (`kind` is replay), by the end of a version.

    `call_pk` is the key of the logged call of `tool` whose result it is.
    """

    kind: str
    start: int
    end: int
    tool: str
    call_pk: int
    version: int


#: Anything on a timeline. Every type begins with kind, start and end.
Occurrence: TypeAlias = Stretch | Turn | PeerWait | StoredResult | Event | VersionMark


@dataclass(slots=True)
class RunCourse:
    """One run: its lane, and the details that the overview omits.

    The versions of turns that added nothing but `stored_results` end no turn.
    """

    lane: Lane
    turns: list[Turn] = field(default_factory=list)
    stored_results: list[StoredResult] = field(default_factory=list)
    asked: list[PeerWait] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeframe:
    """Contents from `since` to `until`. `cut` is the moment before which rows were left out.

    `version_rows` are the versions whose turns these are, and one before and after them, oldest first, as
    `run_lanes.build_message_bounds_of_version` reads them.
    """

    courses: tuple[RunCourse, ...]
    since: datetime
    until: datetime
    cut: datetime | None
    version_rows: Sequence[tuple[Any, ...]] = ()

    def count_turns(self) -> int:
        return sum(len(run_course.turns) for run_course in self.courses)

    @property
    def has_too_many_turns(self) -> bool:
        """Whether only the turns of the table have contents, because there are too many."""
        return self.count_turns() > turn_contents.MAX_TURNS

    @property
    def names_unlogged_tools_in_turns(self) -> bool:
        """Whether a turn with logged calls or answers of a model ran tools without logged calls, which have no bars."""
        logged = _collect_tools_of_logged_calls(self)
        turns = (turn for run_course in self.courses for turn in run_course.turns if turn.kind not in _UNLOGGED_KINDS)
        return logged is not None and any(
            turn.contents is not None and not logged.issuperset(filter(None, turn.contents.tools)) for turn in turns
        )


class _DecisionRow(NamedTuple):
    call_pk: int
    call_id: str
    tool: str
    kind: str
    final: bool
    actor: str
    actor_kind: str
    approvals: int
    at: int


@dataclass(frozen=True, slots=True)
class _TimeSpan:
    since: datetime | None
    until: datetime | None

    @property
    def is_unlimited(self) -> bool:
        return self.since is None and self.until is None

    @property
    def datetime_bounds(self) -> tuple[datetime, datetime]:
        return fill_open_range_ends(self.since, self.until)

    @property
    def microsecond_bounds(self) -> tuple[int, int]:
        since, until = self.datetime_bounds
        return convert_to_microseconds(since), convert_to_microseconds(until)


def choose_call_group_size_or_none(
    head: SessionHead, since: datetime | None = None, until: datetime | None = None
) -> CallGroupSize | None:
    """Choose how large the groups of calls of a session are in a range; None if it has few calls."""
    if head.calls <= SINGLE_CALLS:
        return None
    start, end = (
        max(since or head.row.created_at, head.row.created_at),
        min(until or head.row.updated_at, head.row.updated_at),
    )
    microseconds = (end - start) // timedelta(microseconds=PARTS_OF_TIME)
    return CallGroupSize(max(microseconds, 1000), max(head.row.version // PARTS_OF_STEPS, 1))


def load_timeframe(
    session_pk: int,
    *,
    has_pauses: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
    group_size: CallGroupSize | None = None,
    has_copied_calls: bool = False,
) -> Timeframe | None:
    """Load a timeframe in at most ten queries; None if it is empty.

    Without `has_pauses`, the session has never waited for other agents, so no waits are read. With `has_copied_calls`,
    calls that only the original of a fork has made are left out, which takes at most five queries more.
    """
    span = _TimeSpan(since, until)
    decisions = [
        _DecisionRow(*row) for row in reversed(list(timeline_queries.query_newest_decisions(session_pk, most=LIMIT)))
    ]
    decisions_by_call = run_lanes.group_decisions_by_call(_iterate_status_changing_decisions(decisions))
    after_fork = (
        calls_of_original_after_fork.build_condition_of_calls_after_fork(session_pk) if has_copied_calls else None
    )
    calls, earlier_calls = _load_call_rows_and_start_if_truncated(
        session_pk, span, group_size, decisions_by_call, after_fork
    )
    pauses = list(timeline_queries.query_newest_pauses(session_pk, most=LIMIT)) if has_pauses else []
    peer_query = timeline_queries.query_agent_calls_in_time(session_pk, since, until, most=LIMIT + 1) if pauses else ()
    peer_rows, earlier_peer_calls = _load_newest_rows_and_start_if_truncated(peer_query, begin=3)
    runs = _load_runs_in_span(
        session_pk, span, {row[1] for row in calls} | {row[0] for row in peer_rows} if not span.is_unlimited else set()
    )
    version_rows, earlier_marks = _load_version_rows_and_start_if_truncated(session_pk, span)
    events = takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(session_pk)
    courses = {
        run_lanes.convert_run_key_to_text(run): RunCourse(run_lanes.build_empty_run_lane(run, events))
        for run in reversed(runs[:LANES])
    }
    if not courses:
        return None
    lanes = {key: run_course.lane for key, run_course in courses.items()}
    _add_version_marks(run_lanes.iterate_runs_and_version_marks(version_rows), courses)
    calls_of_lanes = calls if len(runs) <= LANES else [row for row in calls if row[1] in lanes]
    run_lanes.add_calls_to_run_lanes(calls_of_lanes, decisions_by_call, lanes, events)
    _add_waits_for_agents_to_courses(peer_rows, courses)
    for run_course in courses.values():
        waits = ((asked.start, asked.end) for asked in run_course.asked)
        run_course.turns = list(lane_turns.derive_lane_turns_from_version_marks(run_course.lane, waits))
    _append_run_events_to_courses(courses, pauses, decisions)
    parts = [part for run_course in courses.values() for part in _split_course_of_fork(run_course)]
    for run_course in parts:
        _remove_items_outside_span_and_sort_events(run_course, span)
    lane_cut = [run_course.lane.start for run_course in list(courses.values())[:1] if len(runs) > LANES]
    cuts = [*earlier_calls, *earlier_peer_calls, *earlier_marks, *lane_cut]
    return _build_timeframe(parts, span, cuts, version_rows)


def load_contents_of_turns(session_pk: int, frame: Timeframe, versions: Collection[int]) -> dict[int, Turn]:
    """Load what happened in turns of a timeframe by the versions at their ends; return the turns with it by version.

    At most three queries.
    """
    contents = _load_contents_of_versions(
        session_pk, frame, versions, stored_results_given_again.load_calls_with_given_results(session_pk)
    )
    return _add_contents_to_turns(frame, contents)


def add_contents_to_turns_if_few(session_pk: int, frame: Timeframe) -> None:
    """Load what happened in the turns of a timeframe, if there are not too many, into its courses.

    Stored results that were given again are also looked for in versions that no run saved.
    """
    if frame.has_too_many_turns:
        return
    given = stored_results_given_again.load_calls_with_given_results(session_pk)
    versions = {turn.version for run_course in frame.courses for turn in run_course.turns}
    outside = [mark.version for run_course in frame.courses for mark in run_course.lane.marks if not mark.by_run]
    if given:
        versions.update(outside[-turn_contents.MAX_TURNS :])
    contents = _load_contents_of_versions(session_pk, frame, versions, given)
    turns = _add_contents_to_turns(frame, contents)
    saved_at = {row[1]: row[2] for row in frame.version_rows}
    for run_course in frame.courses:
        run_course.stored_results = list(_iterate_stored_results_given_again(run_course, contents, saved_at))
        run_course.turns = [
            turns.get(turn.version, turn)
            for turn in run_course.turns
            if turn.version not in contents or not contents[turn.version].has_only_stored_results
        ]


def _load_contents_of_versions(
    session_pk: int, frame: Timeframe, versions: Collection[int], given: Sequence[LoggedCall]
) -> dict[int, TurnContents]:
    """Load what versions added, with the stored results of the calls `given` apart; at most two queries."""
    bounds = (
        (
            None if before is None else run_lanes.build_message_bounds_of_version(before),
            run_lanes.build_message_bounds_of_version(row),
        )
        for before, row in pairwise([None, *frame.version_rows])
        if row is not None and row[1] in versions
    )
    contents = turn_contents.load_turn_contents(turn_contents.list_added_message_ranges(bounds))
    if not given:
        return contents
    calls = [call for each in contents.values() for call, _is_error in each.results]
    index = stored_results_given_again.load_stored_result_index(session_pk, calls, given)
    run_numbers = {
        mark.version: run_course.lane.run.number for run_course in frame.courses for mark in run_course.lane.marks
    }
    return {
        version: turn_contents.separate_stored_results_given_again(each, version, run_numbers[version], index)
        if version in run_numbers
        else each
        for version, each in contents.items()
    }


def _add_contents_to_turns(frame: Timeframe, contents: Mapping[int, TurnContents]) -> dict[int, Turn]:
    """Return the turns of a timeframe whose contents are known, with these, by version."""
    logged = _collect_tools_of_logged_calls(frame)
    return {
        turn.version: _add_contents_to_turn(turn, contents[turn.version], logged, run_course.lane)
        for run_course in frame.courses
        for turn in run_course.turns
        if turn.version in contents
    }


def _add_contents_to_turn(turn: Turn, contents: TurnContents, logged: Set[str] | None, lane: Lane) -> Turn:
    """Return a turn with its contents, and the time of one call that is not logged as the transcript has it.

    That is the time between the messages with the call and with its result, if both are of the run.
    """
    turn = turn._replace(kind=_choose_kind_of_turn(turn.kind, contents, logged), contents=contents)
    if turn.kind not in _UNLOGGED_KINDS or turn.waits or contents.call_and_result_at is None:
        return turn
    start, end = contents.call_and_result_at
    if not lane.start <= start < end:
        return turn
    return turn._replace(start=start, end=end, saved=turn.saved_at)


def _collect_tools_of_logged_calls(frame: Timeframe) -> frozenset[str] | None:
    """Return the tools whose calls are logged; None if calls are grouped, so that all tools may be logged."""
    stretches = [stretch for run_course in frame.courses for stretch in run_course.lane.stretches]
    return None if any(each.number > 1 for each in stretches) else frozenset(each.tool for each in stretches)


def _iterate_stored_results_given_again(
    run_course: RunCourse, contents: Mapping[int, TurnContents], saved_at: Mapping[int, int]
) -> Iterator[StoredResult]:
    """Yield the stored results that the versions of a run added, from the start of the work before each version."""
    turns = {turn.version: turn for turn in run_course.turns}
    for mark in run_course.lane.marks:
        if mark.version in contents:
            since = max(run_course.lane.start, saved_at.get(mark.version - 1, mark.end))
            start = turns[mark.version].periods_of_work[-1][0] if mark.version in turns else min(since, mark.end)
            for logged in contents[mark.version].given_again:
                yield StoredResult("replay", start, mark.end, logged.tool, logged.pk, mark.version)


def _choose_kind_of_turn(kind: str, contents: TurnContents, logged: Set[str] | None) -> str:
    """Choose the kind of a turn by what it added: `logged` are the tools whose calls are logged, None if unknown."""
    if contents.has_only_stored_results:
        return "replay"
    if contents.answers:
        return kind if contents.tools else "model"
    if not contents.tools or kind == "agents":
        return kind
    if logged is None or not logged.isdisjoint(contents.tools):
        return "tools"
    return "failed" if contents.failed else "ran"


def _load_call_rows_and_start_if_truncated(
    session_pk: int,
    span: _TimeSpan,
    group_size: CallGroupSize | None,
    decided: Collection[int],
    left_out: Q | None,
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return rows of `LoggedCallRow`, oldest first, and the start of the oldest if there are more."""
    if group_size is not None:
        groups = timeline_queries.query_calls_in_time_grouping_short_ones(
            session_pk, span.since, span.until, group_size, decided, most=LIMIT + 1, left_out=left_out
        )
        rows, cut = _load_newest_rows_and_start_if_truncated(groups, begin=4)
        if sum(row[-1] for row in rows) > SINGLE_CALLS:
            return rows, cut
    calls = timeline_queries.query_newest_calls_in_time(
        session_pk, span.since, span.until, most=LIMIT + 1, left_out=left_out
    )
    return _load_newest_rows_and_start_if_truncated(calls, begin=4)


def _load_newest_rows_and_start_if_truncated(
    queryset: Iterable[tuple[Any, ...]], *, begin: int
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the newest rows, oldest first, and the start of the oldest if there are more."""
    rows = list(queryset)
    newest = rows[:LIMIT][::-1]
    return newest, [newest[0][begin]] if len(rows) > LIMIT else []


def _iterate_status_changing_decisions(decisions: Iterable[_DecisionRow]) -> Iterator[CallDecisionRow]:
    for decision in decisions:
        if decision.final and decision.kind in STATUS_CHANGING_KINDS:
            yield CallDecisionRow(decision.call_pk, decision.call_id, decision.kind, decision.actor_kind, decision.at)


def _load_runs_in_span(session_pk: int, span: _TimeSpan, run_keys: Iterable[str]) -> list[Run]:
    """Load the newest runs of the range first, one more than the limit if there are more.

    Includes runs whose calls end after them.
    """
    if span.is_unlimited:
        return list(timeline_queries.query_newest_runs(session_pk, most=LANES + 1))
    keys = [UUID(key) for key in run_keys]
    return list(timeline_queries.query_newest_runs_in_time(session_pk, *span.datetime_bounds, keys, most=LANES + 1))


def _load_version_rows_and_start_if_truncated(
    session_pk: int, span: _TimeSpan
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Load the versions of the range, and one on either side, whose turns overlap it."""
    rows_inside, cuts = _load_newest_rows_and_start_if_truncated(
        timeline_queries.query_newest_versions_in_time(session_pk, span.since, span.until, most=LIMIT + 1), begin=2
    )
    before = timeline_queries.query_last_version_before(session_pk, span.since) if span.since is not None else []
    after = timeline_queries.query_first_version_after(session_pk, span.until) if span.until is not None else []
    return [*before, *rows_inside, *after], cuts


def _add_version_marks(marks: Iterable[tuple[str | None, VersionMark]], courses: dict[str, RunCourse]) -> None:
    order = [*courses.values()]
    for run, mark in marks:
        if run is None:
            if mark.start >= order[0].lane.start:  # else it belongs to an earlier run that was left out
                _find_run_at_or_first(order, mark.start).lane.marks.append(mark)
            continue
        if run in courses:
            courses[run].lane.marks.append(mark)


def _add_waits_for_agents_to_courses(peer_rows: Iterable[tuple[Any, ...]], courses: dict[str, RunCourse]) -> None:
    now = convert_to_microseconds(clock.now())
    for run, peer, status, created_at, settled_at in peer_rows:
        if run in courses:
            end = max(now if settled_at is None else settled_at, created_at)
            courses[run].asked.append(PeerWait("peer", created_at, end, peer, status))


def _append_run_events_to_courses(
    courses: dict[str, RunCourse], pauses: Iterable[tuple[str, int, int | None]], decisions: Iterable[_DecisionRow]
) -> None:
    for run_course in courses.values():
        lane = run_course.lane
        if lane.takeover is not None:
            run_course.events.append(_build_momentary_event("takeover", convert_to_microseconds(lane.takeover.at)))
        elif lane.run.status == RunStatus.LOST:
            run_course.events.append(_build_momentary_event("crash", lane.end))
    for run, paused_at, taken_at in pauses:
        if run in courses:
            courses[run].events.append(_build_momentary_event("pause", paused_at))
            if taken_at is not None:
                courses[run].events.append(_build_momentary_event("taken", taken_at))
    order = [*courses.values()]
    for row in decisions:
        kind = "verified" if row.kind in HOOK_KINDS else "decision" if row.final else "vote"
        event = Event(kind, row.at, row.at, row.kind, row.actor, row.tool, row.call_pk, row.approvals)
        _find_run_at_or_first(order, row.at).events.append(event)


def _build_momentary_event(kind: str, at: int) -> Event:
    return Event(kind, at, at)


def _split_course_of_fork(run_course: RunCourse) -> list[RunCourse]:
    """Split the course of a fork operation into the copied calls and what happened in the fork."""
    *copied, last = run_lanes.split_lane_of_fork(run_course.lane)
    return [*map(RunCourse, copied), replace(run_course, lane=last)]


def _find_run_at_or_first(courses: Sequence[RunCourse], at: int) -> RunCourse:
    """Return the last run that had started at this time."""
    return next((run_course for run_course in reversed(courses) if run_course.lane.start <= at), courses[0])


def _remove_items_outside_span_and_sort_events(run_course: RunCourse, span: _TimeSpan) -> None:
    """Remove occurrences outside of the range."""
    lane, (since, until) = run_course.lane, span.microsecond_bounds
    if not span.is_unlimited:
        lane.stretches = [item for item in lane.stretches if item.start <= until and item.end >= since]
        lane.marks = [item for item in lane.marks if item.start <= until and item.end >= since]
        run_course.turns = [item for item in run_course.turns if item.start <= until and item.end >= since]
        run_course.asked = [item for item in run_course.asked if item.start <= until and item.end >= since]
        run_course.events = [item for item in run_course.events if item.start <= until and item.end >= since]
    run_course.events.sort(key=_START)


def _build_timeframe(
    courses: Iterable[RunCourse], span: _TimeSpan, cuts: Sequence[int], version_rows: Sequence[tuple[Any, ...]]
) -> Timeframe:
    """Build the timeframe; an open range extends as far as its contents."""
    visible_courses = tuple(run_course for run_course in courses if _is_lane_in_span_or_has_items(run_course, span))
    starts, ends = (
        [run_course.lane.start for run_course in visible_courses],
        [run_course.lane.end for run_course in visible_courses],
    )
    for run_course in visible_courses:
        durations: list[Sequence[Occurrence]] = [run_course.lane.stretches, run_course.turns, run_course.asked]
        starts += [min(map(_START, row)) for row in durations if row]
        ends += [max(map(_END, row)) for row in (*durations, run_course.events, run_course.lane.marks) if row]
    cut = convert_to_datetime(max(cuts)) if cuts else None
    since = span.since or cut or (convert_to_datetime(min(starts)) if starts else span.until or clock.now())
    until = span.until or (convert_to_datetime(max(ends)) if ends else since)
    return Timeframe(visible_courses, since, max(until, since), cut, version_rows)


def _is_lane_in_span_or_has_items(run_course: RunCourse, span: _TimeSpan) -> bool:
    lane, (since, until) = run_course.lane, span.microsecond_bounds
    overlaps = lane.start <= until and max(lane.end, lane.start) >= since
    return overlaps or bool(lane.stretches or run_course.turns or run_course.asked or run_course.events)
