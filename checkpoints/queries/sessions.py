"""Finding sessions, and how each of them stands."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextChoices,
)
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.enums import UNDECIDED_CALL, CallStatus, RunStatus, SessionStatus
from checkpoints.models import PausedTask, Run, Session, ToolCall, Workflow
from checkpoints.queries import forks, keyset, peers
from checkpoints.queries.forks import Forks
from checkpoints.queries.keyset import AmountCursor, Cursor
from checkpoints.queries.peers import Waiting
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


class Standing(TextChoices):
    """How a session stands: its status, and whether any process drives it."""

    RUNNING = "running", "Running"
    STALLED = "stalled", "No process is driving it"
    NEEDS_REVIEW = "needs_review", "Paused for a decision"
    READY = "ready", "Decided, ready to go on"
    PAUSED = "paused", "Paused"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


_DRIVEN = Q(owner__lease_expires_at__gt=Now())
_STANDING = {Standing.RUNNING: Q(status=SessionStatus.ACTIVE) & _DRIVEN}
_STANDING |= {
    Standing.STALLED: Q(status=SessionStatus.ACTIVE) & (Q(owner=None) | Q(owner__lease_expires_at__lte=Now())),
    **{Standing(status): Q(status=status) for status in SessionStatus if status != SessionStatus.ACTIVE},
}


@dataclass(frozen=True, slots=True)
class Owner:
    """The run that owns a session. `alive` says whether its lease holds by the database's clock."""

    run_id: UUID
    number: int
    status: str
    host: str
    pid: int
    seen_at: datetime
    lease_ends: datetime
    alive: bool

    @property
    def waiting(self) -> bool:
        return self.status == RunStatus.WAITING


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


class Sort(TextChoices):
    """By what a list is ordered, the largest or newest first."""

    UPDATED = "updated", "Newest activity"
    STARTED = "started", "Newest start"
    COST = "cost", "Highest cost"


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """`first` and `last` are days in UTC, of the start where the list is sorted by it, else of the last activity.
    `least` and `most` are US dollars. In each of the `among`, querysets of session keys, a session has to be."""

    standing: Standing | None = None
    agent: str = ""
    first: date | None = None
    last: date | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    among: tuple[QuerySet[Any, Any], ...] = ()
    sort: Sort = Sort.UPDATED

    def __bool__(self) -> bool:
        narrowed = (self.first, self.last, self.least, self.most)
        given = any(value is not None for value in narrowed)
        return bool(self.standing or self.agent or self.among or given)

    @property
    def time_field(self) -> str:
        return "created_at" if self.sort is Sort.STARTED else "updated_at"


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
    found = _filtered(workspace_id, wanted)
    total = found.order_by()[: COUNT_LIMIT + 1].count()
    if isinstance(after, AmountCursor):
        found = found.filter(keyset.below(after, "budget_spent_usd"))
    elif after is not None:
        found = found.filter(keyset.before(after, wanted.time_field))
    timed = _with_owner(found).annotate(stored_time=keyset.stored_text(wanted.time_field))
    sessions: list[Session] = list(timed.order_by(*_order(wanted))[: size + 1])
    shown = sessions[:size]
    last = _last(shown[-1], wanted.sort) if len(sessions) > size else None
    return SessionPage(_rows(shown), last, min(total, COUNT_LIMIT), total > COUNT_LIMIT, known(workspace_id))


def newest(workspace_id: int, wanted: SessionFilter, *, size: int = PAGE) -> tuple[int, ...]:
    """The ids that the first page would show now."""
    found = _filtered(workspace_id, wanted).order_by(*_order(wanted))
    return tuple(found.values_list("pk", flat=True)[:size])


def every(workspace_id: int, wanted: SessionFilter) -> Iterator[SessionRow]:
    """Every session that is found now, newest activity first. Which they are is read at once, so that none is missed
    or told twice because it moves meanwhile; what is said of each, in pieces."""
    found = _filtered(workspace_id, wanted).order_by(*_order(wanted)).values_list("pk", flat=True)
    pks = array("q", found.iterator(_CHUNK))
    for start in range(0, len(pks), _CHUNK):
        yield from these(workspace_id, tuple(pks[start : start + _CHUNK]))


