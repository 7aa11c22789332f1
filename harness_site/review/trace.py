"""What is known about one call, in the order in which it happened. What is not known stands there as a gap."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from checkpoints import clock
from checkpoints.enums import DECIDING, NOT_RUN_CALL, DecisionKind, InterruptReason
from checkpoints.models import ToolCall
from checkpoints.queries.inbox import Evidence
from checkpoints.queries.occasions import Occasions
from checkpoints.queries.voices import places
from checkpoints.resuming.decisions import RULES


@dataclass(frozen=True, slots=True)
class Event:
    """One line: `kind` chooses its words, `about` is the row they speak of. A line without a time is not dated.

    `place` says the how manieth of several people a decision is, `takeover` what the run was taken from.
    """

    kind: str
    about: Any
    at: datetime | None = None
    seconds: float | None = None
    place: int = 0
    takeover: Any = None


def never_ran(call: ToolCall, evidence: Evidence) -> bool:
    """Whether the tool was not started, as far as this attempt goes."""
    made = evidence.deciding
    return call.status in NOT_RUN_CALL or (made is not None and made.kind == DecisionKind.RESPOND)


def trace(call: ToolCall, evidence: Evidence, occasions: Occasions) -> list[Event]:
    """The lines of the card's second question."""
    decided = list(_decisions(call, evidence))
    if never_ran(call, evidence):
        return [Event("asked", call.run.number, call.issued_at), *_afterwards(call, evidence, occasions, decided)]
    before = [event for event in decided if event.at is not None and event.at < call.issued_at]
    after = decided[len(before) :]
    question = occasions.question(call.call_id, call.issued_at) if before else None
    asked = [] if question is None else [Event("asked", question.run_number, question.at)]
    began = [*asked, *before, _intent(call), *_interruption(call, occasions)]
    return [*began, *_afterwards(call, evidence, occasions, after)]


def _intent(call: ToolCall) -> Event:
    if call.reason == InterruptReason.FORKED:  # its own run is that of the fork, and never started it
        return Event("carried", call.session, call.issued_at)
    return Event("intent", call.run, call.issued_at)


def _interruption(call: ToolCall, occasions: Occasions) -> list[Event]:
    if call.interrupted_at is None:
        return [] if call.settled_at is None else [Event("settled", call, call.settled_at)]
    lost = call.reason == InterruptReason.RUN_LOST
    ended = call.run.ended_at if lost and call.run.ended_at else call.interrupted_at
    takeover = occasions.takeovers.get(call.run.number) if lost else None
    gap = Event("gap", call, seconds=max((ended - call.issued_at).total_seconds(), 0.0), takeover=takeover)
    return [gap, Event("lost", call.run, ended)] if lost and takeover is None else [gap]


def _decisions(call: ToolCall, evidence: Evidence) -> Iterator[Event]:
    place = places(evidence.decisions)
    for made in evidence.decisions:
        several = call.approvals > 1 and made.kind in RULES and not RULES[DecisionKind(made.kind)].by_one
        kind = "decision" if made.kind in DECIDING else "probe"
        # A voice that did not count any more when the last one was given has made that one's number too great.
        number = min(place.get(made.pk, 0), call.approvals) if several else 0
        yield Event(kind, made, made.created_at, place=number)


def _afterwards(call: ToolCall, evidence: Evidence, occasions: Occasions, decided: list[Event]) -> list[Event]:
    took = "later_run" if never_ran(call, evidence) else "took"
    events = [
        Event(
            "later_run" if index else took,
            run,
            run.started_at,
            takeover=occasions.takeovers.get(run.number - 1),
        )
        for index, run in enumerate(evidence.successors)
    ]
    events += [Event("late", late, late.received_at) for late in evidence.late_results]
    if evidence.next_attempt is not None:
        events.append(Event("again", evidence.next_attempt, evidence.next_attempt.issued_at))
    if call.deadline is not None and call.deadline < clock.now():
        events.append(Event("deadline", call, call.deadline))
    events = sorted([*events, *decided], key=lambda event: event.at or call.issued_at)
    if call.verify_requested_by:
        events.append(Event("requested", call, occasions.probes.get((call.call_id, call.step))))
    return events
