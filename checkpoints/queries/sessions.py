"""Finding sessions, and how each of them stands."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

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
from checkpoints.models import Checkpoint, PausedTask, Run, Session, ToolCall, Workflow
from checkpoints.queries import forks, keyset, peers
from checkpoints.queries.forks import Forks
from checkpoints.queries.keyset import AmountCursor, Cursor
from checkpoints.queries.narrowing import SessionFilter, Sort, filtered, of, order, streams
from checkpoints.queries.peers import Waiting
from checkpoints.queries.standing import DRIVEN, Owner, Standing, owner_of, standing_of
from checkpoints.serde import parse

PAGE = 50
#: Totals are counted up to here; beyond it a page says "more than".
COUNT_LIMIT = 1000
#: Agents are suggested from so many of the newest sessions.
_RECENT = 200
#: Rows that an export reads at once.
_CHUNK = 500


#: Where a page of a list begins.
Place: TypeAlias = Cursor | AmountCursor


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
class Known:
    """Agents and labels that there are."""

    agents: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionPage:
    """`total` is exact up to `COUNT_LIMIT`; `more` says that there are more than that."""

    rows: tuple[SessionRow, ...]
    after: Place | None
    total: int
    more: bool
    known: Known


def place(token: str, sort: Sort) -> Place | None:
    """Where a page begins, from its address; None where that says nothing."""
    return AmountCursor.parse(token) if sort is Sort.COST else Cursor.parse(token)


def page(workspace_id: int, wanted: SessionFilter, *, after: Place | None = None, size: int = PAGE) -> SessionPage:
    """Sessions in the order that is wanted, after the one that `after` names."""
    parts = streams(workspace_id, wanted)
    total = sum(found.order_by()[: COUNT_LIMIT + 1].count() for found in parts)
    if isinstance(after, AmountCursor):
        parts = [found.filter(keyset.below(after, "budget_spent_usd")) for found in parts]
    elif after is not None:
        parts = [found.filter(keyset.before(after, wanted.time_field)) for found in parts]
    stored_time = keyset.stored_text(wanted.time_field)
    sessions = _first([_with_owner(found).annotate(stored_time=stored_time) for found in parts], wanted, size + 1)
    shown = sessions[:size]
    last = _last(shown[-1], wanted.sort) if len(sessions) > size else None
    return SessionPage(_rows(shown), last, min(total, COUNT_LIMIT), total > COUNT_LIMIT, known(workspace_id))


def newest(workspace_id: int, wanted: SessionFilter, *, size: int = PAGE) -> tuple[int, ...]:
    """The ids that the first page would show now."""
    return tuple(session.pk for session in _first(streams(workspace_id, wanted), wanted, size))


def _first(parts: list[QuerySet[Session]], wanted: SessionFilter, size: int) -> list[Session]:
    """The first sessions of all parts together."""
    found = [session for part in parts for session in part.order_by(*order(wanted))[:size]]
    ordered = attrgetter(order(wanted)[0].lstrip("-"), "pk")
    return sorted(found, key=ordered, reverse=True)[:size]


def chosen(workspace_id: int, wanted: SessionFilter) -> array[int]:
    """The keys of all sessions that are found now, newest activity first."""
    found = filtered(workspace_id, wanted).order_by(*order(wanted)).values_list("pk", flat=True)
    return array("q", found.iterator(_CHUNK))


def each(workspace_id: int, pks: array[int]) -> Iterator[SessionRow]:
    """What is said of these sessions, read in pieces. Which they are was read at once, so that none is missed or told
    twice because it moves meanwhile."""
    for start in range(0, len(pks), _CHUNK):
        yield from these(workspace_id, tuple(pks[start : start + _CHUNK]))


def these(workspace_id: int, pks: tuple[int, ...], wanted: SessionFilter | None = None) -> tuple[SessionRow, ...]:
    """The sessions with these ids, in this order; those that are gone or do not match are left out."""
    found = filtered(workspace_id, wanted or SessionFilter()).filter(pk__in=pks)
    rows = {row.pk: row for row in _rows(list(_with_owner(found)))}
    return tuple(rows[pk] for pk in pks if pk in rows)


def head(workspace_id: int, pk: int) -> SessionHead | None:
    """One session with the counts its pages show; None where this workspace has no such session."""
    session = _heads().filter(workspace=workspace_id, pk=pk).first()
    if session is None:
        return None
    found = _undecided([pk]).order_by("interrupted_at", "pk").values_list("pk", "status")[:COUNT_LIMIT]
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
    if "\0" in session_id:
        return None
    return of(workspace_id).filter(session_id=session_id).values_list("pk", flat=True).first()


def _last(session: Session, sort: Sort) -> Place:
    if sort is Sort.COST:
        return AmountCursor(session.budget_spent_usd, session.pk)
    return Cursor(_stored_time(session), session.pk)


def _with_owner(found: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(DRIVEN, output_field=BooleanField())
    ended = Subquery(Run.objects.filter(session=OuterRef("pk")).order_by("-number").values("ended_at")[:1])
    return found.select_related("owner").annotate(driven=driven, ended=ended)


@cache
def _heads() -> QuerySet[Session]:
    """Put together once: every page about a session asks for this."""
    return _counted(_with_journals(_with_owner(Session.objects.all())))


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
    of_session = rows.filter(session=OuterRef("pk")).order_by().values("session")
    return Subquery(of_session.annotate(number=Count("pk")).values("number"))


def _stored_time(session: Session) -> str:
    return str(session.stored_time)  # type: ignore[attr-defined]


def _undecided(pks: list[int]) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session__in=pks, status__in=UNDECIDED_CALL)


def _rows(sessions: list[Session]) -> tuple[SessionRow, ...]:
    undecided: defaultdict[int, Counter[str]] = defaultdict(Counter)
    counted = _undecided([session.pk for session in sessions]).values_list("session", "status").annotate(Count("pk"))
    for session_pk, status, number in counted:
        undecided[session_pk][status] = number
    return tuple(_row(session, undecided[session.pk]) for session in sessions)


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


def known(workspace_id: int) -> Known:
    """What the newest sessions have, for suggestions."""
    recent = of(workspace_id).order_by("-updated_at", "-pk").values_list("agent", "labels")[:_RECENT]
    rows = list(recent)
    labels = {label for stored in {stored for _, stored in rows} for label in labels_of(stored)}
    return Known(tuple(sorted({agent for agent, _ in rows if agent})), tuple(sorted(labels)))


def labels_of(stored: str) -> tuple[str, ...]:
    """The labels of a session as its row stores them."""
    try:
        labels: Any = parse(stored)
    except ValueError:
        return ()
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()
