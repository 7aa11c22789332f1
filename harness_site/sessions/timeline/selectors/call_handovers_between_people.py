"""Hand-overs of waiting calls between people, and how they ended before a decision, from entries of the audit trail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from checkpoints.enums import AuditKind

#: Entries that begin a hand-over, and those that may end one.
HANDOVER_KINDS: Final = (AuditKind.HANDED_OVER, AuditKind.RELEASED, AuditKind.CLAIMED)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What a person did with a waiting call at `at`.

    The `kind` is `handed` if `name` handed the call to `other`, `taken_back` if `name` took it back from `other`,
    `taken_over` if it was handed to `other` and `name` claimed it, and `given_up` if `other` had handed it to `name`,
    who released it.
    """

    kind: str
    name: str
    other: str
    at: datetime


def list_handovers(entries: Iterable[tuple[str, str, dict[str, Any], datetime]]) -> list[HandOver]:
    """List the hand-overs among the entries about one call, oldest first: kind, actor, details and time of each.

    Claims and releases of a call that nobody has handed over are left out. A hand-over that expired, or that ended with
    a decision of its receiver, has left no entry: the next claim is not said to have taken the call over.
    """
    found: list[HandOver] = []
    open_handover: HandOver | None = None
    for kind, actor, details, at in entries:
        if kind == AuditKind.HANDED_OVER:
            open_handover = HandOver("handed", actor, str(details.get("to_member", "")), at)
            found.append(open_handover)
        elif open_handover is not None:
            end = _build_end_of_handover(open_handover, kind, actor, details, at)
            if end is not None:
                found.append(end)
            open_handover = None
    return found


def _build_end_of_handover(
    handover: HandOver, kind: str, actor: str, details: dict[str, Any], at: datetime
) -> HandOver | None:
    """Build the end of a hand-over by the next claim or release; None if it had ended before."""
    if kind == AuditKind.CLAIMED:
        # A claim has the name of the previous holder only if it took the place of a claim that still held.
        was_held = details.get("from_member") == handover.other
        return HandOver("taken_over", actor, handover.other, at) if was_held else None
    if actor == handover.name:
        return HandOver("taken_back", actor, handover.other, at)
    return HandOver("given_up", actor, handover.name, at)


def filter_handovers_of_attempt(
    handovers: Iterable[HandOver], *, attempt: int, issued_at: datetime, next_issued_at: datetime | None
) -> Sequence[HandOver]:
    """Return those of one attempt of a call; the first one may have waited for approval before it was issued."""
    return [
        each
        for each in handovers
        if (attempt == 1 or issued_at <= each.at) and (next_issued_at is None or each.at < next_issued_at)
    ]
