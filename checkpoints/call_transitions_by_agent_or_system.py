"""Status transitions of a call by its agent and the machine.

Those by people and probes are in `checkpoints.decisions.decide.RULES`; `docs/state-machine.md` is made from both.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.enums import CallStatus


@dataclass(frozen=True)
class Transition:
    """Status transition, with its actor and event. `before` None: the call did not exist."""

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
WITHDRAW = Transition(
    CallStatus.AWAITING_APPROVAL,
    CallStatus.DISCARDED,
    "the agent",
    "continues without the decision: its framework answered the interrupt itself",
)
REPORT = Transition(
    CallStatus.APPROVED,
    CallStatus.COMPLETED,
    "the agent",
    "saves the result of an approved call that its framework made",
)
LOSE = Transition(CallStatus.ISSUED, CallStatus.INTERRUPTED, "the machine", "nobody will report how the call ended")
DISCARD = Transition(CallStatus.ISSUED, CallStatus.DISCARDED, "the machine", "the same, of a call that only reads")

#: Outcomes reported by the run that issued a call.
OUTCOMES = {
    after: Transition(CallStatus.ISSUED, after, "the run that issued it", cause)
    for after, cause in (
        (CallStatus.COMPLETED, "the tool has returned"),
        (CallStatus.FAILED, "the tool has raised an error that says that nothing happened"),
        (CallStatus.INTERRUPTED, "the tool has stopped and may have happened all the same"),
    )
}

TRANSITIONS = (ISSUE, ASK, BEGIN, RERUN, WITHDRAW, REPORT, *OUTCOMES.values(), LOSE, DISCARD)


def get_transition_to_outcome(status: CallStatus) -> Transition:
    """Return the transition to that outcome in the run that issued the call."""
    return DISCARD if status == DISCARD.after else OUTCOMES[status]


def get_transition_of_call_in_lost_run(*, has_side_effects: bool) -> Transition:
    """Return the transition of a call of a lost run."""
    return LOSE if has_side_effects else DISCARD
