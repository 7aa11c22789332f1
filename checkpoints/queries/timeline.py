"""When what happened: the runs of a session as lanes, its calls as stretches of time on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from checkpoints import clock
from checkpoints.enums import DECIDING, NOT_RUN_CALL, UNDECIDED_CALL, ActorKind, CallStatus, DecisionKind, Phase
from checkpoints.models import Checkpoint, Decision, Run, ToolCall
from checkpoints.queries import keyset, occasions
from checkpoints.queries.occasions import Occasions, Takeover
from checkpoints.queries.origins import RunFacts, facts

#: The newest so many of each are drawn.
LANES = 8
CALLS = 120
MARKS = 160
#: Decisions about a call that has not run.
_ALLOWING = frozenset({DecisionKind.APPROVE, DecisionKind.REJECT, DecisionKind.RESPOND})


@dataclass(frozen=True, slots=True)
class Stretch:
    """A call while its tool ran (`kind` is ran, failed, running or lost), or a wait for a person (`kind` is wait).

    `start` and `end` are those of the tool; a lost call ends when its loss was noticed, a wait when it was decided.
    """

    kind: str
    start: datetime
    end: datetime
    tool: str
    call_pk: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A version. `length` counts its messages."""

    version: int
    at: datetime
    phase: str = Phase.TURN
    length: int = 0


@dataclass(slots=True)
class Lane:
    """One run, up to its end or its last sign of life; `takeover` where its session was taken from it."""

    run: RunFacts
    end: datetime
    takeover: Takeover | None = None
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


class Logged(NamedTuple):
    """What a timeline tells of a call. Thousands are read at once: as objects of the model they took half the time."""

    pk: int
    run_id: UUID
    call_id: str
    tool: str
    status: str
    issued_at: datetime
    interrupted_at: datetime | None
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """`earlier` says that there were runs, calls or versions before the ones that are drawn."""

    lanes: tuple[Lane, ...]
    earlier: bool


def read(session_pk: int, remembered: Occasions | None = None) -> Timeline:
    """The newest runs of a session and what they did; five queries at most, one more without what is `remembered`."""
    remembered = occasions.read(session_pk) if remembered is None else remembered
    runs = list(Run.objects.filter(session=session_pk).order_by("-number")[: LANES + 1])
    lanes = {run.pk: lane_of(run, remembered) for run in runs[:LANES][::-1]}
    calls = newest(ToolCall.objects.filter(session=session_pk, run__in=lanes), CALLS + 1)
    saved = Checkpoint.objects.filter(session=session_pk, run__in=lanes).order_by("-version")
    marks = list(saved.values_list("run", "version", "created_at")[: MARKS + 1])
    for run_pk, version, at in reversed(marks[:MARKS]):
        lanes[run_pk].marks.append(Mark(version, at))
    decided = by_call(moving(Decision.objects.filter(tool_call__in=[call.pk for call in calls])))
    place(reversed(calls[:CALLS]), decided, lanes, remembered)
    return Timeline(tuple(lanes.values()), len(runs) > LANES or len(calls) > CALLS or len(marks) > MARKS)


def newest(calls: QuerySet[ToolCall], most: int) -> list[Logged]:
    """The newest of these calls, the newest first."""
    return [Logged(*row) for row in calls.order_by(keyset.newest()).values_list(*Logged._fields)[:most]]


def place(
    calls: Iterable[Logged], decided: Mapping[int, list[Decision]], lanes: dict[UUID, Lane], remembered: Occasions
) -> None:
    """Put each call on the lanes of the runs that it concerns, by the key of the run. Their marks stand already."""
    for call in calls:
        for lane, stretch in _stretches(call, decided.get(call.pk, []), lanes, remembered):
            lane.stretches.append(stretch)
    for lane in lanes.values():
        lane.end = max([lane.end, *(mark.at for mark in lane.marks), *_ends(lane)])


def _ends(lane: Lane) -> list[datetime]:
    """When tools of the run came back: signs of life that the heartbeat may not have told yet."""
    return [stretch.end for stretch in lane.stretches if stretch.kind in {"ran", "failed"}]


def lane_of(run: Run, remembered: Occasions) -> Lane:
    return Lane(facts(run), run.ended_at or run.heartbeat_at, remembered.takeovers.get(run.number))


def moving(decisions: QuerySet[Decision]) -> QuerySet[Decision]:
    """Those that moved their call, in order: no voice of several, and no edit, after which a call goes on waiting."""
    moved = decisions.filter(final=True, kind__in=sorted(DECIDING - {DecisionKind.EDIT}))
    return moved.only("tool_call", "kind", "actor_kind", "created_at").order_by("pk")


def by_call(decisions: Iterable[Decision]) -> defaultdict[int, list[Decision]]:
    found: defaultdict[int, list[Decision]] = defaultdict(list)
    for made in decisions:
        found[made.tool_call_id].append(made)
    return found


def _stretches(
    call: Logged, made: list[Decision], lanes: dict[UUID, Lane], remembered: Occasions
) -> Iterator[tuple[Lane, Stretch]]:
    lane = lanes[call.run_id]
    allowed = next((one for one in made if one.kind in _ALLOWING), None)
    if call.status in NOT_RUN_CALL or (allowed is not None and allowed.kind == DecisionKind.RESPOND):
        yield lane, _wait(call, call.issued_at, allowed)
        return
    asked = None if allowed is None else remembered.question(call.call_id, allowed.created_at)
    asking = next((lane for lane in lanes.values() if asked is not None and lane.run.number == asked.run_number), None)
    if asked is not None and asking is not None:
        yield asking, _wait(call, asked.at, allowed)
    yield lane, _tool(call, lane)
    settled = next((one for one in made if one.kind not in _ALLOWING), None)
    if call.interrupted_at is not None and (settled is None or settled.actor_kind != ActorKind.HOOK):
        yield _waiting(lanes.values(), lane), _wait(call, call.interrupted_at, settled)


def _tool(call: Logged, lane: Lane) -> Stretch:
    if call.interrupted_at is not None:
        return Stretch("lost", call.issued_at, call.interrupted_at, call.tool, call.pk)
    if call.settled_at is not None:
        kind = "failed" if call.status == CallStatus.FAILED else "ran"
        return Stretch(kind, call.issued_at, call.settled_at, call.tool, call.pk)
    return Stretch("running", call.issued_at, max(call.issued_at, lane.end), call.tool, call.pk)


def _waiting(lanes: Iterable[Lane], lost: Lane) -> Lane:
    """A wait is drawn on the lane of the run that came after the lost one: it is what waits."""
    return next((lane for lane in lanes if lane.run.number == lost.run.number + 1), lost)


def _wait(call: Logged, since: datetime, made: Decision | None) -> Stretch:
    until = call.settled_at if made is None else made.created_at
    if made is None and call.status in UNDECIDED_CALL:
        until = clock.now()
    return Stretch("wait", since, max(since, until or since), call.tool, call.pk)
