"""Requests to other agents, and the results with which a run continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpoints.resume.resume_point import ResumePoint

#: Default deadline: no call is without one.
DEFAULT_DEADLINE = timedelta(minutes=10)
#: Seconds or a duration from now, by the database's clock, or a point in time with a time zone.
Deadline = float | timedelta | datetime


@dataclass(frozen=True)
class PeerCall:
    """One request to another agent.

    Attributes:
        id: Identifier of the call, unique in the workspace; it goes with the request.
        peer: Name of the agent.
        request: JSON value that is the request.
        deadline: Seconds or a duration from now, by the database's clock, or a point in time with a time zone.
        token: Secret the response has to bring; only its digest is stored. None: no secret.
        sent: Whether the caller sends the request. False leaves it to `tell_peers`, so that a crash between the pause
            and the sending loses nothing.
    """

    id: str
    peer: str
    request: Any = None
    deadline: Deadline = DEFAULT_DEADLINE
    token: str | None = field(default=None, repr=False)
    sent: bool = True


@dataclass(frozen=True)
class Join:
    """Calls that are waited for together.

    Attributes:
        id: Identifier of the join, unique in the session.
        calls: The calls.
    """

    id: str
    calls: Sequence[PeerCall]


@dataclass(frozen=True)
class Paused:
    """Stored pause.

    Attributes:
        session_id: Identifier of the session.
        number: Number of the pause in the session, from 1.
        complete: Joins that early responses had completed already; this caller alone is told.
        ready: Whether `take_paused` can take the session now.
    """

    session_id: str
    number: int
    complete: tuple[str, ...]
    ready: bool


@dataclass(frozen=True)
class PeerResult:
    """End of one call to another agent.

    Attributes:
        call_id: Identifier of the call.
        peer: Name of the agent.
        status: `answered` or `expired`.
        result: Response of the agent, a JSON value; None for an expired call.
        settled_at: Time of the end.
    """

    call_id: str
    peer: str
    status: str
    result: Any
    settled_at: datetime

    @property
    def answered(self) -> bool:
        """Whether the agent has answered in time."""
        return self.status == "answered"


@dataclass(frozen=True)
class TakenJoin:
    """Complete join.

    Attributes:
        id: Identifier of the join.
        pause: Number of the pause that opened it.
        results: Ends of its calls.
    """

    id: str
    pause: int
    results: tuple[PeerResult, ...]


@dataclass(frozen=True)
class TakenTask:
    """Point where a paused run continues.

    Attributes:
        session_id: Identifier of the session.
        point: Transcript, plan, budget and more, as after a resume.
        state: State stored by the newest pause, a JSON object.
        paused_version: Version the session was paused at.
        joins: Joins that are complete and whose results are in no later version.
        open: Identifiers of the joins that are still waited for.
        times_taken: How often the task was taken; more than 1 where a run had taken it before and was lost.
    """

    session_id: str
    point: ResumePoint
    state: dict[str, Any]
    paused_version: int
    joins: tuple[TakenJoin, ...]
    open: tuple[str, ...]
    times_taken: int

    @property
    def results(self) -> dict[str, PeerResult]:
        """All results by call id."""
        return {result.call_id: result for join in self.joins for result in join.results}


@dataclass(frozen=True)
class Notice:
    """Notice that is due to another agent; it may be sent more than once.

    Attributes:
        kind: `request` or `cancel`.
        session_id: Identifier of the session.
        call_id: Identifier of the call.
        peer: Name of the agent.
        request: The request, a JSON value.
        deadline: Deadline of the call.
        attempt: Number of the attempt to send it, from 1.
    """

    kind: str
    session_id: str
    call_id: str
    peer: str
    request: Any
    deadline: datetime
    attempt: int


@dataclass(frozen=True)
class Told:
    """Notices that were sent and that were not.

    Attributes:
        told: Identifiers of the calls whose notices were delivered.
        failed: Error by call id of the others, which are tried again later.
    """

    told: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Swept:
    """Effect of one sweep of deadlines; this caller alone is told of it.

    Attributes:
        expired: Identifiers of the calls that were given up.
        complete: Session and join identifiers of the joins that this completed.
    """

    expired: tuple[str, ...] = ()
    complete: tuple[tuple[str, str], ...] = ()
