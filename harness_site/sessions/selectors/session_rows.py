"""Rows of sessions, with their status and counts, and the pages of the list of sessions."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Any

from django.db.models import (
    BooleanField,
    Count,
    ExpressionWrapper,
    Manager,
    OuterRef,
    QuerySet,
    Subquery,
)

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, CostBasis, RunStatus
from checkpoints.formats.storable_text import is_storable_text
from checkpoints.models import Run, Session, ToolCall
from checkpoints.models.session import deserialize_labels
from checkpoints.models.tool_calls_and_results import IS_QUESTION
from checkpoints.seals import row_seals
from checkpoints.sessions.agent_and_label_suggestions import SessionFacets, list_recent_agents_and_labels
from checkpoints.sessions.display_status import (
    ENDED_WITHOUT_RESULT,
    HAS_LIVE_OWNER,
    LAST_RUN_STATUS,
    DisplayStatus,
    SessionOwner,
    build_session_owner_of_run,
    derive_session_display_status,
)
from checkpoints.sessions.session_list_filters_and_sorting import (
    SessionFilter,
    get_order_fields,
    select_sessions_by_filter,
    select_sessions_of_workspace,
)
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    convert_rows_or_mark_unreadable,
    load_rows_or_mark_unreadable,
)
from harness_site.search.copied_tokens_and_cost_of_forks import CopiedAmounts, load_copied_amounts_by_fork
from harness_site.sessions.selectors import (
    session_list_pages,
    session_list_totals,
)
from harness_site.sessions.selectors.session_list_pages import SessionListCursor
from harness_site.sessions.selectors.session_list_totals import SessionListTotals

PAGE = 30
#: Number of rows that an export loads at once.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class SessionRow:
    """Summary of one session.

    `cost` is in US dollars, None if it is unknown. `cost` and `tokens` of a fork are those of its own runs;
    `copied_cost` and `copied_tokens` are what its original had spent at the version that the fork continues from.
    `undecided` counts the calls that block it, `awaiting` those of them
    that have not run and await an approval or an answer, and `questions` those of these that are questions.
    `display_status` is the stored text if that is not a known status. `ended_without_result` says that the session is
    stored as cancelled because the transcript from which it was imported has no result for a call. `last_run_lost_at`
    is the last sign of life of the newest run if that was lost; `ended_at` and `updated_at` are then when it was
    noticed.
    """

    pk: int
    session_id: str
    title: str
    agent: str
    display_status: DisplayStatus | str
    undecided: int
    awaiting: int
    questions: int
    version: int
    messages: int
    cost: Decimal | None
    copied_cost: Decimal
    is_cost_estimated: bool
    has_times: bool
    tokens: int
    copied_tokens: int
    revision: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    last_run_lost_at: datetime | None
    labels: tuple[str, ...]
    owner: SessionOwner | None
    is_fork: bool
    forked_version: int | None
    forks: int
    ended_without_result: bool

    @property
    def is_finished(self) -> bool:
        return self.display_status in {DisplayStatus.COMPLETED, DisplayStatus.FAILED, DisplayStatus.CANCELLED}

    @property
    def is_finished_or_quarantined(self) -> bool:
        return self.is_finished or self.display_status is DisplayStatus.QUARANTINED

    @property
    def duration(self) -> timedelta:
        """Return the time from start to end; without an end, until now if a process works on it, else until that ended.

        A process that waits for a decision does no work, and an imported transcript is known until its last entry.
        A lost process worked until its last sign of life.
        """
        return max(self._get_end_of_work() - self.created_at, timedelta())

    @property
    def last_active_at(self) -> datetime:
        """Return when anything happened last: that a process is lost is noticed when it has long done nothing."""
        if self.display_status is not DisplayStatus.STALLED:
            return self.updated_at
        return self.last_run_lost_at or (self.updated_at if self.owner is None else self.owner.seen_at)

    def _get_end_of_work(self) -> datetime:
        if self.is_finished_or_quarantined or self.owner is None:
            return self.last_run_lost_at or self.ended_at or self.updated_at
        if self.owner.is_waiting:
            return self.updated_at
        return clock.now() if self.owner.alive and not self.owner.is_imported else self.owner.seen_at


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of sessions. `total` is exact up to `session_list_pages.LIMIT`; `more` is True if there are more.

    `sums` are of all matching sessions; None where adding them up would delay the page.
    """

    rows: tuple[SessionRow | UnreadableRecord, ...]
    after: SessionListCursor | None
    total: int
    more: bool
    sums: SessionListTotals | None
    known: SessionFacets


