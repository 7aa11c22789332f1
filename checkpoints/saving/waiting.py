"""What waits to be written: snapshots, and the line of them that each session has."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.exceptions import FileError
from checkpoints.saving.frozen import Frozen
from checkpoints.saving.state import State

#: Seconds until the next try after an error that may pass: at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


@dataclass(eq=False)
class Ticket:
    """Receipt for a snapshot that was handed in.

    Attributes:
        session_id: Identifier of the session.
        version: Number of the version. None until it, or a newer one in its place, is durable.
    """

    session_id: str
    version: int | None = None

    @property
    def durable(self) -> bool:
        """Whether the snapshot, or a newer one in its place, is saved."""
        return self.version is not None


@dataclass(frozen=True)
class Wanted:
    """A snapshot to hand in. `transcript` None means the one that was handed in last.

    A `light` one has the details of a phase alone, so it cannot stand for the snapshot before it.
    """

    session_id: str
    transcript: Sequence[dict[str, Any]] | None
    state: State
    step: int | None = None
    light: bool = False


@dataclass(eq=False)
class Entry:
    session_id: str
    frozen: Frozen
    state: State
    step: int | None
    light: bool
    tickets: list[Ticket]
    since: float = field(default_factory=time.monotonic)

    def as_dict(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "phase": str(self.state.phase),
            "step": self.step,
            "messages": len(self.frozen.messages),
            "waited_seconds": time.monotonic() - self.since,
        }


@dataclass(eq=False)
class Line:
    """What waits of one session, oldest first; the last one may be kept back until it is due."""

    entries: deque[Entry] = field(default_factory=deque)
    kept_back: bool = False
    writing: bool = False
    turns: int = 0
    #: What was handed in last, and the version that was written last.
    newest: Frozen = field(default_factory=Frozen)
    state: State | None = None
    version: int | None = None
    #: After an error that may pass.
    not_before: float = 0.0
    pause: float = FIRST_PAUSE
    last_error: Exception | None = None
    #: What stopped this line for good, and what has gone wrong beside it.
    trouble: Exception | None = None
    complaint: FileError | None = None

    def as_dicts(self) -> list[dict[str, Any]]:
        """What is not durable, oldest first."""
        last = len(self.entries) - 1
        return [
            entry.as_dict() | {"kept_back": self.kept_back and place == last}
            for place, entry in enumerate(self.entries)
        ]

    def ready(self) -> bool:
        """Whether the first one may be written."""
        return self.trouble is None and len(self.entries) > self.kept_back
