"""Runs of a session as lanes, with their calls as stretches of time.

Every occurrence begins with its kind, start and end as instants, both the same for a moment. There may be thousands, so
they are named tuples, which are the fastest to create.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import BooleanField, Case, Exists, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Coalesce

from checkpoints.db import clock
from checkpoints.db.keyset_pagination import cast_field_to_text
from checkpoints.enums import (
    DECIDING_KINDS,
    IMPORTED_RUN_HOST,
    NOT_RUN_CALL_STATUSES,
    UNDECIDED_CALL_STATUSES,
    ActorKind,
    CallStatus,
    DecisionKind,
    Phase,
    RunStatus,
)
from checkpoints.exceptions import IntegrityError
from checkpoints.models import Checkpoint, Decision, Message, Run, ToolCall
from checkpoints.models.segment_and_message import PROMPT_ROLES
from checkpoints.models.tool_calls_and_results import is_failed_command
from checkpoints.versions.save_cadence import ENDING_PHASES
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime, convert_to_microseconds
from harness_site.sessions.selectors import calls_of_original_after_fork
from harness_site.sessions.selectors.conversation_window import AGENT_ROLES
from harness_site.sessions.selectors.message_origin_versions_and_runs import RunFacts, build_run_facts
from harness_site.sessions.timeline.selectors import takeover_approval_verification_and_handover_events
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import (
    RunEvents,
    Takeover,
)
from harness_site.sessions.timeline.selectors.turn_contents import VersionMessages

SomeTime = TypeVar("SomeTime", int, datetime)

#: Maximum numbers of the newest runs, calls and versions drawn.
LANES = 8
CALLS = 120
MARKS = 160
#: Decisions about a call that has not run.
_ALLOWING = frozenset({DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND})
#: Status of a call that returned → the kind of its stretch.
_SPAN_KINDS: Final[dict[str, str]] = {
    status.value: "failed" if status == CallStatus.FAILED else "ran"
    for status in CallStatus
    if status not in NOT_RUN_CALL_STATUSES and status != CallStatus.DISCARDED
}
#: The key of the call of a stretch.
_CALL = itemgetter(4)
#: Decisions that change the status of a call; an edited call continues to wait.
STATUS_CHANGING_KINDS = DECIDING_KINDS - {DecisionKind.EDIT}


class Stretch(NamedTuple):
    """The execution of a tool (`kind` is ran, failed, running, lost or unanswered), or a wait for a person (`kind` is
    wait).

    A lost call ends when the loss was detected, an unanswered one when it was given up or its run ended, a wait when
    it was decided. Completed calls that began shortly after each other may be one stretch: `number` counts them, and
    `tool` and `call_pk` are those of one of them. A wait that `goes_on` ends now. `exit_code` is that of a shell
    command which failed, although its tool completed the call. `has_one_time` says that a transcript gives one time for
    its start and its end, so that its duration is unknown.
    """

    kind: str
    start: int
    end: int
    tool: str
    call_pk: int
    number: int = 1
    goes_on: bool = False
    exit_code: int | None = None
    has_one_time: bool = False


class VersionMark(NamedTuple):
    """A version (`kind` is version). `length` is its number of messages.

    A version saved without a run belongs to the run before it. `has_answer` is True for the last version of a run that
    added an answer of the model. `prompted` is when the person wrote the message that the version begins with, in a
    transcript that was imported; None if it begins otherwise, or its messages were stored together with it.
    `is_prompt` says that a run added nothing but the message of a person.
    """

    kind: str
    start: int
    end: int
    version: int
    phase: str = Phase.TURN
    length: int = 0
    by_run: bool = True
    has_answer: bool = False
    prompted: int | None = None
    is_prompt: bool = False
    #: Whether it is the version that a fork began with.
    is_fork: bool = False


@dataclass(slots=True)
class Lane:
    """One run from `start` to its end or last heartbeat; `takeover` is set if another run took its session.

    A lost run ends when that was noticed; its last sign of life was at `seen_until`, which is None for other runs.
    In a fork, two lanes are no runs: one has the calls that were copied, and names the id of the original in
    `copied_from` (empty if that is deleted); the other one has what happened in the fork itself before its first run.
    """

    run: RunFacts
    start: int
    end: int
    takeover: Takeover | None = None
    copied_from: str | None = None
    seen_until: int | None = None
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[VersionMark] = field(default_factory=list)

    @property
    def is_fork(self) -> bool:
        """Whether it has the version that a fork began with, and the waits for people before its first run."""
        return self.run.stands_for_fork and self.copied_from is None


class LoggedCallRow(NamedTuple):
    """Columns of a call, or of `number` completed calls, for the timeline; `run` is the text of the key of
    its run."""

    pk: int
    run: str
    tool: str
    status: str
    issued: int
    interrupted: int | None
    settled: int | None
    exit_code: int | None
    number: int = 1


class CallDecisionRow(NamedTuple):
    """A decision that changed the status of its call."""

    call_pk: int
    call_id: str
    kind: str
    actor_kind: str
    at: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes of a session.

    Before `complete_since`, runs, calls or versions are left out; None if nothing is.
    """

    lanes: tuple[Lane, ...]
    complete_since: int | None


