"""Pauses of a session with their joins and the calls to other agents in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Min, QuerySet, Sum, Window
from django.db.models.functions import RowNumber

from checkpoints.enums import JoinStatus, PauseStatus, PeerCallStatus
from checkpoints.formats import parse_json
from checkpoints.models import Join, PausedTask, PeerCall, Session
from checkpoints.peers import nested_secret_encryption
from checkpoints.seals import row_seals

#: Pauses on a page, and calls of one join on it; the other calls have pages of their own.
PAGE = 10
CALLS = 50
#: Maximum number of peers listed by name.
_NAMED = 3
#: What stands between the name of an agent and the id of a call in the id of a session.
_SEPARATORS: Final = (": ", ":", "/", "-")


@dataclass(frozen=True, slots=True)
class PeerWaitSummary:
    """Progress of a paused session: `open` calls of `total`, to `peers` and `more` others.

    `deadline` is the earliest of the open calls. `ready` is True if no call is open, so that the task can be resumed.
    """

    open: int
    total: int
    peers: tuple[str, ...]
    more: int
    deadline: datetime | None
    ready: bool


@dataclass(frozen=True, slots=True)
class PeerCallRow:
    """One call to another agent. `request`, `result` and `late_result` are JSON values without encrypted secrets.

    `to_tell` is the notice still to be delivered to the peer, after `tell_attempts` attempts.
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
    #: Session in which the peer worked on the request; None if it is not known.
    session_pk: int | None = None

    @property
    def is_open(self) -> bool:
        return self.status == PeerCallStatus.WAITING


@dataclass(frozen=True, slots=True)
class JoinRow:
    """One join with a page of its calls. `after` is the cursor of the next page; None on the last one."""

    pk: int
    join_id: str
    status: str
    completed: int
    total: int
    completed_at: datetime | None
    calls: tuple[PeerCallRow, ...]
    after: int | None

    @property
    def has_answers(self) -> bool:
        return any(call.status == PeerCallStatus.ANSWERED or call.late_at for call in self.calls)

    @property
    def has_unsent_notices(self) -> bool:
        """Return whether a peer still has to be sent something."""
        return any(call.to_tell for call in self.calls)


