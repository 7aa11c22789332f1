"""What whoever brings another agent's answer is told about it. Every one of these is durable when it is returned, so
the message may be acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Answer:
    """What became of a response to the call `call_id`."""

    call_id: str


@dataclass(frozen=True)
class Accepted(Answer):
    """It counts. `join_complete` is true for exactly one response of a join: whoever gets it calls `take_paused`."""

    session_id: str
    join_id: str
    join_complete: bool
    completed: int
    total: int


@dataclass(frozen=True)
class Duplicate(Answer):
    """The call has been answered before; nothing changed. `same` says whether with the same result.

    `ready` says that its join is complete and no run has used the results yet: after a crash between an acceptance and
    what should have followed, the message that is delivered again leads here, and `take_paused` may be called.
    """

    session_id: str
    same: bool
    ready: bool


@dataclass(frozen=True)
class Late(Answer):
    """The call was given up at its `deadline`, and the run may have gone on without it. Kept as evidence."""

    session_id: str
    deadline: datetime


@dataclass(frozen=True)
class Cancelled(Answer):
    """Nobody waits for the call any more."""

    session_id: str


@dataclass(frozen=True)
class Foreign(Answer):
    """The call is not this sender's to answer: it was made to another agent, for another session or with another
    token. Nothing changed, and the right answer still counts."""

    session_id: str


@dataclass(frozen=True)
class Unknown(Answer):
    """There is no such call, and there can be none. Nothing was kept."""


@dataclass(frozen=True)
class Early(Unknown):
    """There is no such call yet. The response is kept; the pause that names the call counts it in its own transaction.

    A pause that never comes leaves it to the sweeper, after a day.
    """