def load_timeline_of_newest_runs(session_pk: int, run_events: RunEvents | None = None) -> Timeline:
    """Load the newest runs of a session with their calls and versions.

    Calls that only the original of a fork has made are left out. At most five queries, one more without `run_events`,
    and five more for a fork.
    """
    run_events = (
        takeover_approval_verification_and_handover_events.load_takeovers_approval_and_probe_requests(session_pk)
        if run_events is None
        else run_events
    )
    runs = list(_query_newest_runs(session_pk))
    lanes = {convert_run_key_to_text(run): build_empty_run_lane(run, run_events) for run in runs[:LANES][::-1]}
    pks = [run.pk for run in runs[:LANES]]
    has_copies = any(lane.copied_from is not None for lane in lanes.values())
    left_out = calls_of_original_after_fork.build_condition_of_calls_after_fork(session_pk) if has_copies else None
    calls = list(_query_calls_of_runs(session_pk, pks, left_out))
    marks = list(_query_versions_of_runs(session_pk, pks))
    for run, mark in iterate_runs_and_version_marks(reversed(marks[:MARKS])):
        lanes[str(run)].marks.append(mark)
    decisions = (
        group_decisions_by_call(
            CallDecisionRow(*row) for row in _query_status_changing_decisions([pk for pk, *_ in calls])
        )
        if calls
        else {}
    )
    add_calls_to_run_lanes(reversed(calls[:CALLS]), decisions, lanes, run_events)
    oldest_loaded = (
        *([min(lane.start for lane in lanes.values())] if len(runs) > LANES else ()),
        *([min(LoggedCallRow(*row).issued for row in calls[:CALLS])] if len(calls) > CALLS else ()),
        *([min(mark.start for lane in lanes.values() for mark in lane.marks)] if len(marks) > MARKS else ()),
    )
    split = tuple(part for lane in lanes.values() for part in split_lane_of_fork(lane))
    return Timeline(split, max(oldest_loaded, default=None))


def _query_newest_runs(session: int) -> QuerySet[Run]:
    return select_lane_runs_newest_first().filter(session=session)[: LANES + 1]


def _query_calls_of_runs(session: int, runs: list[UUID], left_out: Q | None) -> QuerySet[ToolCall, tuple[Any, ...]]:
    calls = select_call_rows_newest_first().filter(session=session, run__in=runs)
    return (calls if left_out is None else calls.filter(~left_out))[: CALLS + 1]


def _query_versions_of_runs(session: int, runs: list[UUID]) -> QuerySet[Checkpoint, tuple[Any, ...]]:
    return select_version_rows_newest_first().filter(session=session, run__in=runs)[: MARKS + 1]


