"""Session list and session head: rows with their status and counts."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
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

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus, CostBasis, RunStatus, SessionStatus
from checkpoints.formats.storable_text import is_storable_text
from checkpoints.models import Checkpoint, Decision, PausedTask, PeerCall, Run, Session, ToolCall, Workflow
from checkpoints.models.run import FORK_RUN_NUMBER
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
    calls_of_original_after_fork,
    fork_list_and_preview,
    requests_from_other_agents,
    session_history,
    session_list_pages,
    session_list_totals,
    waits_for_other_agents,
)
from harness_site.sessions.selectors.fork_list_and_preview import Forks
from harness_site.sessions.selectors.requests_from_other_agents import AskingCall
from harness_site.sessions.selectors.session_history import HistoryItem
from harness_site.sessions.selectors.session_list_pages import SessionListCursor
from harness_site.sessions.selectors.session_list_totals import SessionListTotals
from harness_site.sessions.selectors.waits_for_other_agents import PeerWaitSummary

PAGE = 30
#: Maximum number of blocking calls counted for one session.
COUNT_LIMIT = 1000
#: Number of rows that an export loads at once.
_CHUNK = 500
#: Key of a call that blocks a session, its status, whether it is a question, when it was made and interrupted.
_BlockingCall: TypeAlias = tuple[int, str, bool, datetime, datetime | None]


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
class SessionHead:
    """Data of the head of every session page.

    `result` is canonical JSON text; `waiting` describes what a paused session is waiting for. A fork names its origin
    by key (`forked_from`) and id (`origin_id`), unless there is no such session.
    """

    row: SessionRow
    #: The database row that the other fields are derived from.
    stored: Session
    runs: int
    versions: int
    calls: int
    labels: tuple[str, ...]
    result: str | None
    undecided_call: int | None
    #: When the first of the calls was made or interrupted that wait for a decision now; None without one. A fork waits
    #: at most since it was made.
    waiting_since: datetime | None
    forked_from: int | None
    forked_version: int | None
    origin_id: str | None
    #: Whether a fork has the same title as its original, so that only its id tells them apart.
    has_title_of_original: bool
    forks: Forks | None
    #: Whether it is a fork, also of an original that is deleted, or another session with an equal first run.
    may_have_copied_calls: bool
    has_workflows: bool
    has_pauses: bool
    #: Number of calls to other agents that this session made.
    peer_calls: int
    has_decisions: bool
    #: Call of another agent that this session works on; None if it is not known.
    asking_call: AskingCall | None
    waiting: PeerWaitSummary | None
    #: Event that cancelled the session; None if it was not cancelled.
    cancellation: HistoryItem | None

    @property
    def waiting_time(self) -> timedelta | None:
        """Return how long a person's decision has been awaited; None if none is."""
        return None if self.waiting_since is None else max(clock.now() - self.waiting_since, timedelta())

    @property
    def is_never_resumed_fork(self) -> bool:
        """Return whether it is a fork that no process has resumed: its only run stands for the fork operation."""
        return self.row.is_fork and self.runs <= FORK_RUN_NUMBER

    def count_copied_calls_after_fork_version(self) -> int:
        """Count the completed calls of a fork that only its original has made, after the forked version."""
        if not self.may_have_copied_calls:
            return 0
        after_fork = calls_of_original_after_fork.build_condition_of_calls_after_fork(self.row.pk)
        return ToolCall.objects.filter(after_fork, session=self.row.pk).count()


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
    return _annotate_owner_and_last_run(Session.objects.all())


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
        _annotate_owner_and_last_run(select_sessions_by_filter(workspace_id, wanted).filter(pk__in=pks))
        if wanted
        else _query_sessions_by_pk(workspace_id, pks)
    )
    rows = {row.pk: row for row in _load_session_rows(sessions)}
    return tuple(rows[pk] for pk in pks if pk in rows)


def _query_sessions_by_pk(workspace_id: int, pks: tuple[int, ...]) -> QuerySet[Session]:
    return _select_sessions_with_owner().filter(workspace_id=workspace_id, pk__in=pks)


def load_session_head(workspace_id: int, pk: int) -> SessionHead | None:
    """Load one session with the counts that its pages display; None if the workspace has no such session."""
    session = next(iter(_query_session_with_page_header_values(workspace_id, pk)), None)
    if session is None:
        return None
    blocking_calls = list(_query_blocking_calls(pk)) if session.has_blocking_calls else []  # type: ignore[attr-defined]
    undecided = [call_pk for call_pk, *_ in blocking_calls]
    questions = sum(asks for _pk, _status, asks, *_ in blocking_calls)
    origin_id: str | None = session.origin_id  # type: ignore[attr-defined]
    return SessionHead(
        row=_build_session_row(
            session,
            Counter(status for _, status, *_ in blocking_calls),
            questions,
            _load_copied_amounts([session]).get(pk),
        ),
        stored=session,
        runs=session.last_run_number or 0,  # type: ignore[attr-defined]
        versions=session.versions_kept or 0,  # type: ignore[attr-defined]
        calls=session.calls_logged or 0,  # type: ignore[attr-defined]
        labels=deserialize_labels(session.labels),
        result=session.result,
        undecided_call=undecided[0] if undecided else None,
        waiting_since=min(
            # a fork has copied the time at which a call was interrupted in its original
            (max(interrupted or issued, session.created_at) for *_, issued, interrupted in blocking_calls),
            default=None,
        ),
        forked_from=None if origin_id is None else session.forked_from_id,
        forked_version=session.forked_version,
        origin_id=origin_id,
        has_title_of_original=origin_id is not None and session.origin_title == session.title,  # type: ignore[attr-defined]
        forks=fork_list_and_preview.load_newest_forks_and_count(pk) if session.has_forks else None,  # type: ignore[attr-defined]
        may_have_copied_calls=session.forked_from_id is not None or session.has_fork_run,  # type: ignore[attr-defined]
        has_workflows=session.has_workflows,  # type: ignore[attr-defined]
        has_pauses=session.has_pauses,  # type: ignore[attr-defined]
        peer_calls=session.peer_calls_made or 0,  # type: ignore[attr-defined]
        has_decisions=session.has_decisions,  # type: ignore[attr-defined]
        asking_call=requests_from_other_agents.find_agent_call_answered_by_session(
            session,
            is_id_of_call=session.is_id_of_call,  # type: ignore[attr-defined]
        ),
        waiting=waits_for_other_agents.load_agent_wait_summary(pk) if session.status == SessionStatus.PAUSED else None,
        cancellation=session_history.find_unaltered_session_end_event(pk)
        if session.status == SessionStatus.CANCELLED
        else None,
    )


