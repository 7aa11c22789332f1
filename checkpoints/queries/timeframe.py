"""Everything that happened in some time of a session: runs with their turns, calls, waits, versions and events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from django.db.models import Q, QuerySet

from checkpoints import clock
from checkpoints.enums import DECIDING, DecisionKind, Phase, RunStatus
from checkpoints.models import Checkpoint, Decision, PausedTask, PeerCall, Run, ToolCall
from checkpoints.queries import keyset, occasions, timeline
from checkpoints.queries.occasions import Occasions
from checkpoints.queries.timeline import Lane, Logged, Mark

#: The newest so many runs, and so many calls, versions and requests to other agents, are told of at a time.
LANES = 24
LIMIT = 10_000

#: The phase that ends a turn → what was done in it.
_TURNS: dict[str, str] = {
    Phase.TURN: "turn",
    Phase.POST_LLM: "model",
    Phase.POST_TOOL_BATCH: "tools",
    Phase.POST_SUBAGENT_BATCH: "agents",
}
T = TypeVar("T", Logged, PeerCall)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a run did from its start or the version before until `version`, which holds `length` messages.

    `kind` is model, tools or agents where the phase of the version says so, else turn.
    """

    kind: str
    start: datetime
    end: datetime
    version: int
    length: int


@dataclass(frozen=True, slots=True)
class Asked:
    """How long another agent was waited for; `status` as of its call. It ends now where it is still waited for."""

    peer: str
    status: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """A moment: `kind` is lost, takeover, pause, taken or decision. A decision names its call, and who made it."""

    kind: str
    at: datetime
    decision: str = ""
    actor: str = ""
    tool: str = ""
    call_pk: int | None = None


@dataclass(slots=True)
class Course:
    """One run: its lane, and what a lane in an overview has no room for."""

    lane: Lane
    turns: list[Turn] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Timeframe:
    """From `since` until `until`. `cut` is the moment before which there is more than can be told of at a time."""

    courses: tuple[Course, ...]
    since: datetime
    until: datetime
    cut: datetime | None


@dataclass(frozen=True, slots=True)
class _Span:
    since: datetime | None
    until: datetime | None

    def of(self, begin: str, end: str) -> Q:
        """What began in it or before, and ended in it, later, or not yet."""
        found = Q()
        if self.until is not None:
            found &= Q(**{f"{begin}__lte": self.until})
        if self.since is not None:
            found &= Q(**{f"{end}__gte": self.since}) | Q(**{f"{end}__isnull": True})
        return found

    def holds(self, start: datetime, end: datetime) -> bool:
        return (self.until is None or start <= self.until) and (self.since is None or end >= self.since)


def read(session_pk: int, *, since: datetime | None = None, until: datetime | None = None) -> Timeframe | None:
    """At most nine queries. None where nothing happened."""
    span = _Span(since, until)
    calls, earlier_calls = _upto(timeline.newest(_calls(session_pk, span), LIMIT + 1), "issued_at")
    asked, earlier_asked = _upto(list(_asked(session_pk, span).order_by(keyset.newest())[: LIMIT + 1]), "created_at")
    pauses = list(PausedTask.objects.filter(session=session_pk).defer("state").order_by("-pk")[:LIMIT])
    involved = {call.run_id for call in calls} | {call.join.task.run_id for call in asked}
    runs = list(_runs(session_pk, span, involved)[: LANES + 1])
    marks, earlier_marks = _marks(session_pk, span)
    remembered = occasions.read(session_pk)
    courses = {run.pk: Course(timeline.lane_of(run, remembered)) for run in reversed(runs[:LANES])}
    if not courses:
        return None
    lanes = {pk: course.lane for pk, course in courses.items()}
    _place_marks(marks, courses)
    decisions = _decisions(session_pk)
    _place_calls(calls, decisions, lanes, remembered)
    _place_asked(asked, courses)
    _place_events(courses, pauses, decisions)
    for course in courses.values():
        _keep(course, span)
    earlier = [course.lane.run.started_at for course in list(courses.values())[:1] if len(runs) > LANES]
    return _framed(courses.values(), span, [*earlier_calls, *earlier_asked, *earlier_marks, *earlier])


def _upto(rows: list[T], begin: str) -> tuple[list[T], list[datetime]]:
    """The newest rows, oldest first; and when the oldest of them began, where there are more."""
    shown = rows[:LIMIT][::-1]
    return shown, [getattr(shown[0], begin)] if len(rows) > LIMIT else []


def _calls(session_pk: int, span: _Span) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(span.of("issued_at", "settled_at"), session=session_pk)


def _asked(session_pk: int, span: _Span) -> QuerySet[PeerCall]:
    found = PeerCall.objects.filter(span.of("created_at", "settled_at"), session=session_pk)
    return found.select_related("join__task").only("peer", "status", "created_at", "settled_at", "join__task__run")


def _decisions(session_pk: int) -> list[Decision]:
    """The newest ones, oldest first."""
    found = Decision.objects.filter(session=session_pk).select_related("tool_call").order_by(keyset.newest())
    told = found.only("kind", "final", "actor", "actor_kind", "created_at", "tool_call__tool")
    return list(told[:LIMIT])[::-1]


def _runs(session_pk: int, span: _Span, involved: Iterable[UUID]) -> QuerySet[Run]:
    """Also the runs whose calls go on after them."""
    found = Run.objects.filter(session=session_pk).order_by("-number")
    if span.since is None and span.until is None:
        return found
    alive = span.of("started_at", "ended_at")
    if span.since is not None:
        alive &= Q(ended_at__isnull=False) | Q(heartbeat_at__gte=span.since) | Q(status=RunStatus.RUNNING)
    return found.filter(alive | Q(pk__in=list(involved)))