@cache
def select_version_rows_newest_first() -> QuerySet[Checkpoint, tuple[Any, ...]]:
    """Select what `iterate_runs_and_version_marks` reads of all versions, newest first."""
    answers = Message.objects.filter(
        segment=OuterRef("segment"), position=OuterRef("length") - 1, role__in=sorted(AGENT_ROLES)
    )
    ends_with_answer = Case(
        When(Q(phase__in=sorted(ENDING_PHASES)) & Exists(answers), then=True),
        default=False,
        output_field=BooleanField(),
    )
    # The database evaluates the subqueries of imported versions only.
    before = Checkpoint.objects.filter(
        session=OuterRef("session"), segment=OuterRef("segment"), version=OuterRef("version") - 1
    )
    first_position = Coalesce(Subquery(before.values("length")), F("segment__parent_length"))
    prompts = Message.objects.filter(
        segment=OuterRef("segment"), position=OuterRef("first_position"), role__in=PROMPT_ROLES
    )
    prompted_at = Case(
        When(run__host=IMPORTED_RUN_HOST, run__pid=0, then=Subquery(prompts.values_list(Instant("created_at")))),
        default=None,
    )
    last_prompts = Message.objects.filter(
        segment=OuterRef("segment"), position=OuterRef("length") - 1, role__in=PROMPT_ROLES
    )
    ends_with_prompt = Case(
        When(Q(phase=Phase.TURN) & Exists(last_prompts), then=True), default=False, output_field=BooleanField()
    )
    columns = cast_field_to_text("run"), "version", Instant("created_at"), "phase", "length"
    versions = Checkpoint.objects.annotate(first_position=first_position).order_by("-version")
    messages = "segment_id", "segment__parent_length"
    return versions.values_list(*columns, ends_with_answer, prompted_at, ends_with_prompt, *messages)


def build_message_bounds_of_version(row: tuple[Any, ...]) -> VersionMessages:
    """Build which messages a version has, from a row of `select_version_rows_newest_first`."""
    return VersionMessages(row[1], row[4], *row[-2:])


def iterate_runs_and_version_marks(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str | None, VersionMark]]:
    """Yield the run and the mark of each row of `select_version_rows_newest_first`, of which the oldest comes first."""
    previous_length = 0
    for run, version, at, phase, length, ends_with_answer, prompted, ends_with_prompt, _segment, _start in rows:
        has_answer = bool(ends_with_answer) and length > previous_length
        is_prompt = bool(ends_with_prompt) and length == previous_length + 1
        yield (
            run,
            VersionMark("version", at, at, version, phase, length, run is not None, has_answer, prompted, is_prompt),
        )
        previous_length = length


def _query_status_changing_decisions(calls: list[int]) -> QuerySet[Decision, tuple[Any, ...]]:
    return _select_status_changing_decisions().filter(tool_call__pk__in=calls)


@cache
def _select_status_changing_decisions() -> QuerySet[Decision, tuple[Any, ...]]:
    """Select the columns of `CallDecisionRow` of all final decisions that change the status of a call."""
    decisions = Decision.objects.filter(final=True, kind__in=sorted(STATUS_CHANGING_KINDS)).order_by("pk")
    return decisions.values_list("tool_call", "tool_call__call_id", "kind", "actor_kind", Instant("created_at"))


@cache
def select_call_rows_newest_first() -> QuerySet[ToolCall, tuple[Any, ...]]:
    """Select the columns of `LoggedCallRow` of all calls, newest first.

    Ordered by step first, as the index is: ordered by key alone, all calls of the session would be read and sorted.
    Not by call id, the next column of the index: among many calls of one step, the first ones would not be the newest.
    """
    times = (Instant(name) for name in ("issued_at", "interrupted_at", "settled_at"))
    calls = ToolCall.objects.order_by("-step", "-pk")
    return calls.values_list("pk", cast_field_to_text("run"), "tool", "status", *times, "exit_code")


@cache
def select_lane_runs_newest_first() -> QuerySet[Run]:
    """Select what a lane shows of all runs, and the column that `convert_run_key_to_text` reads, newest first."""
    origin = F("session__forked_from__session_id")
    runs = Run.objects.annotate(key=cast_field_to_text("pk"), origin=origin).order_by("-number")
    return runs.only("number", "status", "host", "pid", "started_at", "heartbeat_at", "ended_at")


def convert_run_key_to_text(run: Run) -> str:
    """Return the key of a run as text: comparing thousands of UUIDs takes several times as long."""
    return str(run.key)  # type: ignore[attr-defined]


