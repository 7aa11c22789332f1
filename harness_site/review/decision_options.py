"""Answers that a person may give about an interrupted call or a call that awaits approval."""

from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models import ToolCall


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
#: Answers about a question that a framework's interrupt asks; no tool runs.
_QUESTION_ANSWERS: Final = (
    AnswerOption(
        DecisionKind.RESPOND,
        _("Answer"),
        _("The agent gets your text."),
        _("The agent gets your text as the answer to its question."),
        _("Record the answer"),
    ),
    AnswerOption(
        DecisionKind.APPROVE,
        _("Yes"),
        _("The agent gets “true”."),
        _("The agent gets the value true as the answer to its question."),
        _("Answer yes"),
    ),
    AnswerOption(
        DecisionKind.REJECT,
        _("No"),
        _("The agent gets “false”."),
        _("The agent gets the value false as the answer to its question."),
        _("Answer no"),
    ),
    AnswerOption(
        DecisionKind.EDIT,
        _("Change the value"),
        _("Edit what the agent sent."),
        _("Change the value that the agent sent. It gets the changed value after somebody has approved it."),
        _("Record the changed value"),
    ),
)
_APPROVAL_OF_CHANGED_VALUE: Final = AnswerOption(
    DecisionKind.APPROVE,
    _("Approve"),
    _("The agent gets the changed value."),
    _("The agent gets the changed value."),
    _("Approve the changed value"),
)
_ANSWERS: Final = {CallStatus.INTERRUPTED: OUTCOMES, CallStatus.AWAITING_APPROVAL: APPROVALS}


def list_answer_options(call: ToolCall) -> tuple[AnswerOption, ...]:
    """List the possible answers about a call, in the order of the page; empty if it needs none."""
    if call.status == CallStatus.AWAITING_APPROVAL and call.is_question:
        return tuple(
            _APPROVAL_OF_CHANGED_VALUE if call.asked_args_digest and answer.kind == DecisionKind.APPROVE else answer
            for answer in _QUESTION_ANSWERS
        )
    return _ANSWERS.get(CallStatus(call.status), ()) if call.status in CallStatus.values else ()