def find_session_pk(workspace_id: int, session_id: str) -> int | None:
    """Return the primary key of the session with this id; None if there is none."""
    if not is_storable_text(session_id):
        return None
    found = select_sessions_of_workspace(workspace_id).filter(session_id=session_id).values_list("pk", "session_id")
    return next((pk for pk, name in found if name == session_id), None)  # the collation may have been changed


def _annotate_owner_and_last_run(sessions: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(HAS_LIVE_OWNER, output_field=BooleanField())
    newest_run = Run.objects.filter(session=OuterRef("pk")).order_by("-number")
    return sessions.select_related("owner").annotate(
        driven=driven,
        ended=Subquery(newest_run.values("ended_at")[:1]),
        last_run_seen_at=Subquery(newest_run.values("heartbeat_at")[:1]),
        number_of_forks=_build_count_subquery(Session.objects, "forked_from"),
        last_run_status=LAST_RUN_STATUS,
        ended_without_result=ENDED_WITHOUT_RESULT,
    )


def _query_session_with_page_header_values(workspace_id: int, pk: int) -> QuerySet[Session]:
    return _annotate_sessions_with_displayed_values().filter(workspace_id=workspace_id, pk=pk)


@cache
def _annotate_sessions_with_displayed_values() -> QuerySet[Session]:
    """Select all sessions with the values that their pages display. Resolving so many annotations takes longer than
    the query, so that is done once."""
    return _annotate_related_counts(_annotate_related_row_flags(_annotate_owner_and_last_run(Session.objects.all())))


def _query_blocking_calls(session: int) -> QuerySet[ToolCall, _BlockingCall]:
    """Query the calls that block a session, longest waiting first."""
    return _select_blocking_calls().filter(session=session)[:COUNT_LIMIT]


@cache
def _select_blocking_calls() -> QuerySet[ToolCall, _BlockingCall]:
    calls = ToolCall.objects.filter(status__in=UNDECIDED_CALL_STATUSES)
    asks = ExpressionWrapper(IS_QUESTION, BooleanField())
    columns = ("pk", "status", "asks", "issued_at", "interrupted_at")
    return calls.order_by("interrupted_at", "pk").annotate(asks=asks).values_list(*columns)


def _annotate_related_row_flags(sessions: QuerySet[Session]) -> QuerySet[Session]:
    return sessions.annotate(
        has_fork_run=Exists(Run.objects.filter(session=OuterRef("pk"), number=FORK_RUN_NUMBER)),
        has_workflows=Exists(Workflow.objects.filter(session=OuterRef("pk"))),
        has_pauses=Exists(PausedTask.objects.filter(session=OuterRef("pk"))),
        has_blocking_calls=Exists(ToolCall.objects.filter(status__in=UNDECIDED_CALL_STATUSES, session=OuterRef("pk"))),
        has_decisions=Exists(Decision.objects.filter(session=OuterRef("pk"))),
        is_id_of_call=Exists(
            PeerCall.objects.filter(
                workspace=OuterRef("workspace"), call_id=OuterRef("session_id"), peer=OuterRef("agent")
            )
        ),
        has_forks=Exists(Session.objects.filter(forked_from=OuterRef("pk"))),
        origin_id=F("forked_from__session_id"),
        origin_title=F("forked_from__title"),
    )


def _annotate_related_counts(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """Annotate each session with the counts of its related rows; NULL if there are none."""
    return sessions.annotate(
        last_run_number=Subquery(Run.objects.filter(session=OuterRef("pk")).order_by("-number").values("number")[:1]),
        versions_kept=_build_count_subquery(Checkpoint.objects),
        calls_logged=_build_count_subquery(ToolCall.objects),
        peer_calls_made=_build_count_subquery(PeerCall.objects),
    )


def _build_count_subquery(rows: Manager[Any], session_column: str = "session") -> Subquery:
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
    copied = _load_copied_amounts(sessions)
    return convert_rows_or_mark_unreadable(
        sessions,
        lambda session: _build_session_row(
            session, undecided[session.pk], questions.get(session.pk, 0), copied.get(session.pk)
        ),
        "session",
        attrgetter("pk"),
    )


def _load_copied_amounts(sessions: Iterable[Session | UnreadableRecord]) -> Mapping[int, CopiedAmounts]:
    """Load what the forks among some sessions have from their originals; without a query if there are none."""
    forks = [row.pk for row in sessions if isinstance(row, Session) and row.forked_version is not None]
    return load_copied_amounts_by_fork(Session.objects.filter(pk__in=forks)) if forks else {}


def _build_session_row(
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