def add_calls_to_run_lanes(
    calls: Iterable[tuple[Any, ...]],
    decided: Mapping[int, list[CallDecisionRow]],
    lanes: Mapping[str, Lane],
    run_events: RunEvents,
) -> None:
    """Add stretches for calls, as `select_call_rows_newest_first` reads them, to the lanes of their runs by run key.

    The version marks of the lanes have to be complete. Raises `IntegrityError` for a call whose run is gone.
    """
    for row in calls:
        call = LoggedCallRow(*row)
        if call.run not in lanes:
            raise IntegrityError(ToolCall._meta.db_table, str(call.pk), "its run is not there")
        if (
            call.interrupted is None
            and call.settled is not None
            and call.status in _SPAN_KINDS
            and call.pk not in decided
        ):
            lanes[call.run].stretches.append(_build_stretch_of_call(call, lanes[call.run]))
        else:
            for lane, stretch in _generate_stretches_of_call_in_run_lanes(
                call, decided.get(call.pk, []), lanes, run_events
            ):
                lane.stretches.append(stretch)
    for lane in lanes.values():
        lane.stretches.sort(key=_CALL)
        signs_of_life = [*(mark.end for mark in lane.marks if mark.by_run), *_list_return_times_of_tools(lane)]
        lane.end = max([lane.end, *signs_of_life])
        if lane.run.status == RunStatus.LOST:
            seen_at = convert_to_microseconds(lane.run.seen_at)
            lane.seen_until = min(lane.end, max([lane.start, seen_at, *signs_of_life]))
        if lane.copied_from is not None:
            lane.start = min([lane.start, *(stretch.start for stretch in lane.stretches)])


def split_lane_of_fork(lane: Lane) -> tuple[Lane, ...]:
    """Split the lane of a fork operation into that of the copied calls and that of the fork; others remain as they are.

    The fork waits for people since it began, also about calls that had been interrupted in the original.
    """
    if lane.copied_from is None:
        return (lane,)
    forked_at = convert_to_microseconds(lane.run.started_at)
    waits = [each for each in lane.stretches if each.kind == "wait" and each.end >= forked_at]
    copied = replace(lane, stretches=[each for each in lane.stretches if each not in waits], marks=[])
    copied.end = max((each.end for each in copied.stretches), default=forked_at)
    fork = replace(
        lane,
        start=forked_at,
        copied_from=None,
        stretches=[each._replace(start=max(each.start, forked_at)) for each in waits],
        marks=[mark._replace(is_fork=True) for mark in lane.marks],
    )
    return tuple(part for part in (copied, fork) if part.stretches or part.marks) or (fork,)


def _list_return_times_of_tools(lane: Lane) -> list[int]:
    """Return when tools of the run returned, which proves it alive later than its last heartbeat."""
    return [stretch.end for stretch in lane.stretches if stretch.kind in {"ran", "failed"}]


def build_empty_run_lane(run: Run, run_events: RunEvents) -> Lane:
    facts, end = build_run_facts(run), convert_to_microseconds(run.ended_at or run.heartbeat_at)
    takeover = run_events.takeovers.get(run.number)
    origin: str | None = run.origin  # type: ignore[attr-defined]
    copied_from = (origin or "") if facts.stands_for_fork else None
    return Lane(facts, convert_to_microseconds(run.started_at), end, takeover, copied_from)


def group_decisions_by_call(decisions: Iterable[CallDecisionRow]) -> dict[int, list[CallDecisionRow]]:
    groups: defaultdict[int, list[CallDecisionRow]] = defaultdict(list)
    for decision in decisions:
        groups[decision.call_pk].append(decision)
    return dict(groups)


