"""What a session waits for from other agents: its pauses, their joins, and each call with what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Min, QuerySet, Sum, Window
from django.db.models.functions import RowNumber

from checkpoints.enums import JoinStatus, PauseStatus, PeerCallStatus
from checkpoints.models import Join, PausedTask, PeerCall
from checkpoints.peers import sealing
from checkpoints.serde import parse

#: Pauses on a page, and calls of one join on it; the rest of a join has pages of its own.
PAGE = 10
CALLS = 50
#: Other agents that are named where there are many.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a paused session waits for: so many `open` calls of `total`, to `peers` and `more` others.

    `deadline` is the first of the open calls'. `ready` says that nothing is open: whoever takes the task goes on.
    """

    open: int
    total: int
    peers: tuple[str, ...]
    more: int
    deadline: datetime | None
    ready: bool


@dataclass(frozen=True, slots=True)
class CallRow:
    """One request to another agent. `request`, `result` and `late_result` are JSON values without sealed secrets.

    `to_tell` is what it still has to be told, which was tried `tell_attempts` times.
    """

    pk: int
    call_id: str
    peer: str
    request: Any
    status: str
    created_at: datetime
    deadline: datetime
    settled_at: datetime | None
    result: Any
    late_result: Any
    late_at: datetime | None
    to_tell: str
    tell_attempts: int

    @property
    def open(self) -> bool:
        return self.status == PeerCallStatus.WAITING


@dataclass(frozen=True, slots=True)
class JoinRow:
    """Calls that are waited for together. `after` is where the next calls of it begin; None where these are all."""

    pk: int
    join_id: str
    status: str
    completed: int
    total: int
    completed_at: datetime | None
    calls: tuple[CallRow, ...]
    after: int | None


@dataclass(frozen=True, slots=True)
class PauseRow:
    """One pause, by the run `run_number`, which ended with it. `state` is a JSON value without sealed secrets.

    `unsaved` says that a run took the task and has saved nothing since: until it does, another one can take it.
    """

    number: int
    run_number: int
    version: int
    status: str
    paused_at: datetime
    taken_at: datetime | None
    times_taken: int
    unsaved: bool
    ended_at: datetime | None
    state: Any
    joins: tuple[JoinRow, ...]


@dataclass(frozen=True, slots=True)
class PausePage:
    """Pauses with the newest first. `before` is where the next page starts."""

    rows: tuple[PauseRow, ...]
    before: int | None


def waiting(session_pk: int) -> Waiting:
    """Three queries."""
    joins = Join.objects.filter(session=session_pk, status=JoinStatus.WAITING)
    asked = joins.aggregate(total=Sum("total"))["total"]
    calls = PeerCall.objects.filter(session=session_pk, status=PeerCallStatus.WAITING)
    open_ = calls.aggregate(count=Count("pk"), peers=Count("peer", distinct=True), deadline=Min("deadline"))
    named = calls.order_by("peer").values_list("peer", flat=True).distinct()[:_NAMED]
    return Waiting(
        open=open_["count"],
        total=asked or 0,
        peers=tuple(named),
        more=max(0, open_["peers"] - _NAMED),
        deadline=open_["deadline"],
        ready=asked is None,
    )


def page(session_pk: int, *, before: int | None = None, size: int = PAGE) -> PausePage:
    """The pauses of a session with the first calls of each of their joins; three queries."""
    found = PausedTask.objects.filter(session=session_pk).select_related("run", "session").order_by("-number")
    if before is not None:
        found = found.filter(number__lt=before)
    tasks = list(found[: size + 1])
    shown = tasks[:size]
    joins = _joins(Join.objects.filter(task__in=[task.pk for task in shown]))
    rows = tuple(_pause(task, tuple(joins[task.pk])) for task in shown)
    return PausePage(rows, shown[-1].number if len(tasks) > size else None)


def join(session_pk: int, pk: int, *, after: int = 0) -> JoinRow | None:
    """One join with the calls behind the one with the key `after`."""
    found = _joins(Join.objects.filter(session=session_pk, pk=pk), after=after)
    return next((row for rows in found.values() for row in rows), None)


def _joins(joins: QuerySet[Join], *, after: int = 0) -> defaultdict[int, list[JoinRow]]:
    """By the key of their pause, in the order in which they were made."""
    found = list(joins.order_by("pk"))
    calls = _calls([join.pk for join in found], after)
    rows: defaultdict[int, list[JoinRow]] = defaultdict(list)
    for join in found:
        shown = tuple(_call(call) for call in calls[join.pk][:CALLS])
        rows[join.task_id].append(
            JoinRow(
                pk=join.pk,
                join_id=join.join_id,
                status=join.status,
                completed=join.completed,
                total=join.total,
                completed_at=join.completed_at,
                calls=shown,
                after=shown[-1].pk if len(calls[join.pk]) > CALLS else None,
            )
        )
    return rows


def _calls(joins: Iterable[int], after: int) -> defaultdict[int, list[PeerCall]]:
    """The first calls of each join, and one more where there is one."""
    place = Window(RowNumber(), partition_by=[F("join")], order_by=[F("pk").asc()])
    found: defaultdict[int, list[PeerCall]] = defaultdict(list)
    for call in (
        PeerCall.objects.filter(join__in=joins, pk__gt=after).annotate(place=place).filter(place__lte=CALLS + 1)
    ):
        found[call.join_id].append(call)
    for calls in found.values():
        calls.sort(key=lambda call: call.pk)
    return found


def _pause(task: PausedTask, joins: tuple[JoinRow, ...]) -> PauseRow:
    saved = task.taken_version is not None and task.session.latest_version > task.taken_version
    return PauseRow(
        number=task.number,
        run_number=task.run.number,
        version=task.version,
        # What a version saved since has left behind is over; the next change of the session writes it down.
        status=PauseStatus.OVER if task.status == PauseStatus.TAKEN and saved else task.status,
        paused_at=task.paused_at,
        taken_at=task.taken_at,
        times_taken=task.times_taken,
        unsaved=task.status == PauseStatus.TAKEN and not saved,
        ended_at=task.ended_at,
        state=_value(task.state),
        joins=joins,
    )


def _call(call: PeerCall) -> CallRow:
    return CallRow(
        pk=call.pk,
        call_id=call.call_id,
        peer=call.peer,
        request=_value(call.request),
        status=call.status,
        created_at=call.created_at,
        deadline=call.deadline,
        settled_at=call.settled_at,
        result=_value(call.result),
        late_result=_value(call.late_result),
        late_at=call.late_at,
        to_tell=call.notice,
        tell_attempts=call.tell_attempts,
    )


def _value(stored: str | None) -> Any:
    """A stored JSON text as a value in which nothing sealed is left; a damaged one as the text it is."""
    if stored is None:
        return None
    try:
        return sealing.hidden(parse(stored))
    except ValueError:
        return stored