@dataclass(frozen=True, slots=True)
class PauseRow:
    """One pause, which ended the run `run_number`. `state` is a JSON value without encrypted secrets.

    `unsaved` is True if a run took the task and has not saved since, so that another run can still take it.
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
    """A page of pauses, newest first. `before` is the cursor of the next page."""

    rows: tuple[PauseRow, ...]
    before: int | None


def load_agent_wait_summary(session_pk: int) -> PeerWaitSummary:
    """Summarize what a paused session is waiting for, in three queries."""
    joins = Join.objects.filter(session=session_pk, status=JoinStatus.WAITING)
    total = joins.aggregate(total=Sum("total"))["total"]
    calls = PeerCall.objects.filter(session=session_pk, status=PeerCallStatus.WAITING)
    open_ = calls.aggregate(count=Count("pk"), peers=Count("peer", distinct=True), deadline=Min("deadline"))
    peers = calls.order_by("peer").values_list("peer", flat=True).distinct()[:_NAMED]
    return PeerWaitSummary(
        open=open_["count"],
        total=total or 0,
        peers=tuple(peers),
        more=max(0, open_["peers"] - _NAMED),
        deadline=open_["deadline"],
        # The last answer may have come between the statements.
        ready=total is None or not open_["count"],
    )


def load_pause_page(session_pk: int, *, before: int | None = None, size: int = PAGE) -> PausePage:
    """Load a page of pauses with the first calls of each of their joins, in three queries.

    Raises `IntegrityError` for a row that does not match its seal.
    """
    pauses = PausedTask.objects.filter(session=session_pk).select_related("run", "session").order_by("-number")
    if before is not None:
        pauses = pauses.filter(number__lt=before)
    tasks = list(pauses[: size + 1])
    page = tasks[:size]
    row_seals.verify_rows(page)
    joins = _load_joins_by_pause(Join.objects.filter(task__in=[task.pk for task in page]))
    rows = tuple(_build_pause_row(task, tuple(joins[task.pk])) for task in page)
    return PausePage(rows, page[-1].number if len(tasks) > size else None)


def load_join_with_call_page(session_pk: int, pk: int, *, after: int = 0) -> JoinRow | None:
    """Load a join with its calls whose keys are greater than `after`; None if there is no such join."""
    joins = _load_joins_by_pause(Join.objects.filter(session=session_pk, pk=pk), after=after)
    return next((row for rows in joins.values() for row in rows), None)


def _load_joins_by_pause(joins: QuerySet[Join], *, after: int = 0) -> defaultdict[int, list[JoinRow]]:
    """Load joins with their calls by the key of their pause, in the order of creation."""
    join_rows = list(joins.order_by("pk"))
    row_seals.verify_rows(join_rows)
    calls = _load_agent_calls_by_join([join.pk for join in join_rows], after)
    answering = load_answering_session_pks([call for of_join in calls.values() for call in of_join[:CALLS]])
    rows: defaultdict[int, list[JoinRow]] = defaultdict(list)
    for join in join_rows:
        call_rows = tuple(build_agent_call_row(call, answering.get(call.pk)) for call in calls[join.pk][:CALLS])
        rows[join.task_id].append(
            JoinRow(
                pk=join.pk,
                join_id=join.join_id,
                status=join.status,
                completed=join.completed,
                total=join.total,
                completed_at=join.completed_at,
                calls=call_rows,
                after=call_rows[-1].pk if len(calls[join.pk]) > CALLS else None,
            )
        )
    return rows


def _load_agent_calls_by_join(joins: Iterable[int], after: int) -> defaultdict[int, list[PeerCall]]:
    """Load the first `CALLS` calls of each join, and one more to detect a next page."""
    place = Window(RowNumber(), partition_by=[F("join")], order_by=[F("pk").asc()])
    calls_by_join: defaultdict[int, list[PeerCall]] = defaultdict(list)
    for call in (
        PeerCall.objects.filter(join__in=joins, pk__gt=after).annotate(place=place).filter(place__lte=CALLS + 1)
    ):
        calls_by_join[call.join_id].append(call)
    for calls in calls_by_join.values():
        row_seals.verify_rows(calls)
        calls.sort(key=lambda call: call.pk)
    return calls_by_join


def _build_pause_row(task: PausedTask, joins: tuple[JoinRow, ...]) -> PauseRow:
    is_saved = task.taken_version is not None and task.session.latest_version > task.taken_version
    return PauseRow(
        number=task.number,
        run_number=task.run.number,
        version=task.version,
        # A version saved after the task was taken completes the pause; the status is stored with the next write.
        status=PauseStatus.OVER if task.status == PauseStatus.TAKEN and is_saved else task.status,
        paused_at=task.paused_at,
        taken_at=task.taken_at,
        times_taken=task.times_taken,
        unsaved=task.status == PauseStatus.TAKEN and not is_saved,
        ended_at=task.ended_at,
        state=parse_json_and_hide_encrypted_secrets(task.state),
        joins=joins,
    )


def load_answering_session_pks(calls: Sequence[PeerCall]) -> dict[int, int]:
    """Load the sessions that work on calls, by the key of the call, in one query.

    `find_agent_call_answered_by_session` says when a session works on a call.
    """
    calls_by_id = {
        (call.workspace_id, call.peer, f"{prefix}{call.call_id}"): call
        for call in calls
        for prefix in list_prefixes_of_call_id_in_session_id(call.peer)
    }
    if not calls_by_id:
        return {}
    sessions = Session.objects.filter(
        workspace__in={call.workspace_id for call in calls},
        session_id__in=[session_id for *_, session_id in calls_by_id],
    )
    found = {}
    for pk, workspace, agent, session_id in sessions.values_list("pk", "workspace", "agent", "session_id"):
        call = calls_by_id.get((workspace, agent, session_id))
        if call is not None and call.session_id != pk:
            found[call.pk] = pk
    return found


def list_prefixes_of_call_id_in_session_id(agent: str) -> list[str]:
    """List what may stand before the id of a call in the id of the session that works on it."""
    return ["", *(f"{agent}{separator}" for separator in _SEPARATORS)]


def build_agent_call_row(call: PeerCall, session_pk: int | None) -> PeerCallRow:
    return PeerCallRow(
        pk=call.pk,
        call_id=call.call_id,
        peer=call.peer,
        request=parse_json_and_hide_encrypted_secrets(call.request),
        status=call.status,
        created_at=call.created_at,
        deadline=call.deadline,
        settled_at=call.settled_at,
        result=parse_json_and_hide_encrypted_secrets(call.result),
        late_result=parse_json_and_hide_encrypted_secrets(call.late_result),
        late_at=call.late_at,
        to_tell=call.notice,
        tell_attempts=call.tell_attempts,
        session_pk=session_pk,
    )


def parse_json_and_hide_encrypted_secrets(stored: str | None) -> Any:
    """Parse stored JSON with encrypted secrets removed; damaged JSON is returned as text."""
    if stored is None:
        return None
    try:
        return nested_secret_encryption.hide_encrypted_secrets(parse_json(stored))
    except ValueError:
        return stored
