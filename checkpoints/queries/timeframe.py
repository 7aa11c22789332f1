"""Everything that happened in some time of a session: runs with their turns, calls, waits, versions and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from checkpoints import clock
from checkpoints.enums import Phase, RunStatus
from checkpoints.models import Run
from checkpoints.queries import occasions, timeline, timeline_rows
from checkpoints.queries.instants import closed, instant, moment
from checkpoints.queries.timeline import MOVING, Decided, Lane, Mark, Stretch

#: The newest so many runs, and so many calls, versions and requests to other agents, are told of at a time.
LANES = 24
LIMIT = 10_000

#: The phase that ends a turn → what was done in it.
_TURNS: Final[dict[str, str]] = {
    Phase.TURN: "turn",
    Phase.POST_LLM: "model",
    Phase.POST_TOOL_BATCH: "tools",
    Phase.POST_SUBAGENT_BATCH: "agents",
}


_START, _END = itemgetter(1), itemgetter(2)


class Turn(NamedTuple):
    """What a run did from its start or the version before until `version`, which holds `length` messages.

    `kind` is model, tools or agents where the phase of the version says so, else turn.
    """

    kind: str
    start: int
    end: int
    version: int
    length: int


class Asked(NamedTuple):
    """How long another agent was waited for (`kind` is peer); `status` as of its call. It ends now where it is still
    waited for."""

    kind: str
    start: int
    end: int
    peer: str
    status: str


class Event(NamedTuple):
    """A moment: `kind` is crash, takeover, pause, taken or decision. A decision names its call, and who made it."""

    kind: str
    start: int
    end: int
    decision: str = ""
    actor: str = ""
    tool: str = ""
    call_pk: int | None = None


#: Whatever a timeline tells. Each begins with its kind, its start and its end.
Occurrence: TypeAlias = Stretch | Turn | Asked | Event | Mark


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


class _Ruling(NamedTuple):
    call_pk: int
    call_id: str
    tool: str
    kind: str
    final: bool
    actor: str
    actor_kind: str
    at: int


@dataclass(frozen=True, slots=True)
class _Span:
    since: datetime | None
    until: datetime | None

    @property
    def whole(self) -> bool:
        return self.since is None and self.until is None

    @property
    def moments(self) -> tuple[datetime, datetime]:
        return closed(self.since, self.until)

    @property
    def instants(self) -> tuple[int, int]:
        since, until = self.moments
        return instant(since), instant(until)


def read(session_pk: int, *, since: datetime | None = None, until: datetime | None = None) -> Timeframe | None:
    """At most nine queries. None where nothing timeline_rows."""
    span = _Span(since, until)
    calls, earlier_calls = _upto(timeline_rows.calls(session_pk, *span.moments, most=LIMIT + 1), begin=4)
    pauses = list(timeline_rows.pauses(session_pk, most=LIMIT))
    asking = timeline_rows.asked(session_pk, *span.moments, most=LIMIT + 1) if pauses else ()
    asked, earlier_asked = _upto(asking, begin=3)
    runs = _runs(session_pk, span, {row[1] for row in calls} | {row[0] for row in asked} if not span.whole else set())
    marks, earlier_marks = _marks(session_pk, span)
    remembered = occasions.read(session_pk)
    courses = {timeline.key_of(run): Course(timeline.lane_of(run, remembered)) for run in reversed(runs[:LANES])}
    if not courses:
        return None
    lanes = {key: course.lane for key, course in courses.items()}
    _place_marks(marks, courses)
    rulings = [_Ruling(*row) for row in reversed(list(timeline_rows.decisions(session_pk, most=LIMIT)))]
    decided = timeline.by_call(_moving(rulings))
    known = calls if len(runs) <= LANES else [row for row in calls if row[1] in lanes]
    timeline.place(known, decided, lanes, remembered)
    _place_asked(asked, courses)
    _place_events(courses, pauses, rulings)
    for course in courses.values():
        _keep(course, span)
    earlier = [course.lane.start for course in list(courses.values())[:1] if len(runs) > LANES]
    return _framed(courses.values(), span, [*earlier_calls, *earlier_asked, *earlier_marks, *earlier])


def _upto(found: Iterable[tuple[Any, ...]], *, begin: int) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The newest rows, oldest first; and when the oldest of them began, where there are more."""
    rows = list(found)
    shown = rows[:LIMIT][::-1]
    return shown, [shown[0][begin]] if len(rows) > LIMIT else []


def _moving(rulings: Iterable[_Ruling]) -> Iterator[Decided]:
    for one in rulings:
        if one.final and one.kind in MOVING:
            yield Decided(one.call_pk, one.call_id, one.kind, one.actor_kind, one.at)


