"""Finding sessions, and how each of them stands."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    Manager,
    OuterRef,
    QuerySet,
    Subquery,
)

from checkpoints import clock
from checkpoints.enums import UNDECIDED_CALL, CallStatus, SessionStatus
from checkpoints.ids import is_storable
from checkpoints.models import Checkpoint, PausedTask, Run, Session, ToolCall, Workflow
from checkpoints.queries import forks, peers, places
from checkpoints.queries.forks import Forks
from checkpoints.queries.known import Known, known, labels_of
from checkpoints.queries.narrowing import SessionFilter, filtered, of, order
from checkpoints.queries.peers import Waiting
from checkpoints.queries.places import Place
from checkpoints.queries.standing import DRIVEN, Owner, Standing, owner_of, standing_of
from checkpoints.queries.unreadable import UnreadableRecord, read_each

PAGE = 50
#: Calls that hold one session are counted up to here.
COUNT_LIMIT = 1000
#: Rows that an export reads at once.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class SessionRow:
    """The headline of one session. `cost` is in US dollars; `undecided` counts the calls that hold it, `awaiting` those
    of them that have not run and await an approval."""

    pk: int
    session_id: str
    title: str
    agent: str
    standing: Standing
    undecided: int
    awaiting: int
    version: int
    messages: int
    cost: Decimal
    tokens: int
    revision: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    labels: tuple[str, ...]
    owner: Owner | None

    @property
    def finished(self) -> bool:
        return self.standing in {Standing.COMPLETED, Standing.FAILED, Standing.CANCELLED}

    @property
    def duration(self) -> timedelta:
        """From the start to the end, or to now while there is none."""
        end = (self.ended_at or self.updated_at) if self.finished else clock.now()
        return max(end - self.created_at, timedelta())


@dataclass(frozen=True, slots=True)
class SessionHead:
    """What stands above every page about one session. `result` is canonical JSON text; `waiting` is what a paused one
    waits for. A fork names the session it came from by key (`forked_from`) and id (`origin_id`)."""

    row: SessionRow
    #: The row of the database that all this was read from.
    stored: Session
    runs: int
    versions: int
    calls: int
    labels: tuple[str, ...]
    result: str | None
    undecided_call: int | None
    forked_from: int | None
    forked_version: int | None
    origin_id: str | None
    forks: Forks | None
    has_workflows: bool
    has_pauses: bool
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """`total` is exact up to `places.LIMIT`; `more` says that there are more than that."""

    rows: tuple[SessionRow | UnreadableRecord, ...]
    after: Place | None
    total: int
    more: bool
    known: Known


def page(workspace_id: int, wanted: SessionFilter, *, after: Place | None = None, size: int = PAGE) -> SessionPage:
    """Sessions in the order that is wanted, after the one that `after` names."""
    # What several conditions leave is found whole before the first of it is known, and then need not be found twice.
    reach = places.LIMIT if after is None and len(wanted.among) > 1 else size
    first = places.first(workspace_id, wanted, reach + 1, after=after)
    counted = after is None and (len(first) <= size or reach > size)
    total = len(first) if counted else places.total(workspace_id, wanted)
    last = places.of(first[size - 1], wanted.sort) if len(first) > size else None
    shown = [session.pk for session in first[:size]]
    rows = {row.pk: row for row in _rows(list(_told(shown)) if shown else [])}
    found = tuple(rows[pk] for pk in shown if pk in rows)
    return SessionPage(found, last, min(total, places.LIMIT), total > places.LIMIT, known(workspace_id))


def _told(pks: list[int]) -> QuerySet[Session]:
    return _with_owner(Session.objects.filter(pk__in=pks))


def newest(workspace_id: int, wanted: SessionFilter, *, size: int = PAGE) -> tuple[int, ...]:
    """The ids that the first page would show now."""
    return tuple(session.pk for session in places.first(workspace_id, wanted, size))


def chosen(workspace_id: int, wanted: SessionFilter, *, only: Set[int] | None = None) -> array[int]:
    """The keys of all sessions that are found now, newest activity first; with `only`, those of them that are in it."""
    found = filtered(workspace_id, wanted).order_by(*order(wanted.sort)).values_list("pk", flat=True)
    return array("q", (pk for pk in found.iterator(_CHUNK) if only is None or pk in only))


def each(workspace_id: int, pks: array[int]) -> Iterator[SessionRow | UnreadableRecord]:
    """What is said of these sessions, read in pieces. Which they are was read at once, so that none is missed or told
    twice because it moves meanwhile."""
    for start in range(0, len(pks), _CHUNK):
        yield from these(workspace_id, tuple(pks[start : start + _CHUNK]))


def these(
    workspace_id: int, pks: tuple[int, ...], wanted: SessionFilter | None = None
) -> tuple[SessionRow | UnreadableRecord, ...]:
    """The sessions with these ids, in this order; those that are gone or do not match are left out."""
    if not pks:
        return ()
    found = _with_owner(filtered(workspace_id, wanted).filter(pk__in=pks)) if wanted else _these(workspace_id, pks)
    rows = {row.pk: row for row in _rows(list(found))}
    return tuple(rows[pk] for pk in pks if pk in rows)


def _these(workspace_id: int, pks: tuple[int, ...]) -> QuerySet[Session]:
    return _with_owner(of(workspace_id).filter(pk__in=pks))


def head(workspace_id: int, pk: int) -> SessionHead | None:
    """One session with the counts its pages show; None where this workspace has no such session."""
    session = _head(workspace_id, pk).first()
    if session is None:
        return None
    found = list(_holding(pk))
    undecided = [call_pk for call_pk, _ in found]
    return SessionHead(
        row=_row(session, Counter(status for _, status in found)),
        stored=session,
        runs=session.runs_made or 0,  # type: ignore[attr-defined]
        versions=session.versions_kept or 0,  # type: ignore[attr-defined]
        calls=session.calls_logged or 0,  # type: ignore[attr-defined]
        labels=labels_of(session.labels),
        result=session.result,
        undecided_call=undecided[0] if undecided else None,
        forked_from=session.forked_from_id,
        forked_version=session.forked_version,
        origin_id=session.origin_id,  # type: ignore[attr-defined]
        forks=forks.of(pk) if session.has_forks else None,  # type: ignore[attr-defined]
        has_workflows=session.has_workflows,  # type: ignore[attr-defined]
        has_pauses=session.has_pauses,  # type: ignore[attr-defined]
        waiting=peers.waiting(pk) if session.status == SessionStatus.PAUSED else None,
    )


def pk_of(workspace_id: int, session_id: str) -> int | None:
    """The numeric key of a session by the id its agent gave it."""
    if not is_storable(session_id):
        return None
    return _pk(workspace_id, session_id).first()


def _pk(workspace_id: int, session_id: str) -> QuerySet[Session, int]:
    return of(workspace_id).filter(session_id=session_id).values_list("pk", flat=True)


def _with_owner(found: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(DRIVEN, output_field=BooleanField())
    ended = Subquery(Run.objects.filter(session=OuterRef("pk")).order_by("-number").values("ended_at")[:1])
    return found.select_related("owner").annotate(driven=driven, ended=ended)


def _head(workspace_id: int, pk: int) -> QuerySet[Session]:
    return _counted(_with_journals(_with_owner(of(workspace_id)))).filter(pk=pk)


def _holding(session: int) -> QuerySet[ToolCall, tuple[int, str]]:
    """The calls that hold a session, the one that has waited longest first."""
    calls = ToolCall.objects.filter(session=session, status__in=UNDECIDED_CALL)
    return calls.order_by("interrupted_at", "pk").values_list("pk", "status")[:COUNT_LIMIT]


def _with_journals(found: QuerySet[Session]) -> QuerySet[Session]:
    return found.annotate(
        has_workflows=Exists(Workflow.objects.filter(session=OuterRef("pk"))),
        has_pauses=Exists(PausedTask.objects.filter(session=OuterRef("pk"))),
        has_forks=Exists(Session.objects.filter(forked_from=OuterRef("pk"))),
        origin_id=F("forked_from__session_id"),
    )


def _counted(found: QuerySet[Session]) -> QuerySet[Session]:
    """With how many there are of what belongs to each; NULL for none."""
    return found.annotate(
        runs_made=_number(Run.objects),
        versions_kept=_number(Checkpoint.objects),
        calls_logged=_number(ToolCall.objects),
    )


def _number(rows: Manager[Any]) -> Subquery:
    # Of rows, not of keys: an index that begins with the session has them all, and not their keys.
    of_session = rows.filter(session=OuterRef("pk")).order_by().values("session")
    return Subquery(of_session.annotate(number=Count("*")).values("number"))


def _undecided(pks: list[int]) -> QuerySet[ToolCall, tuple[int, str, int]]:
    """How many calls of each status hold each of these sessions."""
    calls = ToolCall.objects.filter(session__in=pks, status__in=UNDECIDED_CALL)
    return calls.values_list("session", "status").annotate(Count("pk"))


def _rows(sessions: list[Session]) -> list[SessionRow | UnreadableRecord]:
    undecided: defaultdict[int, Counter[str]] = defaultdict(Counter)
    held = _undecided([session.pk for session in sessions]) if sessions else []
    for session_pk, status, number in held:
        undecided[session_pk][status] = number
    return read_each(sessions, lambda session: _row(session, undecided[session.pk]), "session")


def _row(session: Session, undecided: Counter[str]) -> SessionRow:
    alive = bool(session.driven)  # type: ignore[attr-defined]
    return SessionRow(
        pk=session.pk,
        session_id=session.session_id,
        title=session.title,
        agent=session.agent,
        standing=standing_of(session.status, alive),
        undecided=undecided.total(),
        awaiting=undecided[CallStatus.AWAITING_APPROVAL],
        version=session.latest_version,
        messages=session.message_count,
        cost=session.budget_spent_usd,
        tokens=session.total_tokens,
        revision=session.revision,
        created_at=session.created_at,
        updated_at=session.updated_at,
        ended_at=session.ended,  # type: ignore[attr-defined]
        labels=labels_of(session.labels),
        owner=owner_of(session.owner, alive),
    )
