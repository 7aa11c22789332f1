"""What a person may answer: that a call happened or not, and whether one may happen."""

from dataclasses import dataclass
from typing import Final

from checkpoints.enums import CallStatus, DecisionKind


@dataclass(frozen=True, slots=True)
class Answer:
    """Its name, what it does to the call, the words on the button that records it."""

    kind: DecisionKind
    name: str
    does: str
    button: str


#: About a call whose outcome nobody knows.
OUTCOMES: Final = (
    Answer(
        DecisionKind.CONFIRM_LANDED,
        "It happened",
        "Record the result below. The agent goes on as if the call had returned it. Nothing runs again.",
        "Record that it happened",
    ),
    Answer(
        DecisionKind.MARK_FAILED,
        "It did not happen",
        "Mark the call as failed. The agent is told so, with your reason, and may decide to try again.",
        "Record that it did not happen",
    ),
    Answer(
        DecisionKind.APPROVE_RERUN,
        "Run it once more",
        "Exactly one more execution, with exactly these arguments. If the first one did happen, it will have "
        "happened twice.",
        "Approve one more run",
    ),
)
#: About a call that has not run and may not without a person.
APPROVALS: Final = (
    Answer(
        DecisionKind.APPROVE,
        "Approve",
        "The call runs once, with exactly these arguments.",
        "Approve this call",
    ),
    Answer(
        DecisionKind.EDIT,
        "Edit",
        "Change the arguments. Nothing runs yet: the changed call waits for an approval of its own.",
        "Record the changed arguments",
    ),
    Answer(
        DecisionKind.REJECT,
        "Reject",
        "The call does not run. The agent gets your message as its error.",
        "Reject this call",
    ),
    Answer(
        DecisionKind.RESPOND,
        "Respond instead",
        "The call does not run. The agent gets your text as its result.",
        "Respond instead of the call",
    ),
)
ANSWERS: Final = {CallStatus.INTERRUPTED: OUTCOMES, CallStatus.AWAITING_APPROVAL: APPROVALS}