def _generate_stretches_of_call_in_run_lanes(
    call: LoggedCallRow, decisions: list[CallDecisionRow], lanes: Mapping[str, Lane], events: RunEvents
) -> Iterator[tuple[Lane, Stretch]]:
    lane = lanes[call.run]
    in_force = _list_decisions_in_force(decisions)
    approval = next((decision for decision in in_force if decision.kind in _ALLOWING), None)
    if call.status in NOT_RUN_CALL_STATUSES or (approval is not None and approval.kind == DecisionKind.RESPOND):
        yield lane, _build_wait_stretch(call, call.issued, approval)
        return
    question = (
        None
        if approval is None
        else events.find_last_approval_request(approval.call_id, convert_to_datetime(approval.at))
    )
    asking_lane = next(
        (lane for lane in lanes.values() if question is not None and lane.run.number == question.run_number), None
    )
    if question is not None and asking_lane is not None:
        yield asking_lane, _build_wait_stretch(call, convert_to_microseconds(question.at), approval)
    yield lane, _build_stretch_of_call(call, lane)
    settlement = next((decision for decision in in_force if decision.kind not in _ALLOWING), None)
    was_discarded = _is_discarded_without_decision(call) and settlement is None
    if call.interrupted is None or was_discarded:  # nobody is asked about a discarded call
        return
    if settlement is None or settlement.actor_kind != ActorKind.HOOK:
        since = _compute_end_of_unknown_call_outcome_in_lane(call.interrupted, lane)
        yield _find_next_lane_or_lost_one(lanes.values(), lane), _build_wait_stretch(call, since, settlement)


def _list_decisions_in_force(decisions: Iterable[CallDecisionRow]) -> list[CallDecisionRow]:
    """Return the decisions, oldest first, without withdrawn ones. A withdrawal withdraws the decision before it."""
    in_force: list[CallDecisionRow] = []
    for decision in decisions:
        if decision.kind == DecisionKind.WITHDRAW:
            del in_force[-1:]
        else:
            in_force.append(decision)
    return in_force


def _is_discarded_without_decision(call: LoggedCallRow) -> bool:
    """Return whether a call was discarded without anybody having decided about it."""
    return call.status == CallStatus.DISCARDED and None in {call.interrupted, call.settled}


def _build_stretch_of_call(call: LoggedCallRow, lane: Lane) -> Stretch:
    if _is_discarded_without_decision(call):
        given_up = call.interrupted or call.settled or call.issued
        end = max(call.issued, _compute_end_of_unknown_call_outcome_in_lane(given_up, lane))
        return Stretch("unanswered", call.issued, end, call.tool, call.pk)
    if call.interrupted is not None:
        return Stretch(
            "lost",
            call.issued,
            _compute_end_of_unknown_call_outcome_in_lane(call.interrupted, lane),
            call.tool,
            call.pk,
        )
    if call.settled is not None:
        has_failed = is_failed_command(call.status, call.exit_code)
        return Stretch(
            "failed" if has_failed else _SPAN_KINDS.get(call.status, "ran"),
            call.issued,
            call.settled,
            call.tool,
            call.pk,
            1 if has_failed else call.number,
            exit_code=call.exit_code if has_failed else None,
            has_one_time=lane.run.host == IMPORTED_RUN_HOST and call.settled == call.issued,
        )
    return Stretch("running", call.issued, max(call.issued, lane.end), call.tool, call.pk)


def _compute_end_of_unknown_call_outcome_in_lane(interrupted: int, lane: Lane) -> int:
    ended_at = lane.run.ended_at
    return compute_end_of_unknown_call_outcome(
        interrupted, None if ended_at is None else convert_to_microseconds(ended_at)
    )


def compute_end_of_unknown_call_outcome(interrupted_at: SomeTime, run_ended_at: SomeTime | None) -> SomeTime:
    """Return when the time ended in which a call may have happened: a lost run ends before its calls are
    interrupted."""
    return interrupted_at if run_ended_at is None else min(interrupted_at, run_ended_at)


def _find_next_lane_or_lost_one(lanes: Iterable[Lane], lost_lane: Lane) -> Lane:
    """Return the lane of the run after the lost one, which is the run that waits."""
    return next((lane for lane in lanes if lane.run.number == lost_lane.run.number + 1), lost_lane)


def _build_wait_stretch(call: LoggedCallRow, since: int, decision: CallDecisionRow | None) -> Stretch:
    goes_on = decision is None and call.status in UNDECIDED_CALL_STATUSES
    until = convert_to_microseconds(clock.now()) if goes_on else call.settled if decision is None else decision.at
    return Stretch("wait", since, max(since, until or since), call.tool, call.pk, goes_on=goes_on)