def _runs(session_pk: int, span: _Span, involved: Iterable[str]) -> list[Run]:
    """The newest first, and one more than are told of where there are more. Also those whose calls go on after them."""
    if span.whole:
        return list(timeline_rows.all_runs(session_pk, most=LANES + 1))
    keys = [UUID(key) for key in involved]
    return list(timeline_rows.some_runs(session_pk, *span.moments, keys, most=LANES + 1))


def _marks(session_pk: int, span: _Span) -> tuple[list[tuple[str | None, Mark]], list[int]]:
    """The versions of the time, and the one before and the one after it: their turns reach into it."""
    inside, earlier = _upto(timeline_rows.saved(session_pk, *span.moments, most=LIMIT + 1), begin=2)
    before = timeline_rows.last_before(session_pk, span.since) if span.since is not None else []
    after = timeline_rows.first_after(session_pk, span.until) if span.until is not None else []
    rows = (*before, *inside, *after)
    marks = [
        (run, Mark("version", at, at, version, phase, length, by_run=run is not None))
        for run, version, at, phase, length in rows
    ]
    return marks, earlier


def _place_marks(marks: Iterable[tuple[str | None, Mark]], courses: dict[str, Course]) -> None:
    order = [*courses.values()]
    for run, mark in marks:
        if run is None:
            if mark.start >= order[0].lane.start:  # else it is of a time before the runs that are told of
                _at(order, mark.start).lane.marks.append(mark)
            continue
        course = courses.get(run)
        if course is None:
            continue
        marked = course.lane.marks
        start = marked[-1].end if marked else course.lane.start
        marked.append(mark)
        kind = _TURNS.get(mark.phase)
        if kind is not None:
            course.turns.append(Turn(kind, min(start, mark.end), mark.end, mark.version, mark.length))


def _place_asked(asked: Iterable[tuple[Any, ...]], courses: dict[str, Course]) -> None:
    now = instant(clock.now())
    for run, peer, status, created, settled in asked:
        if run in courses:
            end = max(now if settled is None else settled, created)
            courses[run].asked.append(Asked("peer", created, end, peer, status))


def _place_events(
    courses: dict[str, Course], pauses: Iterable[tuple[str, int, int | None]], rulings: Iterable[_Ruling]
) -> None:
    for course in courses.values():
        lane = course.lane
        if lane.takeover is not None:
            course.events.append(_event("takeover", instant(lane.takeover.at)))
        elif lane.run.status == RunStatus.LOST:
            course.events.append(_event("crash", lane.end))
    for run, paused, taken in pauses:
        if run in courses:
            courses[run].events.append(_event("pause", paused))
            if taken is not None:
                courses[run].events.append(_event("taken", taken))
    order = [*courses.values()]
    for made in rulings:
        decision = Event("decision", made.at, made.at, made.kind, made.actor, made.tool, made.call_pk)
        _at(order, made.at).events.append(decision)


def _event(kind: str, at: int) -> Event:
    return Event(kind, at, at)


def _at(courses: Sequence[Course], at: int) -> Course:
    """The run that had last begun by then."""
    return next((course for course in reversed(courses) if course.lane.start <= at), courses[0])


def _keep(course: Course, span: _Span) -> None:
    """Leave out what is not of the time."""
    lane, (since, until) = course.lane, span.instants
    if not span.whole:
        lane.stretches = [one for one in lane.stretches if one.start <= until and one.end >= since]
        lane.marks = [one for one in lane.marks if one.start <= until and one.end >= since]
        course.turns = [one for one in course.turns if one.start <= until and one.end >= since]
        course.asked = [one for one in course.asked if one.start <= until and one.end >= since]
        course.events = [one for one in course.events if one.start <= until and one.end >= since]
    course.events.sort(key=_START)


def _framed(courses: Iterable[Course], span: _Span, earlier: Sequence[int]) -> Timeframe:
    """Without an end of its own, the time reaches as far as what is told of."""
    told = tuple(course for course in courses if _tells(course, span))
    begins, ends = [course.lane.start for course in told], [course.lane.end for course in told]
    for course in told:
        lasting: list[Sequence[Occurrence]] = [course.lane.stretches, course.turns, course.asked]
        begins += [min(map(_START, some)) for some in lasting if some]
        ends += [max(map(_END, some)) for some in (*lasting, course.events, course.lane.marks) if some]
    cut = moment(max(earlier)) if earlier else None
    since = span.since or cut or (moment(min(begins)) if begins else span.until or clock.now())
    until = span.until or (moment(max(ends)) if ends else since)
    return Timeframe(told, since, max(until, since), cut)


def _tells(course: Course, span: _Span) -> bool:
    lane, (since, until) = course.lane, span.instants
    lived = lane.start <= until and max(lane.end, lane.start) >= since
    return lived or bool(lane.stretches or course.turns or course.asked or course.events)
