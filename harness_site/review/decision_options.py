"""Answers that a person may give about an interrupted call or a call that awaits approval."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, DecisionKind


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """Possible answer: its name, its effect in a few words and in whole sentences, and its button label."""

    kind: DecisionKind
    name: str | Promise
    summary: str | Promise
    does: str | Promise
    button: str | Promise


#: Answers about a call whose outcome is unknown.
OUTCOMES: Final = (
    AnswerOption(
        DecisionKind.CONFIRM_LANDED,
        _("It happened"),
        _("The agent gets its result."),
        _("Record the result below. The agent continues as if the call had returned it. Nothing runs again."),
        _("Record that it happened"),
    ),
    AnswerOption(
        DecisionKind.MARK_FAILED,
        _("It did not happen"),
        _("The agent may try again."),
        _("Mark the call as failed. The agent gets your reason and may try again."),
        _("Record that it did not happen"),
    ),
    AnswerOption(
        DecisionKind.APPROVE_RERUN,
        _("Run it once more"),
        _("It may happen twice."),
        _("Exactly one more run, with exactly these arguments. If the first one did happen, it happens twice."),
        _("Approve one more run"),
    ),
)
#: Answers about a call that awaits approval.
APPROVALS: Final = (
    AnswerOption(
        DecisionKind.APPROVE,
        _("Approve"),
        _("The call runs as shown."),
        _("The call runs once, with exactly these arguments."),
        _("Approve this call"),
    ),
    AnswerOption(
        DecisionKind.EDIT,
        _("Edit"),
        _("Change the arguments first."),
        _("Change the arguments. Nothing runs yet: the changed call needs an approval of its own."),
        _("Record the changed arguments"),
    ),
    AnswerOption(
        DecisionKind.REJECT,
        _("Reject"),
        _("The call does not run."),
        _("The call does not run. The agent gets your message as its error."),
        _("Reject this call"),
    ),
    AnswerOption(
        DecisionKind.RESPOND,
        _("Respond instead"),
        _("Answer for the tool."),
        _("The call does not run. The agent gets your answer as its result."),
        _("Respond instead of the call"),
    ),
)
ANSWERS: Final = {CallStatus.INTERRUPTED: OUTCOMES, CallStatus.AWAITING_APPROVAL: APPROVALS}