def load_session_page(
    workspace_id: int, wanted: SessionFilter, *, after: SessionListCursor | None = None, size: int = PAGE
) -> SessionPage:
    """Load a page of sessions in the order of the filter, starting after the cursor `after`."""
    # A combination of several conditions has to be evaluated completely to find its first row, so count with the same
    # query.
    limit = session_list_pages.LIMIT if after is None and len(wanted.among) > 1 else size
    first = session_list_pages.load_partial_sessions_after_cursor(workspace_id, wanted, limit + 1, after=after)
    is_counted = after is None and (len(first) <= size or limit > size)
    total = len(first) if is_counted else session_list_pages.count_sessions_up_to_limit(workspace_id, wanted)
    last = (
        session_list_pages.build_cursor_of_session_or_none(first[size - 1], wanted.sort) if len(first) > size else None
    )
    pks = [session.pk for session in first[:size]]
    rows = {row.pk: row for row in _load_session_rows(_query_sessions_with_owner(pks))} if pks else {}
    page_rows = tuple(rows[pk] for pk in pks if pk in rows)
    has_more_than_limit = total > session_list_pages.LIMIT
    sums = None
    if has_more_than_limit:
        sums = session_list_totals.sum_sessions_of_period_or_none(workspace_id, wanted)
    elif total:
        known_pks = [session.pk for session in first] if is_counted else None
        sums = session_list_totals.sum_few_matching_sessions(workspace_id, wanted, known_pks)
    return SessionPage(
        page_rows,
        last,
        min(total, session_list_pages.LIMIT),
        has_more_than_limit,
        sums,
        list_recent_agents_and_labels(workspace_id),
    )


def _query_sessions_with_owner(pks: list[int]) -> QuerySet[Session]:
    return _select_sessions_with_owner().filter(pk__in=pks)


@cache
def _select_sessions_with_owner() -> QuerySet[Session]:
    return annotate_owner_and_last_run(Session.objects.all())


def load_matching_session_keys(workspace_id: int, wanted: SessionFilter, *, only: Set[int] | None = None) -> array[int]:
    """Load the keys of all matching sessions in order, limited to the keys in `only` if given."""
    matches = (
        select_sessions_by_filter(workspace_id, wanted)
        .order_by(*get_order_fields(wanted.sort))
        .values_list("pk", flat=True)
    )
    return array("q", (pk for pk in matches.iterator(_CHUNK) if only is None or pk in only))


def iterate_session_rows(workspace_id: int, pks: array[int]) -> Iterator[SessionRow | UnreadableRecord]:
    """Yield these sessions in chunks.

    The keys were read in one query, so that activity meanwhile neither hides nor repeats a session.
    """
    for start in range(0, len(pks), _CHUNK):
        yield from load_session_rows_in_order_of_pks(workspace_id, tuple(pks[start : start + _CHUNK]))


def load_session_rows_in_order_of_pks(
    workspace_id: int, pks: tuple[int, ...], wanted: SessionFilter | None = None
) -> tuple[SessionRow | UnreadableRecord, ...]:
    """Load the sessions with these keys in this order, without those that are deleted or do not match."""
    if not pks:
        return ()
    sessions = (
        annotate_owner_and_last_run(select_sessions_by_filter(workspace_id, wanted).filter(pk__in=pks))
        if wanted
        else _query_sessions_by_pk(workspace_id, pks)
    )
    rows = {row.pk: row for row in _load_session_rows(sessions)}
    return tuple(rows[pk] for pk in pks if pk in rows)


def _query_sessions_by_pk(workspace_id: int, pks: tuple[int, ...]) -> QuerySet[Session]:
    return _select_sessions_with_owner().filter(workspace_id=workspace_id, pk__in=pks)


def find_session_pk(workspace_id: int, session_id: str) -> int | None:
    """Return the primary key of the session with this id; None if there is none."""
    if not is_storable_text(session_id):
        return None
    found = select_sessions_of_workspace(workspace_id).filter(session_id=session_id).values_list("pk", "session_id")
    return next((pk for pk, name in found if name == session_id), None)  # the collation may have been changed


