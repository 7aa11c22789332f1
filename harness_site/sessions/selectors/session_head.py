"""The head of every page of a session: its row, the counts of what it has, and what it waits for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TypeAlias

from django.db.models import (
    BooleanField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    QuerySet,
    Subquery,
)

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES, SessionStatus
from checkpoints.models import Checkpoint, Decision, PausedTask, PeerCall, Run, Session, ToolCall, Workflow
from checkpoints.models.run import FORK_RUN_NUMBER
from checkpoints.models.session import deserialize_labels
from checkpoints.models.tool_calls_and_results import IS_QUESTION
from harness_site.sessions.selectors import (
    calls_of_original_after_fork,
    fork_list_and_preview,
    requests_from_other_agents,
    session_history,
    waits_for_other_agents,
)
from harness_site.sessions.selectors.fork_list_and_preview import Forks
from harness_site.sessions.selectors.requests_from_other_agents import AskingCall
from harness_site.sessions.selectors.session_history import HistoryItem
from harness_site.sessions.selectors.session_rows import (
    SessionRow,
    annotate_owner_and_last_run,
    build_count_subquery,
    build_session_row,
    load_copied_amounts_of_forks,
)
from harness_site.sessions.selectors.waits_for_other_agents import PeerWaitSummary

#: Maximum number of blocking calls counted for one session.
COUNT_LIMIT = 1000
#: Key of a call that blocks a session, its status, whether it is a question, when it was made and interrupted.
_BlockingCall: TypeAlias = tuple[int, str, bool, datetime, datetime | None]


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
        row=build_session_row(
            session,
            Counter(status for _, status, *_ in blocking_calls),
            questions,
            load_copied_amounts_of_forks([session]).get(pk),
        ),
        stored=session,
        runs=session.last_run_number or 0,  # type: ignore[attr-defined]
        versions=session.versions_kept or 0,  # type: ignore[attr-defined]
        calls=session.calls_logged or 0,  # type: ignore[attr-defined]
        labels=deserialize_labels(session.labels),
        result=session.result,
        undecided_call=undecided[0] if undecided else None,
        waiting_since=min(
            (_get_waiting_since(session, interrupted or issued) for *_, issued, interrupted in blocking_calls),
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


def _get_waiting_since(session: Session, since: datetime) -> datetime:
    """Return since when a call waits: a fork has copied the time at which it was interrupted in its original."""
    return since if session.forked_version is None else max(since, session.created_at)


def _query_session_with_page_header_values(workspace_id: int, pk: int) -> QuerySet[Session]:
    return _annotate_sessions_with_displayed_values().filter(workspace_id=workspace_id, pk=pk)


@cache
def _annotate_sessions_with_displayed_values() -> QuerySet[Session]:
    """Select all sessions with the values that their pages display. Resolving so many annotations takes longer than
    the query, so that is done once."""
    return _annotate_related_counts(_annotate_related_row_flags(annotate_owner_and_last_run(Session.objects.all())))


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
        versions_kept=build_count_subquery(Checkpoint.objects),
        calls_logged=build_count_subquery(ToolCall.objects),
        peer_calls_made=build_count_subquery(PeerCall.objects),
    )
