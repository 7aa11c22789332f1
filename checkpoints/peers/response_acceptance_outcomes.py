"""Outcomes of a response of another agent: it counts, or it came twice, too late, too early or for no call of ours.

Each is durable when it is returned, so that the message may be acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Answer:
    """Base of the outcomes of a response to a call.

    Attributes:
        call_id: Identifier of the call.
    """

    call_id: str


@dataclass(frozen=True)
class Accepted(Answer):
    """The response counts.

    Attributes:
        call_id: Identifier of the call.
        session_id: Identifier of its session.
        join_id: Identifier of its join.
        join_complete: Whether it completed the join: true for exactly one response, whose receiver calls `take_paused`.
        completed: Number of calls of the join that have ended.
        total: Number of calls of the join.
    """

    session_id: str
    join_id: str
    join_complete: bool
    completed: int
    total: int


@dataclass(frozen=True)
class Duplicate(Answer):
    """The call has been answered before; nothing changed.

    Attributes:
        call_id: Identifier of the call.
        session_id: Identifier of its session.
        same: Whether it was answered with the same result.
        ready: Whether its join is complete and no run has used the results yet, so that `take_paused` may be called:
            after a crash between an acceptance and what should have followed, the redelivered message leads here.
    """

    session_id: str
    same: bool
    ready: bool


@dataclass(frozen=True)
class Late(Answer):
    """The call was given up at its deadline; the response is kept as evidence.

    Attributes:
        call_id: Identifier of the call.
        session_id: Identifier of its session.
        deadline: The deadline.
    """

    session_id: str
    deadline: datetime


@dataclass(frozen=True)
class Cancelled(Answer):
    """The call was cancelled.

    Attributes:
        call_id: Identifier of the call.
        session_id: Identifier of its session.
    """

    session_id: str


@dataclass(frozen=True)
class Foreign(Answer):
    """The call was made to another agent, for another session or with another token. Nothing changed.

    Attributes:
        call_id: Identifier of the call.
        session_id: Identifier of its session.
    """

    session_id: str


@dataclass(frozen=True)
class Unknown(Answer):
    """There is no such call, and there can be none. Nothing was kept.

    Attributes:
        call_id: Identifier of the call.
    """


@dataclass(frozen=True)
class Early(Unknown):
    """There is no such call yet. The response is kept; the pause that names the call counts it in its own transaction.

    A response whose pause never comes is deleted by the sweeper after a day.

    Attributes:
        call_id: Identifier of the call.
    """