def _marks(session_pk: int, span: _Span) -> tuple[list[tuple[UUID, Mark]], list[datetime]]:
    """The versions of the time, and the one before and the one after it: their turns reach into it."""
    saved = Checkpoint.objects.filter(session=session_pk)
    inside = saved
    before: list[Checkpoint] = []
    after: list[Checkpoint] = []
    if span.since is not None:
        inside = inside.filter(created_at__gte=span.since)
        before = list(_light(saved.filter(created_at__lt=span.since).order_by("-version"))[:1])
    if span.until is not None:
        inside = inside.filter(created_at__lte=span.until)
        after = list(_light(saved.filter(created_at__gt=span.until).order_by("version"))[:1])
    rows = list(_light(inside.order_by("-version"))[: LIMIT + 1])
    shown = [*before, *rows[:LIMIT][::-1], *after]
    earlier = [rows[LIMIT - 1].created_at] if len(rows) > LIMIT else []
    return [(row.run_id, Mark(row.version, row.created_at, row.phase, row.length)) for row in shown], earlier


def _light(found: QuerySet[Checkpoint]) -> QuerySet[Checkpoint]:
    return found.only("run", "version", "created_at", "phase", "length")


def _place_marks(marks: Sequence[tuple[UUID, Mark]], courses: dict[UUID, Course]) -> None:
    for run, mark in marks:
        course = courses.get(run)
        if course is None:
            continue
        start = course.lane.marks[-1].at if course.lane.marks else course.lane.run.started_at
        course.lane.marks.append(mark)
        kind = _TURNS.get(mark.phase)
        if kind is not None:
            course.turns.append(Turn(kind, min(start, mark.at), mark.at, mark.version, mark.length))


def _place_calls(
    calls: Sequence[Logged], decisions: Sequence[Decision], lanes: dict[UUID, Lane], remembered: Occasions
) -> None:
    made = [one for one in decisions if one.final and one.kind in DECIDING and one.kind != DecisionKind.EDIT]
    timeline.place([call for call in calls if call.run_id in lanes], timeline.by_call(made), lanes, remembered)


def _place_asked(asked: Iterable[PeerCall], courses: dict[UUID, Course]) -> None:
    now = clock.now()
    for call in asked:
        course = courses.get(call.join.task.run_id)
        if course is not None:
            end = max(call.settled_at or now, call.created_at)
            course.asked.append(Asked(call.peer, call.status, call.created_at, end))


def _place_events(courses: dict[UUID, Course], pauses: Iterable[PausedTask], decisions: Iterable[Decision]) -> None:
    for course in courses.values():
        lane = course.lane
        if lane.takeover is not None:
            course.events.append(Event("takeover", lane.takeover.at))
        elif lane.run.status == RunStatus.LOST:
            course.events.append(Event("lost", lane.end))
    for pause in pauses:
        if pause.run_id in courses:
            courses[pause.run_id].events.append(Event("pause", pause.paused_at))
            if pause.taken_at is not None:
                courses[pause.run_id].events.append(Event("taken", pause.taken_at))
    for made in decisions:
        at, tool = made.created_at, made.tool_call.tool
        course = _at(list(courses.values()), at)
        course.events.append(Event("decision", at, made.kind, made.actor, tool, made.tool_call_id))


def _at(courses: Sequence[Course], moment: datetime) -> Course:
    """The run that had last begun by then."""
    begun = [course for course in courses if course.lane.run.started_at <= moment]
    return begun[-1] if begun else courses[0]


def _keep(course: Course, span: _Span) -> None:
    """Leave out what is not of the time."""
    lane = course.lane
    lane.stretches = [one for one in lane.stretches if span.holds(one.start, one.end)]
    lane.marks = [one for one in lane.marks if span.holds(one.at, one.at)]
    course.turns = [one for one in course.turns if span.holds(one.start, one.end)]
    course.asked = [one for one in course.asked if span.holds(one.start, one.end)]
    course.events = sorted((one for one in course.events if span.holds(one.at, one.at)), key=lambda one: one.at)


def _framed(courses: Iterable[Course], span: _Span, earlier: Sequence[datetime]) -> Timeframe:
    """Without an end of its own, the time reaches as far as what is told of."""
    told = tuple(course for course in courses if _tells(course, span))
    begins, ends = [course.lane.run.started_at for course in told], [course.lane.end for course in told]
    for course in told:
        begins += [*_starts(course.lane.stretches), *_starts(course.turns), *_starts(course.asked)]
        ends += [*_ends(course.lane.stretches), *_ends(course.turns), *_ends(course.asked)]
        ends += [event.at for event in course.events]
    cut = max(earlier) if earlier else None
    since = span.since or cut or min(begins, default=span.until or clock.now())
    until = span.until or max(ends, default=since)
    return Timeframe(told, since, max(until, since), cut)


class _Lasting(Protocol):
    @property
    def start(self) -> datetime: ...

    @property
    def end(self) -> datetime: ...


def _starts(lasting: Iterable[_Lasting]) -> list[datetime]:
    return [one.start for one in lasting]


def _ends(lasting: Iterable[_Lasting]) -> list[datetime]:
    return [one.end for one in lasting]


def _tells(course: Course, span: _Span) -> bool:
    lane = course.lane
    lived = span.holds(lane.run.started_at, max(lane.end, lane.run.started_at))
    return lived or bool(lane.stretches or course.turns or course.asked or course.events)
