"""Answers that a person may give about an interrupted call or a call that awaits approval."""

from dataclasses import dataclass
from typing import Final

from checkpoints.enums import CallStatus, DecisionKind


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """Possible answer: its name, its effect on the call, and its button label."""

    kind: DecisionKind
    name: str
    does: str
    button: str


#: Answers about a call whose outcome is unknown.
OUTCOMES: Final = (
    AnswerOption(
        DecisionKind.CONFIRM_LANDED,
        "It happened",
        "Record the result below. The agent goes on as if the call had returned it. Nothing runs again.",
        "Record that it happened",
    ),
    AnswerOption(
        DecisionKind.MARK_FAILED,
        "It did not happen",
        "Mark the call as failed. The agent is told so, with your reason, and may decide to try again.",
        "Record that it did not happen",
    ),
    AnswerOption(
        DecisionKind.APPROVE_RERUN,
        "Run it once more",
        "Exactly one more execution, with exactly these arguments. If the first one did happen, it will have "
        "happened twice.",
        "Approve one more run",
    ),
)
#: Answers about a call that awaits approval.
APPROVALS: Final = (
    AnswerOption(
        DecisionKind.APPROVE,
        "Approve",
        "The call runs once, with exactly these arguments.",
        "Approve this call",
    ),
    AnswerOption(
        DecisionKind.EDIT,
        "Edit",
        "Change the arguments. Nothing runs yet: the changed call waits for an approval of its own.",
        "Record the changed arguments",
    ),
    AnswerOption(
        DecisionKind.REJECT,
        "Reject",
        "The call does not run. The agent gets your message as its error.",
        "Reject this call",
    ),
    AnswerOption(
        DecisionKind.RESPOND,
        "Respond instead",
        "The call does not run. The agent gets your text as its result.",
        "Respond instead of the call",
    ),
)
ANSWERS: Final = {CallStatus.INTERRUPTED: OUTCOMES, CallStatus.AWAITING_APPROVAL: APPROVALS}
