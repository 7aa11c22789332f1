"""What is known about one call, in the order in which it happened. What is not known stands there as a gap."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints.enums import DECIDING, InterruptReason
from checkpoints.models import ToolCall
from checkpoints.queries.inbox import Evidence


@dataclass(frozen=True, slots=True)
class Event:
    """One line: `kind` chooses its words, `about` is the row they speak of. A line without a time is not dated."""

    kind: str
    about: Any
    at: datetime | None = None
    seconds: float | None = None


def trace(call: ToolCall, evidence: Evidence) -> list[Event]:
    """The lines of the card's second question."""
    return [_intent(call), *_interruption(call), *_afterwards(call, evidence)]


def _intent(call: ToolCall) -> Event:
    if call.reason == InterruptReason.FORKED:  # its own run is that of the fork, and never started it
        return Event("carried", call.session, call.issued_at)
    return Event("intent", call.run, call.issued_at)


def _interruption(call: ToolCall) -> list[Event]:
    if call.interrupted_at is None:
        return [] if call.settled_at is None else [Event("settled", call, call.settled_at)]
    lost = call.reason == InterruptReason.RUN_LOST
    ended = call.run.ended_at if lost and call.run.ended_at else call.interrupted_at
    gap = Event("gap", call, seconds=max((ended - call.issued_at).total_seconds(), 0.0))
    return [gap, Event("lost", call.run, ended)] if lost else [gap]


def _afterwards(call: ToolCall, evidence: Evidence) -> list[Event]:
    dated: list[tuple[datetime, str, Any]] = [
        (run.started_at, "later_run" if index else "took", run) for index, run in enumerate(evidence.successors)
    ]
    dated += [(late.received_at, "late", late) for late in evidence.late_results]
    dated += [(made.created_at, _kind(made.kind), made) for made in evidence.decisions]
    if evidence.next_attempt is not None:
        dated.append((evidence.next_attempt.issued_at, "again", evidence.next_attempt))
    events = [Event(kind, about, at) for at, kind, about in sorted(dated, key=lambda one: one[0])]
    if call.verify_requested_by:
        events.append(Event("requested", call))
    return events


def _kind(kind: str) -> str:
    return "decision" if kind in DECIDING else "probe"