def these(workspace_id: int, pks: tuple[int, ...], wanted: SessionFilter | None = None) -> tuple[SessionRow, ...]:
    """The sessions with these ids, in this order; those that are gone or do not match are left out."""
    found = _filtered(workspace_id, wanted or SessionFilter()).filter(pk__in=pks)
    rows = {row.pk: row for row in _rows(list(_with_owner(found)))}
    return tuple(rows[pk] for pk in pks if pk in rows)


def head(workspace_id: int, pk: int) -> SessionHead | None:
    """One session with the counts its pages show; None where this workspace has no such session."""
    session = _with_journals(_with_owner(_of(workspace_id))).filter(pk=pk).first()
    if session is None:
        return None
    found = _undecided([pk]).order_by("interrupted_at", "pk").values_list("pk", "status")[:COUNT_LIMIT]
    undecided = [call_pk for call_pk, _ in found]
    return SessionHead(
        row=_row(session, Counter(status for _, status in found)),
        runs=session.runs.count(),
        versions=session.checkpoints.count(),
        calls=session.tool_calls.count(),
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
    return _of(workspace_id).filter(session_id=session_id).values_list("pk", flat=True).first()


def _of(workspace_id: int) -> QuerySet[Session]:
    return Session.objects.filter(workspace_id=workspace_id)


def _filtered(workspace_id: int, wanted: SessionFilter) -> QuerySet[Session]:
    found = _of(workspace_id)
    if wanted.agent:
        found = found.filter(agent=wanted.agent.replace("\0", ""))
    if wanted.standing:
        found = found.filter(_STANDING[wanted.standing])
    if wanted.first is not None:
        found = found.filter(**{f"{wanted.time_field}__gte": _midnight(wanted.first)})
    if wanted.last is not None:
        found = found.filter(**{f"{wanted.time_field}__lt": _midnight(wanted.last) + timedelta(days=1)})
    if wanted.least is not None:
        found = found.filter(budget_spent_usd__gte=wanted.least)
    if wanted.most is not None:
        found = found.filter(budget_spent_usd__lte=wanted.most)
    for keys in wanted.among:
        found = found.filter(pk__in=keys)
    return found


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def _order(wanted: SessionFilter) -> tuple[str, str]:
    return ("-budget_spent_usd" if wanted.sort is Sort.COST else f"-{wanted.time_field}"), "-pk"


def _last(session: Session, sort: Sort) -> Place:
    if sort is Sort.COST:
        return AmountCursor(session.budget_spent_usd, session.pk)
    return Cursor(_stored_time(session), session.pk)


def _with_owner(found: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(_DRIVEN, output_field=BooleanField())
    ended = Subquery(Run.objects.filter(session=OuterRef("pk")).order_by("-number").values("ended_at")[:1])
    return found.select_related("owner").annotate(driven=driven, ended=ended)


def _with_journals(found: QuerySet[Session]) -> QuerySet[Session]:
    return found.annotate(
        has_workflows=Exists(Workflow.objects.filter(session=OuterRef("pk"))),
        has_pauses=Exists(PausedTask.objects.filter(session=OuterRef("pk"))),
        has_forks=Exists(Session.objects.filter(forked_from=OuterRef("pk"))),
        origin_id=F("forked_from__session_id"),
    )


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
        standing=_standing(session.status, alive),
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
        owner=_owner(session.owner, alive),
    )


def _standing(status: str, alive: bool) -> Standing:
    if status == SessionStatus.ACTIVE:
        return Standing.RUNNING if alive else Standing.STALLED
    return Standing(status)


def _owner(run: Run | None, alive: bool) -> Owner | None:
    if run is None:
        return None
    return Owner(
        run_id=run.pk,
        number=run.number,
        status=run.status,
        host=run.host,
        pid=run.pid,
        seen_at=run.heartbeat_at,
        lease_ends=run.lease_expires_at,
        alive=alive,
    )


def known(workspace_id: int) -> Known:
    """What the newest sessions have, for suggestions."""
    recent = _of(workspace_id).order_by("-updated_at", "-pk").values_list("agent", "labels")[:_RECENT]
    rows = list(recent)
    labels = {label for _, stored in rows for label in labels_of(stored)}
    return Known(tuple(sorted({agent for agent, _ in rows if agent})), tuple(sorted(labels)))


def labels_of(stored: str) -> tuple[str, ...]:
    """The labels of a session as its row stores them."""
    try:
        labels: Any = parse(stored)
    except ValueError:
        return ()
    return tuple(label for label in labels if isinstance(label, str)) if isinstance(labels, list) else ()
