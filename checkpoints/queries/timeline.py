"""When what happened: the runs of a session as lanes, its calls as stretches of time on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Min

from checkpoints import clock
from checkpoints.enums import DECIDING, UNDECIDED_CALL, CallStatus
from checkpoints.models import Checkpoint, Decision, Run, ToolCall
from checkpoints.queries.origins import RunFacts, facts

#: The newest so many of each are drawn.
LANES = 8
CALLS = 120
MARKS = 160
#: Somebody had to allow these first, and they have not run.
_NOT_RUN = frozenset({CallStatus.AWAITING_APPROVAL, CallStatus.APPROVED, CallStatus.REJECTED})


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
    version: int
    at: datetime


@dataclass(slots=True)
class Lane:
    """One run, up to its end or its last sign of life."""

    run: RunFacts
    end: datetime
    stretches: list[Stretch] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeline:
    """`earlier` says that there were runs, calls or versions before the ones that are drawn."""

    lanes: tuple[Lane, ...]
    earlier: bool


def read(session_pk: int) -> Timeline:
    """The newest runs of a session and what they did; five queries at most."""
    runs = list(Run.objects.filter(session=session_pk).order_by("-number")[: LANES + 1])
    lanes = {run.pk: Lane(facts(run), run.ended_at or run.heartbeat_at) for run in runs[:LANES][::-1]}
    calls = list(ToolCall.objects.filter(session=session_pk, run__in=lanes).order_by("-pk")[: CALLS + 1])
    saved = Checkpoint.objects.filter(session=session_pk, run__in=lanes).order_by("-version")
    marks = list(saved.values_list("run", "version", "created_at")[: MARKS + 1])
    for run_pk, version, at in reversed(marks[:MARKS]):
        lanes[run_pk].marks.append(Mark(version, at))
    decided = _decided([call.pk for call in calls])
    for call in reversed(calls[:CALLS]):
        lane = lanes[call.run_id]
        if call.status in _NOT_RUN:
            lane.stretches.append(_wait(call, call.issued_at, decided.get(call.pk)))
            continue
        lane.stretches.append(_tool(call, lane))
        if call.interrupted_at is not None:
            _waiting(lanes.values(), lane).stretches.append(_wait(call, call.interrupted_at, decided.get(call.pk)))
    for lane in lanes.values():
        lane.end = max([lane.end, *(mark.at for mark in lane.marks), *_ends(lane)])
    return Timeline(tuple(lanes.values()), len(runs) > LANES or len(calls) > CALLS or len(marks) > MARKS)


def _ends(lane: Lane) -> list[datetime]:
    """When tools of the run came back: signs of life that the heartbeat may not have told yet."""
    return [stretch.end for stretch in lane.stretches if stretch.kind in {"ran", "failed"}]


def _decided(pks: list[int]) -> dict[int, datetime]:
    found = Decision.objects.filter(tool_call__in=pks, kind__in=DECIDING).values_list("tool_call")
    return dict(found.annotate(Min("created_at")))


def _tool(call: ToolCall, lane: Lane) -> Stretch:
    if call.interrupted_at is not None:
        return Stretch("lost", call.issued_at, call.interrupted_at, call.tool, call.pk)
    if call.settled_at is not None:
        kind = "failed" if call.status == CallStatus.FAILED else "ran"
        return Stretch(kind, call.issued_at, call.settled_at, call.tool, call.pk)
    return Stretch("running", call.issued_at, max(call.issued_at, lane.end), call.tool, call.pk)


def _waiting(lanes: Iterable[Lane], lost: Lane) -> Lane:
    """A wait is drawn on the lane of the run that came after the lost one: it is what waits."""
    return next((lane for lane in lanes if lane.run.number == lost.run.number + 1), lost)


def _wait(call: ToolCall, since: datetime, decided: datetime | None) -> Stretch:
    if decided is None:
        decided = max(since, clock.now()) if call.status in UNDECIDED_CALL else call.settled_at
    return Stretch("wait", since, max(since, decided or since), call.tool, call.pk)
