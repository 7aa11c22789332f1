"""The answers that the decision card offers, and its form."""

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from django.utils.translation import gettext as _

from checkpoints.enums import CallStatus, DecisionKind, Risk, SideEffect
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import Decision, ToolCall
from harness_site.core import masked_formatting
from harness_site.core.money_amounts_in_call_arguments import find_visible_amount
from harness_site.core.rendering.safe_display_text import mask_and_reveal_hidden
from harness_site.core.unreadable_rows_and_quarantine import call_or_use_fallback
from harness_site.review import argument_edit_parsing_and_originals, decision_effect_texts
from harness_site.review.decision_options import (
    APPROVAL_OF_SEVERAL,
    EDIT_FOR_SEVERAL,
    EDIT_WITH_APPROVAL,
    RERUN_OF_LOW_RISK,
    RERUN_OF_READING,
    AnswerOption,
    list_answer_options,
)
from harness_site.review.forms import ApprovalForm, OutcomeForm
from harness_site.review.question_choices import is_question_text_alone
from harness_site.review.selectors.decision_card_queries import can_text_be_offered_as_reason
from harness_site.sessions.selectors.multi_person_decisions import Agreement

#: Key of the reasons that are offered as long as no answer is chosen, and their class on the page.
NO_ANSWER: Final = "no-answer"


def build_decision_form_with_known_result(shown: dict[str, Any]) -> OutcomeForm | ApprovalForm:
    """Build the form for a pending call, prefilled with the latest agreed or late result."""
    call: ToolCall = shown["call"]
    voices = sorted((voice for agreement in shown["agreements"] for voice in agreement.voices), key=attrgetter("pk"))
    result_texts = {voice.kind: voice.result_text for voice in voices}
    if shown["asking"]:
        answer = mask_and_reveal_hidden(result_texts.get(DecisionKind.RESPOND) or "")
        initial = {
            "revision": call.revision,
            "args": argument_edit_parsing_and_originals.format_masked_arguments_if_editable(
                call.args_json_in_caller_order
            ),
            "answer": answer,
        }
        return ApprovalForm(initial=initial, call=call)
    successful_results = [late_result.result_text for late_result in shown["known"].late_results if late_result.success]
    result = result_texts.get(DecisionKind.CONFIRM_LANDED) or (successful_results[-1] if successful_results else "")
    return OutcomeForm(initial={"revision": call.revision, "result": mask_and_reveal_hidden(result)})


