"""What is waited for, and what a run gets when it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkpoints.resuming.gate import ResumePoint

#: How long another agent has where nothing is said: no call is without a deadline.
DEADLINE = timedelta(minutes=10)
#: Seconds or a duration from now, by the database's clock, or a moment with a time zone.
Deadline = float | timedelta | datetime


@dataclass(frozen=True)
class PeerCall:
    """One request to another agent. `id` is unique in the workspace and goes with the request.

    `token` is a secret that the answer has to bring; only its digest is stored. `sent=False` leaves it to `tell_peers`
    to send the request, so that a crash between the pause and the sending loses nothing.
    """

    id: str
    peer: str
    request: Any = None
    deadline: Deadline = DEADLINE
    token: str | None = field(default=None, repr=False)
    sent: bool = True


@dataclass(frozen=True)
class Join:
    """Calls that are waited for together."""

    id: str
    calls: Sequence[PeerCall]


@dataclass(frozen=True)
class Paused:
    """A stored pause. `complete` names the joins that early responses had completed already: as for `Accepted`, this
    caller alone is told. `ready` says whether `take_paused` has something to give."""

    session_id: str
    number: int
    complete: tuple[str, ...]
    ready: bool


@dataclass(frozen=True)
class PeerResult:
    """How one call ended: `status` is `answered` (with `result`), or `expired`."""

    call_id: str
    peer: str
    status: str
    result: Any
    settled_at: datetime

    @property
    def answered(self) -> bool:
        return self.status == "answered"


@dataclass(frozen=True)
class TakenJoin:
    """A complete join. `pause` is the number of the pause that opened it."""

    id: str
    pause: int
    results: tuple[PeerResult, ...]


@dataclass(frozen=True)
class TakenTask:
    """Where a paused run goes on: `point` as after a resume, the `state` of the newest pause, and the joins that are
    complete and whose results are in no later version. `open` names those that are still waited for.

    `times_taken` is more than 1 where a run had taken the task before and was lost, or took it twice.
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
    """Something another agent has to be told: `kind` is `request` or `cancel`. It may be told more than once."""

    kind: str
    session_id: str
    call_id: str
    peer: str
    request: Any
    deadline: datetime
    attempt: int


@dataclass(frozen=True)
class Told:
    """The calls whose notices were delivered, and why others were not: these are tried again later."""

    told: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Swept:
    """What a sweep did: the calls it gave up, and the sessions and joins that this completed. As for `Accepted`, this
    caller alone is told of them."""

    expired: tuple[str, ...] = ()
    complete: tuple[tuple[str, str], ...] = ()
