"""Reference to the call that a decision is about, and the revision of it that the actor has seen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecisionTarget:
    """Call to decide, and the revision of it that the actor saw."""

    session_id: str
    call_id: str
    revision: int
    step: int | None = None
    attempt: int | None = None