def annotate_owner_and_last_run(sessions: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(HAS_LIVE_OWNER, output_field=BooleanField())
    newest_run = Run.objects.filter(session=OuterRef("pk")).order_by("-number")
    return sessions.select_related("owner").annotate(
        driven=driven,
        ended=Subquery(newest_run.values("ended_at")[:1]),
        last_run_seen_at=Subquery(newest_run.values("heartbeat_at")[:1]),
        number_of_forks=build_count_subquery(Session.objects, "forked_from"),
        last_run_status=LAST_RUN_STATUS,
        ended_without_result=ENDED_WITHOUT_RESULT,
    )


def build_count_subquery(rows: Manager[Any], session_column: str = "session") -> Subquery:
    # Count rows, not keys: the index on the session covers that without the primary key.
    of_session = rows.filter(**{session_column: OuterRef("pk")}).order_by().values(session_column)
    return Subquery(of_session.annotate(number=Count("*")).values("number"))


def _query_undecided_counts(pks: list[int]) -> QuerySet[ToolCall, tuple[int, str, int, int]]:
    """Query the number of undecided calls of each session by status, and how many of them are questions."""
    return _select_undecided_counts().filter(session__pk__in=pks)


@cache
def _select_undecided_counts() -> QuerySet[ToolCall, tuple[int, str, int, int]]:
    calls = ToolCall.objects.filter(status__in=UNDECIDED_CALL_STATUSES)
    return calls.values_list("session", "status").annotate(Count("pk"), questions=Count("pk", filter=IS_QUESTION))


def _load_session_rows(stored: QuerySet[Session]) -> list[SessionRow | UnreadableRecord]:
    sessions = load_rows_or_mark_unreadable(stored, "session", session_column="pk")
    undecided: defaultdict[int, Counter[str]] = defaultdict(Counter)
    counts = _query_undecided_counts([session.pk for session in sessions]) if sessions else []
    questions: dict[int, int] = {}
    for session_pk, status, number, asked in counts:
        undecided[session_pk][status] = number
        if status == CallStatus.AWAITING_APPROVAL:
            questions[session_pk] = asked
    copied = load_copied_amounts_of_forks(sessions)
    return convert_rows_or_mark_unreadable(
        sessions,
        lambda session: build_session_row(
            session, undecided[session.pk], questions.get(session.pk, 0), copied.get(session.pk)
        ),
        "session",
        attrgetter("pk"),
    )


def load_copied_amounts_of_forks(sessions: Iterable[Session | UnreadableRecord]) -> Mapping[int, CopiedAmounts]:
    """Load what the forks among some sessions have from their originals; without a query if there are none."""
    forks = [row.pk for row in sessions if isinstance(row, Session) and row.forked_version is not None]
    return load_copied_amounts_by_fork(Session.objects.filter(pk__in=forks)) if forks else {}


def build_session_row(
    session: Session, undecided: Counter[str], questions: int, copied: CopiedAmounts | None
) -> SessionRow:
    is_alive = bool(session.driven)  # type: ignore[attr-defined]
    was_lost = session.last_run_status == RunStatus.LOST  # type: ignore[attr-defined]
    copied_cost, copied_tokens = (copied.cost, copied.tokens) if copied else (Decimal(), 0)
    return SessionRow(
        pk=session.pk,
        session_id=session.session_id,
        title=session.title,
        agent=session.agent,
        display_status=derive_session_display_status(
            session.status,
            alive=is_alive,
            orphaned=session.owner_id is not None or was_lost,
            quarantined=session.quarantined_at is not None or row_seals.is_row_altered(session),
        ),
        undecided=undecided.total(),
        awaiting=undecided[CallStatus.AWAITING_APPROVAL],
        questions=questions,
        version=session.latest_version,
        messages=session.message_count,
        cost=None if session.cost_basis == CostBasis.UNKNOWN else session.budget_spent_usd - copied_cost,
        copied_cost=copied_cost,
        is_cost_estimated=session.cost_basis == CostBasis.ESTIMATED,
        has_times=session.has_times,
        tokens=session.total_tokens - copied_tokens,
        copied_tokens=copied_tokens,
        revision=session.revision,
        created_at=session.created_at,
        updated_at=session.updated_at,
        ended_at=session.ended,  # type: ignore[attr-defined]
        last_run_lost_at=session.last_run_seen_at if was_lost else None,  # type: ignore[attr-defined]
        labels=deserialize_labels(session.labels),
        owner=build_session_owner_of_run(session.owner, is_alive),
        is_fork=session.forked_from_id is not None,
        forked_version=session.forked_version,
        forks=session.number_of_forks or 0,  # type: ignore[attr-defined]
        ended_without_result=session.ended_without_result,  # type: ignore[attr-defined]
    )