def put_reason_of_own_edit_first(shown: dict[str, Any], earlier_reasons: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the earlier reasons; that of an own edit of the call is first, also before an answer is chosen."""
    edits = [decision for decision in shown["known"].decisions if decision.kind == DecisionKind.EDIT]
    is_own_change = shown["may_approve_own_change"] and shown["call"].has_changed_args
    if not is_own_change or not edits or edits[-1].actor != shown["reader"]:
        return earlier_reasons
    reason = edits[-1].reason.strip()
    if not can_text_be_offered_as_reason(reason):
        return earlier_reasons
    others = [other for other in earlier_reasons.get(DecisionKind.APPROVE, []) if other != reason]
    return {**earlier_reasons, DecisionKind.APPROVE: [reason, *others], NO_ANSWER: [reason]}


def build_decision_options(
    call: ToolCall,
    agreed: tuple[Agreement, ...],
    decisions: Sequence[Decision],
    reader: str,
    *,
    has_unusual_amount: bool,
) -> list[dict[str, Any]]:
    """Build each answer with its effect; `mine` is the decision of a reader who has given it already.

    `edited` is True if the reader has edited the arguments and therefore may not approve them.
    """
    editor = call.approvals > 1 and any(
        decision.kind == DecisionKind.EDIT and decision.actor == reader for decision in decisions
    )
    options = [
        _adapt_rerun_option_to_tool(
            call,
            _adapt_edit_option_to_call(call, _adapt_approve_option_to_call(call, agreed, option, reader)),
            has_unusual_amount=has_unusual_amount,
        )
        for option in list_answer_options(call)
        if _is_decision_option_available(call, option.kind)
    ]
    unknown = _("This cannot be predicted, because the session cannot be read.")
    fallback_effects = dict.fromkeys((option.kind for option in options), unknown)
    description = f"What follows from a decision about call {call.pk}"
    effects = call_or_use_fallback(
        description, lambda: _preview_effects_by_kind_or_error(call, agreed, options, reader), fallback_effects
    )
    return [
        {
            "kind": option.kind.value,
            "field_value": option.choice or option.kind.value,
            "is_choice": bool(option.choice),
            "is_secondary": option.is_secondary,
            "name": option.name,
            "summary": option.summary,
            "does": str(option.does),
            "button": option.button,
            "warning": option.warning,
            "then": effects[option.kind],
            "mine": _find_decision_that_reader_can_only_repeat(agreed, option.kind, reader),
            "edited": editor and option.kind == DecisionKind.APPROVE,
        }
        for option in options
    ]


def _adapt_approve_option_to_call(
    call: ToolCall, agreed: Sequence[Agreement], option: AnswerOption, reader: str
) -> AnswerOption:
    """Return the approval that does not run the call yet, if more people have to approve, or that runs it with values
    that the reader sees masked; any other answer as it is."""
    if option.kind != DecisionKind.APPROVE or call.is_question or call.session.finished:
        return option
    missing = decision_effect_texts.count_people_missing_after_answer(call, option.kind, agreed, reader)
    needed = call.approvals
    if needed > 1:
        number = needed - missing
        button = _("Give approval %(number)s of %(needed)s") % {"number": number, "needed": needed}
        option = replace(option, button=button)
    if missing:
        summary = _("One of the %(needed)s approvals that it needs.") % {"needed": needed}
        return replace(option, does=APPROVAL_OF_SEVERAL.does, summary=summary)
    if argument_edit_parsing_and_originals.has_masked_arguments(call):
        return replace(option, summary=_("The call runs with the unmasked values."))
    if needed > 1:
        summary = _("The last of %(needed)s approvals. The call runs.") % {"needed": needed}
        return replace(option, summary=summary)
    return option


def _adapt_edit_option_to_call(call: ToolCall, option: AnswerOption) -> AnswerOption:
    """Return an edit with who may approve the changed call; any other answer as it is."""
    if option.kind != DecisionKind.EDIT or call.is_question:
        return option
    if call.approvals > 1:
        return replace(option, does=EDIT_FOR_SEVERAL.does)
    is_approvable = _is_decision_option_available(call, DecisionKind.APPROVE)
    return replace(option, does=EDIT_WITH_APPROVAL.does) if is_approvable else option


def _adapt_rerun_option_to_tool(call: ToolCall, option: AnswerOption, *, has_unusual_amount: bool) -> AnswerOption:
    """Return one more run without its warning if the tool only reads or declares a low risk, else with the amount of
    the call; any other answer as it is. A call whose amount stands out has no low risk, whatever its tool declares."""
    if option.kind != DecisionKind.APPROVE_RERUN:
        return option
    if set(call.side_effects.split(",")) == {SideEffect.READ}:
        return RERUN_OF_READING
    if call.risk == Risk.LOW and not call.is_imported and not has_unusual_amount:
        return RERUN_OF_LOW_RISK
    amount = find_visible_amount(masked_formatting.parse_json_or_text(call.args))
    if amount is None or not amount.currency:
        return option
    return replace(
        option,
        does=_(
            "Exactly one more run, with exactly these arguments. If the first one did happen, it happens twice, each "
            "time for {amount}."
        ).format(amount=amount),
        warning=_("If the first run did happen, its effect happens twice, each time for {amount}.").format(
            amount=amount
        ),
    )


def _preview_effects_by_kind_or_error(
    call: ToolCall, agreed: Sequence[Agreement], options: Sequence[AnswerOption], reader: str
) -> dict[DecisionKind, str]:
    try:
        return decision_effect_texts.preview_decision_effects_by_kind(call, agreed, reader)
    except CheckpointsError as error:
        unknown = _("This cannot be predicted: {problem}").format(problem=error.detail)
        return dict.fromkeys((option.kind for option in options), unknown)


def _is_decision_option_available(call: ToolCall, kind: DecisionKind) -> bool:
    if (
        kind == DecisionKind.EDIT
        and argument_edit_parsing_and_originals.format_masked_arguments_if_editable(call.args) is None
    ):
        return False
    if kind == DecisionKind.EDIT and is_question_text_alone(call):
        return False
    return call.status != CallStatus.AWAITING_APPROVAL or kind in call.list_allowed_approval_decisions()


def _find_decision_that_reader_can_only_repeat(
    agreed: Sequence[Agreement], kind: DecisionKind, reader: str
) -> Decision | None:
    """Return the reader's decision of this kind; None without one, or if others have given another text with theirs,
    which the reader may agree to."""
    of_kind = [agreement for agreement in agreed if agreement.kind == kind]
    own = next(filter(None, (agreement.find_decision_of_person(reader) for agreement in of_kind)), None)
    return own if len(of_kind) == 1 else None
