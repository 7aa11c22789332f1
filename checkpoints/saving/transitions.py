"""How a call changes by what its agent and the machine do. What people and probes decide stands in
`checkpoints.resuming.decisions.RULES`; `docs/state-machine.md` is made from both.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.enums import CallStatus


@dataclass(frozen=True)
class Transition:
    """From which status to which, who moves the call, and what has happened. `before` None: there was no such call."""

    before: CallStatus | None
    after: CallStatus
    actor: str
    cause: str


ISSUE = Transition(None, CallStatus.ISSUED, "the agent", "makes the call; the tool runs once this is durable")
ASK = Transition(None, CallStatus.AWAITING_APPROVAL, "the agent", "makes a call whose tool requires approval")
BEGIN = Transition(
    CallStatus.APPROVED, CallStatus.ISSUED, "the agent", "makes the call again, which uses up the approval"
)
RERUN = Transition(
    CallStatus.RERUN_APPROVED,
    CallStatus.SUPERSEDED,
    "the agent",
    "makes the call again, which uses up the approval: a new attempt is issued",
)
LOSE = Transition(CallStatus.ISSUED, CallStatus.INTERRUPTED, "the machine", "nobody will report how the call ended")
DISCARD = Transition(CallStatus.ISSUED, CallStatus.DISCARDED, "the machine", "the same, of a call that only reads")

#: What the run that issued a call says about its end.
OUTCOMES = {
    after: Transition(CallStatus.ISSUED, after, "the run that issued it", cause)
    for after, cause in (
        (CallStatus.COMPLETED, "the tool has returned"),
        (CallStatus.FAILED, "the tool has raised an error that says that nothing happened"),
        (CallStatus.INTERRUPTED, "the tool has stopped and may have happened all the same"),
    )
}

TRANSITIONS = (ISSUE, ASK, BEGIN, RERUN, *OUTCOMES.values(), LOSE, DISCARD)


def ending(status: CallStatus) -> Transition:
    """How a call comes to that end in the run that issued it."""
    return DISCARD if status == DISCARD.after else OUTCOMES[status]


def lost(*, mutates: bool) -> Transition:
    """What becomes of a call that nobody reports on any more."""
    return LOSE if mutates else DISCARD
