"""Answers that a person may give about an interrupted call or a call that awaits approval."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models import Decision, ToolCall
from harness_site.core.site_languages import SITE_LANGUAGES
from harness_site.review.question_choices import (
    AnswerType,
    QuestionChoice,
    find_requested_answer_type,
    list_question_choices,
)


@dataclass(frozen=True, slots=True)
class AnswerOption:
    """Possible answer: its name, its effect in a few words and in whole sentences, and its button label.

    `choice` is the value of the form field of an answer that is an option of the question; empty for any other.
    """

    kind: DecisionKind
    name: str | Promise
    summary: str | Promise
    does: str | Promise
    button: str | Promise
    choice: str = ""
    #: True if the page lists the answer under “More answers”.
    is_secondary: bool = False
    #: Warning that stands beside the button too; empty if the answer needs none.
    warning: str | Promise = ""


#: Answers about a call whose outcome is unknown.
OUTCOMES: Final = (
    AnswerOption(
        DecisionKind.CONFIRM_LANDED,
        _("It happened"),
        _("You can enter what it returned."),
        _("Enter below what the tool has returned, if you know it. Nothing runs again."),
        _("Record that it happened"),
    ),
    AnswerOption(
        DecisionKind.MARK_FAILED,
        _("It did not happen"),
        _("The agent may try again."),
        _("The call counts as failed. The agent gets your reason and may try again."),
        _("Record that it did not happen"),
    ),
    AnswerOption(
        DecisionKind.APPROVE_RERUN,
        _("Run it once more"),
        _("It may happen twice."),
        _("Exactly one more run, with exactly these arguments. If the first one did happen, it happens twice."),
        _("Approve one more run"),
        warning=_("If the first run did happen, its effect happens twice."),
    ),
)
#: Answers about such a call in a session that has ended: nothing of it runs again, so they are only recorded.
_OUTCOMES_IN_ENDED_SESSION: Final = tuple(
    replace(
        answer,
        summary=_("Nothing runs."),
        does=_("It is recorded with the call. The session has ended, so nothing runs and no agent is told."),
    )
    for answer in OUTCOMES
    if answer.kind != DecisionKind.APPROVE_RERUN
)
#: Answers that say what happened; the status of their call says the same in another word.
OUTCOME_KINDS: Final = frozenset({DecisionKind.CONFIRM_LANDED, DecisionKind.MARK_FAILED})
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
        _("Record changes"),
    ),
    AnswerOption(
        DecisionKind.REJECT,
        _("Reject"),
        _("The call does not run."),
        _("The call does not run. The agent is told that it was refused, and why."),
        _("Reject this call"),
    ),
    AnswerOption(
        DecisionKind.RESPOND,
        _("Respond instead"),
        _("You write the tool’s result."),
        _("The call does not run. The agent gets your answer as its result."),
        _("Respond instead of the call"),
    ),
)
#: Edit of a call that one person may approve together with the change.
EDIT_WITH_APPROVAL: Final = replace(
    APPROVALS[1],
    does=_(
        "Change the arguments. Then approve the changed call as well, or leave that to somebody else: without an "
        "approval, it does not run."
    ),
)
#: Edit of a call that several people have to approve, of whom none has edited it.
EDIT_FOR_SEVERAL: Final = replace(
    APPROVALS[1],
    does=_("Change the arguments. Nothing runs yet: other people have to approve the changed call, you cannot."),
)
#: Approval after which more people have to approve the call before it runs.
APPROVAL_OF_SEVERAL: Final = replace(
    APPROVALS[0],
    does=_("Your approval counts. The call runs once, with exactly these arguments, as soon as enough people approve."),
)
#: Answers about a question that a framework's interrupt asks; no tool runs.
_QUESTION_ANSWERS: Final = (
    AnswerOption(
        DecisionKind.APPROVE,
        _("Yes"),
        _("The agent gets yes (the value true)."),
        _("The agent gets the value true as the answer to its question."),
        _("Answer yes"),
    ),
    AnswerOption(
        DecisionKind.REJECT,
        _("No"),
        _("The agent gets no (the value false)."),
        _("The agent gets the value false as the answer to its question."),
        _("Answer no"),
    ),
    AnswerOption(
        DecisionKind.RESPOND,
        _("Answer"),
        _("The agent gets your text."),
        _("The agent gets your text as the answer to its question."),
        _("Record the answer"),
    ),
    AnswerOption(
        DecisionKind.EDIT,
        _("Change the value"),
        _("Correct the agent’s data."),
        _("You change what the agent sent with its question. The agent gets it back once somebody has approved it."),
        _("Record the changed value"),
    ),
)
#: First words of a sentence that is seldom answered with yes or no, in English and German.
_OPEN_QUESTION: Final = re.compile(
    r"(?:^|[.!?:;\n])\s*(?:which|what|who|whom|whose|where|when|why|how|welche[mnrs]?|was|wer|wem|wen|wo|wann|warum|wie)\b",
    re.IGNORECASE,
)
#: Number of the options of a question that stand before “More answers”.
_MAX_PRIMARY_CHOICES: Final = 12
_APPROVAL_OF_CHANGED_VALUE: Final = AnswerOption(
    DecisionKind.APPROVE,
    _("Approve"),
    _("The agent gets the changed value."),
    _("The agent gets the changed value."),
    _("Approve the changed value"),
)
#: Only answer to a question in a session that has ended: it takes the question off the list.
_NO_ANSWER: Final = AnswerOption(
    DecisionKind.REJECT,
    _("No answer"),
    _("The question leaves the list."),
    _("The session has ended, so the agent gets no answer. The question leaves the list."),
    _("Close without an answer"),
)
#: One more run of a tool that declares a low risk, and of one that only reads.
RERUN_OF_LOW_RISK: Final = replace(
    OUTCOMES[-1],
    summary=_("It may happen twice (low risk)."),
    does=_(
        "Exactly one more run, with exactly these arguments. If the first one did happen, it happens twice. The tool "
        "is marked as low risk. It does not say whether a repeat is harmless."
    ),
    warning="",
)
RERUN_OF_READING: Final = replace(
    OUTCOMES[-1],
    summary=_("Its tool only reads."),
    does=_("Exactly one more run, with exactly these arguments. Its tool only reads, so nothing happens twice."),
    warning="",
)
_ANSWERS: Final = {CallStatus.INTERRUPTED: OUTCOMES, CallStatus.AWAITING_APPROVAL: APPROVALS}


def list_answer_options(call: ToolCall) -> tuple[AnswerOption, ...]:
    """List the possible answers about a call, in the order of the page; empty if it needs none."""
    if call.status == CallStatus.AWAITING_APPROVAL and call.is_question:
        if call.session.finished:
            return (_NO_ANSWER,)
        if not call.has_changed_args and (choices := list_question_choices(call)):
            return _list_answer_options_of_question(choices)
        if call.has_changed_args:
            return tuple(
                _APPROVAL_OF_CHANGED_VALUE if answer.kind == DecisionKind.APPROVE else answer
                for answer in _list_question_answers_with_another_answer()
            )
        requested = find_requested_answer_type(call)
        if requested == AnswerType.BOOLEAN or (requested is None and _OPEN_QUESTION.search(call.sentence) is None):
            secondary = {DecisionKind.EDIT} | ({DecisionKind.RESPOND} if requested else set())
            return tuple(
                replace(answer, is_secondary=answer.kind in secondary)
                for answer in _list_question_answers_with_another_answer()
            )
        return tuple(
            replace(answer, is_secondary=answer.kind != DecisionKind.RESPOND)
            for answer in sorted(_QUESTION_ANSWERS, key=lambda answer: answer.kind != DecisionKind.RESPOND)
        )
    if call.status == CallStatus.INTERRUPTED and call.session.finished:
        return _OUTCOMES_IN_ENDED_SESSION
    return _ANSWERS.get(CallStatus(call.status), ()) if call.status in CallStatus.values else ()


def _list_question_answers_with_another_answer() -> list[AnswerOption]:
    """List the answers to a question, of which a text is one in place of yes, no or an option."""
    return [
        replace(answer, name=_("Another answer")) if answer.kind == DecisionKind.RESPOND else answer
        for answer in _QUESTION_ANSWERS
    ]


def is_reason_given(call: ToolCall, decision: Decision) -> bool:
    """Return whether somebody wrote the reason of a decision.

    For yes and no, the name of the answer is stored without one, in the language of its author.
    """
    if not call.is_question or decision.kind not in {DecisionKind.APPROVE, DecisionKind.REJECT}:
        return bool(decision.reason)
    names = {""}
    for language, _name in SITE_LANGUAGES:
        with translation.override(language):
            names.add(find_answer_name_or_empty(call, decision.kind))
    return decision.reason not in names


def find_answer_name_or_empty(call: ToolCall, field_value: str) -> str:
    """Return the name of the answer with this value of the form field, in any status of the call; empty if unknown."""
    for choice in list_question_choices(call):
        if choice.form_value == field_value:
            return choice.label
    all_options = _QUESTION_ANSWERS if call.is_question else (*OUTCOMES, *APPROVALS)
    options = (option for option in (*list_answer_options(call), *all_options) if not option.choice)
    return next((str(option.name) for option in options if option.kind == field_value), "")


def _list_answer_options_of_question(choices: Sequence[QuestionChoice]) -> tuple[AnswerOption, ...]:
    """List an answer for each option of a question, then a text in its place, then a change of the question."""
    by_kind = {answer.kind: answer for answer in _list_question_answers_with_another_answer()}
    other = by_kind[DecisionKind.RESPOND]
    shown = Counter((choice.label, choice.masked_answer, choice.description) for choice in choices)
    answers = [
        _build_answer_option_of_choice(choice, alike=shown[choice.label, choice.masked_answer, choice.description] > 1)
        for choice in choices
    ]
    primary, more = answers[:_MAX_PRIMARY_CHOICES], answers[_MAX_PRIMARY_CHOICES:]
    if not more:
        return (*primary, other, replace(by_kind[DecisionKind.EDIT], is_secondary=True))
    secondary = (*more, other, by_kind[DecisionKind.EDIT])
    return (*primary, *(replace(answer, is_secondary=True) for answer in secondary))


def _build_answer_option_of_choice(choice: QuestionChoice, *, alike: bool) -> AnswerOption:
    """Build the answer of an option; options that look `alike` with their secrets masked are numbered."""
    sent = gettext("The agent gets this text.")
    if choice.masked_answer != choice.label:
        sent = gettext("The agent gets “%(answer)s”.") % {"answer": choice.masked_answer}
    number = gettext("Option %(number)s") % {"number": choice.number} if alike else ""
    return AnswerOption(
        DecisionKind.RESPOND,
        choice.label,
        " · ".join(filter(None, (number, choice.description))),
        " · ".join(filter(None, (number, choice.description, sent))),
        _("Record the answer"),
        choice.form_value,
    )
