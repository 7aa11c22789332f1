"""Decision card of one call: its evidence and the form to decide."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from checkpoints.decisions import decision_withdrawal
from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import record_decision
from checkpoints.enums import ActorKind, CallStatus, DecisionKind, Role
from checkpoints.exceptions import AlreadyDecided, CheckpointsError, NotFound, StaleRevision
from checkpoints.models import Decision, ToolCall
from checkpoints.models.decision import get_args_json_before_edit
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.mark_sessions_shown_in_response import (
    mark_excerpts_shown_in_response,
    mark_session_shown_in_response,
)
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import (
    MemberRequest,
    list_active_usernames_with_role_or_higher,
    require_member_with_role,
)
from harness_site.core import masked_formatting
from harness_site.core.masked_json_value_differences import ValueDifference, list_value_differences
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import collect_secret_values, mask_values_until_response
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, call_or_use_fallback
from harness_site.display.display_preferences import wants_next_call_opened
from harness_site.notifications.models import Event
from harness_site.notifications.recipients import find_email_recipient
from harness_site.review import (
    claim_services,
    decision_card_context,
    decision_card_form_and_options,
    evidence_files,
    load_claims_and_record_presence,
)
from harness_site.review.decision_error_texts import (
    NOTHING,
    DecisionProblem,
    build_decision_problem,
    build_problem_of_earlier_decision,
    find_session_problem_with_decision,
)
from harness_site.review.decision_options import find_answer_name_or_empty
from harness_site.review.forms import (
    ApprovalForm,
    CommentForm,
    DecisionForm,
    HandOverForm,
    OutcomeForm,
    RestoreForm,
    WithdrawForm,
    build_bound_decision_form,
    discard_typed_arguments,
    keep_only_changed_arguments,
)
from harness_site.review.load_claims_and_record_presence import CallClaimsAndPresence
from harness_site.review.mark_calls_of_lost_runs_as_interrupted import interrupt_call_if_run_lost
from harness_site.review.models import Comment
from harness_site.review.queue_filters import load_call_filters_of_list, parse_order_of_list
from harness_site.review.record_decision_from_form import (
    build_decision_target,
    get_result_text_or_none,
    record_decision_from_form,
    restore_original_arguments,
)
from harness_site.review.selectors import copied_calls_of_forks, decision_card_queries, next_call_to_decide
from harness_site.review.selectors.mentions_in_comments import list_mentionable_members, load_other_active_members
from harness_site.review.selectors.pending_calls import CallFilters
from harness_site.review.selectors.queue_order import QueueSort
from harness_site.review.upload_size_limit_handler import was_oversized_upload_discarded
from harness_site.review.what_reader_may_decide_and_has_decided import may_member_decide_call


@require_http_methods(["GET", "POST"])
@require_member_with_role(Role.AUDITOR)
def show_card_or_record_decision(request: MemberRequest, pk: int) -> HttpResponse:
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    if request.method == "GET":
        people = load_claims_and_record_presence.load_claims_and_presence_of_call(pk, request.membership)
        if call.undecided and not request.htmx:
            load_claims_and_record_presence.record_presence_and_extend_claim(
                call, by=request.membership, mine=people.mine is not None
            )
        return render_decision_card(request, call, people=people)
    data, is_sent_to_record = _read_form_and_whether_to_record(request, call)
    form = build_bound_decision_form(data, call, request.FILES)
    form.too_large = was_oversized_upload_discarded(request)
    if not request.membership.has_role(Role.APPROVER):
        problem = DecisionProblem(403, _("Your role cannot decide calls."), str(NOTHING))
        return render_decision_card(request, call, form=form, problem=problem)
    if not is_sent_to_record:
        return render_decision_card(request, call, form=form)
    if not form.is_valid():
        return render_decision_card(request, call, form=form, status=422)
    if (
        isinstance(form, ApprovalForm)
        and form.is_edit_not_yet_previewed
        and call.status == CallStatus.AWAITING_APPROVAL
    ):
        response = render_decision_card(request, call, form=form)
        response["HX-Reswap"] = "outerHTML"  # the page scrolls to the changes, not to its top
        return response
    if (
        isinstance(form, ApprovalForm)
        and form.argument_warnings
        and call.status == CallStatus.AWAITING_APPROVAL
        and _is_edit_to_be_approved(request, form)
    ):
        form.is_approval_of_warned_change_refused = True
        return render_decision_card(request, call, form=form, status=422)
    return _record_decision_and_redirect(request, call, form)


def _is_edit_to_be_approved(request: MemberRequest, form: OutcomeForm | ApprovalForm) -> bool:
    return form.cleaned_data["kind"] == DecisionKind.EDIT and request.POST.get("then") == DecisionKind.APPROVE


def _read_form_and_whether_to_record(request: MemberRequest, call: ToolCall) -> tuple[QueryDict, bool]:
    """Return what was sent, and whether to record it: a button of the form only discards changes that are not recorded.

    Another button records these changes in place of the chosen answer, after they were shown. The scripts of the page
    do both themselves.
    """
    about_changes = request.POST.get("unrecorded", "")
    data = request.POST.copy()
    if about_changes == "discard":
        discard_typed_arguments(data, call)
    elif about_changes == "record":
        data["kind"] = DecisionKind.EDIT.value
        data["shown"] = ""
    return data, about_changes != "discard"


def _record_decision_and_redirect(
    request: MemberRequest, call: ToolCall, form: OutcomeForm | ApprovalForm
) -> HttpResponse:
    problem = find_session_problem_with_decision(call, form.cleaned_data["kind"])
    if problem is not None:
        return render_decision_card(request, call, form=form, problem=problem)
    try:
        record_decision_from_form(_build_checkpointer(request).store, call, build_decision_actor(request), form)
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = load_call_masked_and_interrupted_if_lost_or_404(request, call.pk)
        reader = request.membership.user.get_username()
        problem = _find_problem_of_earlier_decision(call, form, reader) if isinstance(error, AlreadyDecided) else None
        problem = problem or build_decision_problem(error, call, reader=reader)
        return render_decision_card(request, call, form=form, problem=problem)
    if _is_edit_to_be_approved(request, form):
        problem = _approve_recorded_edit_or_find_problem(request, call.pk, form)
    claim_services.reload_statuses_and_remove_claims([call], by=request.membership)
    if problem is not None:
        return render_decision_card(
            request, load_call_masked_and_interrupted_if_lost_or_404(request, call.pk), problem=problem
        )
    return redirect("harness_review:card", call.pk)


def _approve_recorded_edit_or_find_problem(
    request: MemberRequest, pk: int, form: OutcomeForm | ApprovalForm
) -> DecisionProblem | None:
    """Approve a call with the arguments that the reader has just recorded, with the same reason.

    Returns why it is not approved: then the edit is recorded, and the call waits for an approval.
    """
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    reader = request.membership.user.get_username()
    nothing = _("Your change is recorded, but you have not approved the call.")
    changed_again = DecisionProblem(409, _("Somebody has changed the arguments after you."), nothing)
    if not (isinstance(form, ApprovalForm) and form.has_same_arguments_as(call)):
        return changed_again
    try:
        record_decision(
            _build_checkpointer(request).store,
            build_decision_target(call, call.revision),
            DecisionKind.APPROVE,
            actor=build_decision_actor(request),
            reason=form.cleaned_data["reason"],
        )
    except StaleRevision:
        return changed_again
    except CheckpointsError as error:
        return build_decision_problem(error, call, reader=reader, nothing=nothing)
    return None


def _find_problem_of_earlier_decision(
    call: ToolCall, form: OutcomeForm | ApprovalForm, reader: str
) -> DecisionProblem | None:
    decision = None if call.undecided else decision_card_queries.load_call_evidence(call).final_decision
    if decision is None:
        return None
    kind, result = form.cleaned_data["kind"], get_result_text_or_none(call, form)
    return build_problem_of_earlier_decision(decision, call, reader=reader, kind=kind, result=result)


@require_POST
@require_member_with_role(Role.APPROVER)
def preview_argument_change(request: MemberRequest, pk: int) -> HttpResponse:
    """Render the differences of the arguments being edited; nothing is recorded."""
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    data = request.POST.copy()
    data["kind"] = DecisionKind.EDIT
    form = ApprovalForm(data, call=call) if call.status == CallStatus.AWAITING_APPROVAL else None
    mark_session_shown_in_response(request, call.session_id)
    return render(request, "review/parts/change.html", {"form": form, "is_preview": True})


@require_POST
@require_member_with_role(Role.APPROVER)
def request_verification(request: MemberRequest, pk: int) -> HttpResponse:
    """Ask the waiting process to run the tool's probe again; the result appears on the card."""
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    checkpointer = _build_checkpointer(request)
    try:
        checkpointer.verify_call(
            call.session.session_id,
            call.call_id,
            actor=build_decision_actor(request),
            step=call.step,
            attempt=call.attempt,
        )
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
        problem = build_decision_problem(
            error, call, reader=request.membership.user.get_username(), nothing=_("The call is not being verified.")
        )
        return render_decision_card(request, call, problem=problem)
    kept = _get_revision_of_kept_form(request)
    query = f"?{urlencode({'seen': kept})}" if kept else ""
    return redirect(f"{reverse('harness_review:card', args=[pk])}{query}")


@require_POST
@require_member_with_role(Role.APPROVER)
def withdraw_decision(request: MemberRequest, pk: int) -> HttpResponse:
    """Withdraw the decision about a call, unless the run has used it."""
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    form = WithdrawForm(request.POST)
    if not form.is_valid():
        return render_decision_card(request, call, withdraw_form=form, status=422)
    target = build_decision_target(call, form.cleaned_data["revision"])
    try:
        decision_withdrawal.withdraw_decision(
            _build_checkpointer(request).store,
            target,
            actor=build_decision_actor(request),
            reason=form.cleaned_data["reason"],
        )
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
        problem = build_decision_problem(
            error, call, reader=request.membership.user.get_username(), nothing=_("The decision was not withdrawn.")
        )
        return render_decision_card(request, call, withdraw_form=form, problem=problem)
    claim_services.restore_handovers_after_withdrawal([call])
    return redirect("harness_review:card", pk)


@require_POST
@require_member_with_role(Role.APPROVER)
def restore_arguments(request: MemberRequest, pk: int) -> HttpResponse:
    """Give a call back the arguments that the agent asked for; it still waits for a decision."""
    call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
    form = RestoreForm(request.POST)
    if not form.is_valid():
        return render_decision_card(request, call, restore_form=form, status=422)
    try:
        restore_original_arguments(
            _build_checkpointer(request).store,
            call,
            build_decision_actor(request),
            revision=form.cleaned_data["revision"],
            reason=form.cleaned_data["reason"],
        )
    except NotFound as error:
        raise Http404(error.detail) from error
    except CheckpointsError as error:
        call = load_call_masked_and_interrupted_if_lost_or_404(request, pk)
        problem = build_decision_problem(
            error, call, reader=request.membership.user.get_username(), nothing=_("The arguments were not restored.")
        )
        return render_decision_card(request, call, restore_form=form, problem=problem)
    claim_services.reload_statuses_and_remove_claims([call], by=request.membership)
    return redirect("harness_review:card", pk)


def map_names_to_colleagues_who_may_decide(call: ToolCall, others: Iterable[Membership]) -> dict[str, Membership]:
    """List those of the other members of the workspace who may decide about a call now, by username."""
    return {other.user.get_username(): other for other in others if may_member_decide_call(call, other)}


def load_call_masked_and_interrupted_if_lost_or_404(request: MemberRequest, pk: int) -> ToolCall:
    """Return a call of the reader's workspace, else raise 404; mask the secret values of its session from now on."""
    request.call_shown = (request.membership.workspace_id, pk)
    call = decision_card_queries.find_and_verify_call_or_none(request.membership.workspace, pk)
    if call is None:
        raise Http404(_("There is no such call in this workspace."))
    if interrupt_call_if_run_lost(call):
        call = decision_card_queries.find_and_verify_call_or_none(request.membership.workspace, pk) or call
    mask_argument_secrets_throughout_session.mask_session_secrets_until_response(call.session_id)
    request.session_shown = call.session_id
    mask_values_until_response(collect_secret_values(masked_formatting.parse_json_or_text(call.args)))
    return call


def _build_checkpointer(request: MemberRequest) -> SyncCheckpointer:
    return SyncCheckpointer(workspace=request.membership.workspace.slug)


def build_decision_actor(request: MemberRequest) -> Actor:
    """Return the reader as the actor of decisions, with the address of the request."""
    membership = request.membership
    return Actor(
        ActorKind.PERSON,
        membership.user.get_username(),
        Role(membership.role),
        electorate=build_eligible_vote_mapper(membership.workspace),
        address=record_user_audit_events.find_client_address(request),
    )


def render_decision_card(
    request: MemberRequest,
    call: ToolCall,
    *,
    people: CallClaimsAndPresence | None = None,
    form: OutcomeForm | ApprovalForm | None = None,
    problem: DecisionProblem | None = None,
    comment_form: CommentForm | None = None,
    hand_over_form: HandOverForm | None = None,
    withdraw_form: WithdrawForm | None = None,
    restore_form: RestoreForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the decision page of a call, with the forms that were sent."""
    people = people or load_claims_and_record_presence.load_claims_and_presence_of_call(call.pk, request.membership)
    kept_revision = _get_revision_of_kept_form(request)
    # Those who can comment can mention them and hand the call over to them.
    others = load_other_active_members(request.membership) if request.membership.has_role(Role.APPROVER) else None
    context: dict[str, Any] = {
        **decision_card_context.load_card_context(call, request.membership),
        "evidence_limit": settings.EVIDENCE_BYTES,
        **build_people_context(call, people, request.membership, hand_over_form, others),
        "refused": problem,
        "opens_next_call": wants_next_call_opened(request),
        "previous_call": _find_previous_call_decided_by_reader(request),
        "keeps_form": bool(kept_revision),
        "has_changed": kept_revision not in {"", str(call.revision)},
        "comment_form": comment_form or CommentForm(),
        "withdraw_form": withdraw_form,
        "restore_form": restore_form,
    }
    context |= _build_mentions_context(request.membership, context["comments"], others)
    context["leads_onward"] = not call.undecided or context["waits_for_others"] or context["handed"] is not None
    if context["leads_onward"] or context["may_approve_own_change"]:
        context |= _find_next_call_of_list_left_by_reader(request, call)
    if context["has_changed"]:
        context |= _build_changes_since_kept_form_context(request, call, context, kept_revision)
    # A file is shown if a decision cites it.
    context["files"] = evidence_files.list_evidence_files_cited_for_call(call) if context["known"].decisions else []
    if call.status == CallStatus.INTERRUPTED and (call.is_copied or getattr(call, "has_copies_in_forks", True)):
        same_calls = context["same_calls"] = copied_calls_of_forks.load_same_call_in_other_sessions(call)
        mask_argument_secrets_throughout_session.mask_secrets_in_session_names_until_response(
            {
                same.call.session_id: (same.call.session.session_id,)
                for same in same_calls
                if not isinstance(same, UnreadableRecord)
            }
        )
        context["has_happened_elsewhere"] = any(getattr(same, "has_happened", False) for same in same_calls)
    if context["undecided"] and call.session.quarantined_at is None:
        context |= _build_decision_form_or_deciders_context(request, context, form, problem)
    context["shows_own_change"] = (
        context["may_approve_own_change"] and "form" in context and not call.is_question and not context["leads_onward"]
    )
    if problem and type(context.get("form")) is not type(form):
        context |= {
            "typed": form,
            "typed_reason": str(form["reason"].value() or "") if form else "",
            "typed_answer": find_answer_name_or_empty(call, form["kind"].value() or "") if form else "",
        }
    if isinstance(context.get("form"), DecisionForm):
        context["form"].focus_first_invalid_field()
    mark_session_shown_in_response(request, call.session_id)
    # The same operation may have run in other sessions; the card shows its results there.
    mark_excerpts_shown_in_response(request, "card", {other.session_id for other in context["known"].same_key})
    response = render(request, "review/card.html", context, status=problem.status if problem else status)
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and not problem:
        response["HX-Reswap"] = "outerHTML"  # the page stays where it is, and the first invalid field gets the focus
    return response


def _build_changes_since_kept_form_context(
    request: MemberRequest, call: ToolCall, context: Mapping[str, Any], kept_revision: str
) -> dict[str, Any]:
    """Build what others have recorded since the revision of the form that the page keeps."""
    if call.undecided:
        since = int(kept_revision) if kept_revision.isdecimal() else 0
        decisions = context["known"].decisions
        return {
            "last_change": _find_last_decision_since(decisions, since),
            "argument_changes": _list_argument_changes_since(call, decisions, since),
            "is_draft": "draft" in request.GET,
        }
    if not context["decision"] or context["own_decision"]:
        return {}
    problem = build_problem_of_earlier_decision(
        context["decision"],
        call,
        reader=context["reader"],
        kind=request.GET.get("kind", ""),  # the live part sends the chosen answer along
        result=None,
        is_sent=False,
        request=context["verification_request"],
    )
    return {"decided_meanwhile": problem}


def _find_next_call_of_list_left_by_reader(request: MemberRequest, call: ToolCall) -> dict[str, Any]:
    """Find the call that the reader should decide next.

    If they have come from a list that they have filtered or sorted, it is the one below this call in that list, as long
    as it has one. The scripts of the page send the query string of that list.
    """
    query = request.headers.get("Harness-List", "").removeprefix("?")
    load_filters = partial(load_call_filters_of_list, query, request.membership)
    filters = call_or_use_fallback("The filters of the review queue", load_filters, CallFilters())
    sort, statuses = parse_order_of_list(query)
    below = None
    if filters or sort != QueueSort.OLDEST:
        below = next_call_to_decide.find_call_below_in_list(request.membership, call, filters, sort, statuses)
    if below is not None:
        return {"next_call": below.call, "is_next_of_list": True, "is_list_begun_again": below.is_list_begun_again}
    next_call = next_call_to_decide.find_next_call_to_decide(request.membership, after=call)
    return {"next_call": next_call, "is_list_done": bool(filters)}


def build_people_context(
    call: ToolCall,
    people: CallClaimsAndPresence,
    reader: Membership,
    form: HandOverForm | None = None,
    others: Sequence[Membership] | None = None,
) -> dict[str, Any]:
    """Build who has claimed the call, who has its page open, and the form to hand it over; a sent `form` is kept.

    `others` are the other active members; None if they are to be loaded. There is no form for auditors, about decided
    calls, without a colleague who may decide, and once the reader has handed the call over to one of these.
    """
    handed = _build_handover_context_or_none(people, reader) if call.undecided else None
    if form is None and call.undecided and reader.has_role(Role.APPROVER):
        colleagues = map_names_to_colleagues_who_may_decide(
            call, load_other_active_members(reader) if others is None else others
        )
        is_handed_over = handed is not None and handed["name"] in colleagues
        form = HandOverForm(colleagues=sorted(colleagues)) if colleagues and not is_handed_over else None
    return {
        "call": call,
        "company": people,
        "reader": reader.user.get_username(),
        "handed": handed,
        "hand_over_form": form,
    }


def _build_mentions_context(
    reader: Membership, comments: Sequence[Comment], others: Sequence[Membership] | None
) -> dict[str, Any]:
    """Build whom the reader can mention in a comment, and the names that are marked in the comments.

    There are none for a reader who has no form for comments, while no comment mentions anybody.
    """
    has_form = reader.has_role(Role.APPROVER)
    if not has_form and not any("@" in comment.text for comment in comments):
        return {"mentionable": [], "mentions_sent": [], "member_names": frozenset()}
    members = list_mentionable_members(load_other_active_members(reader) if others is None else others)
    return {
        "mentionable": members if has_form else [],
        "mentions_sent": [f"@{member.name}" for member in members if member.gets_email],
        "member_names": {reader.user.get_username(), *(member.name for member in members)},
    }


def _build_handover_context_or_none(people: CallClaimsAndPresence, reader: Membership) -> dict[str, Any] | None:
    """Describe to whom the reader has handed the call over, and whether an e-mail says so; None without a handover."""
    claim = people.theirs
    if claim is None or claim.handed_by != reader.user.get_username():
        return None
    receiver = Membership.objects.select_related("user").get(workspace=reader.workspace, user__username=claim.name)
    gets_email = find_email_recipient(receiver, Event.HANDED_OVER) is not None
    return {"name": claim.name, "since": claim.since, "gets_email": gets_email}


def _find_previous_call_decided_by_reader(request: MemberRequest) -> int | None:
    """Return the primary key of the call from which this page opened by itself, if the reader has decided about it."""
    previous = request.GET.get("decided", "")
    if not previous.isdecimal() or int(previous) >= 2**63:
        return None
    own = Decision.objects.filter(actor_kind=ActorKind.PERSON, actor=request.membership.user.get_username())
    own = own.filter(tool_call=int(previous), tool_call__workspace=request.membership.workspace)
    return int(previous) if own.exists() else None


def _build_decision_form_or_deciders_context(
    request: MemberRequest,
    card: dict[str, Any],
    form: OutcomeForm | ApprovalForm | None,
    problem: DecisionProblem | None,
) -> dict[str, Any]:
    """Build the decision form for readers who may decide, else the members who may."""
    membership, call = request.membership, card["call"]
    required_role = Role.ADMIN if card["overdue"] else Role.APPROVER
    if not membership.has_role(required_role):
        able = list_active_usernames_with_role_or_higher(membership.workspace, required_role)
        claim = card["company"].theirs
        return {"able": able, "holder": claim if claim is not None and claim.name in able else None}
    answers = decision_card_form_and_options.build_decision_options(
        call,
        card["agreements"],
        card["known"].decisions,
        membership.user.get_username(),
        has_unusual_amount=bool(card["unusual_amount"]),
    )
    new_form = decision_card_form_and_options.build_decision_form_with_known_result(card)
    if type(form) is not type(new_form):
        form = new_form  # the typed data answers another question
        form.initial["kind"] = _get_preselected_answer(request, call, answers)
    elif problem:
        form = _rebind_form_to_current_revision(request, call, card["known"].decisions)
    reasons = decision_card_queries.load_earlier_reasons_for_same_tool(call, membership.user.get_username())
    more_choices = sum(answer["is_choice"] and answer["is_secondary"] for answer in answers)
    return {
        "answers": answers,
        "asks_for_text": _is_answered_by_text_alone(call, answers),
        "more_choices": more_choices,
        "may_approve_with_edit": _may_editor_approve_at_once(call, answers),
        "form": form,
        "earlier_reasons": decision_card_form_and_options.put_reason_of_own_edit_first(card, reasons),
    }


def _may_editor_approve_at_once(call: ToolCall, answers: list[dict[str, Any]]) -> bool:
    """Return whether the form may record and approve a change together: of several approvers, none is the editor."""
    kinds = {answer["kind"] for answer in answers}
    return not call.is_question and call.approvals <= 1 and {DecisionKind.EDIT, DecisionKind.APPROVE} <= kinds


def _is_answered_by_text_alone(call: ToolCall, answers: list[dict[str, Any]]) -> bool:
    """Return whether a text of the person's own is the only answer that the question asks for."""
    return call.is_question and [answer["kind"] for answer in answers if not answer["is_secondary"]] == ["respond"]


def _get_preselected_answer(request: MemberRequest, call: ToolCall, answers: list[dict[str, Any]]) -> str:
    """Return the answer that the query string preselects by its number; nothing is recorded.

    Without a number, it is the answer to a question that is answered by a text of the person's own.
    """
    numbers = {str(number): answer for number, answer in enumerate(answers, 1)}
    if _is_answered_by_text_alone(call, answers):
        numbers[""] = answers[0]
    answer_option = numbers.get(request.GET.get("answer", ""))
    return "" if answer_option is None or answer_option["mine"] else answer_option["field_value"]


def _get_revision_of_kept_form(request: MemberRequest) -> str:
    """Return the revision of the form that the page keeps, because its reader has begun to fill it in; else empty."""
    return (request.POST.get("seen") or request.GET.get("seen", "")) if request.htmx else ""


def _find_last_decision_since(decisions: Sequence[Decision], revision: int) -> Decision | None:
    """Return the last decision that people made since this revision of the call; None without one."""
    made = [each for each in decisions if each.actor_kind != ActorKind.HOOK and each.revision >= revision]
    return made[-1] if made else None


def _find_arguments_before_edits_since(decisions: Sequence[Decision], revision: int) -> str | None:
    """Return the arguments that a call had at this revision, as JSON; None if nobody has edited them since."""
    edits = [each for each in decisions if each.kind == DecisionKind.EDIT and each.revision >= revision]
    return get_args_json_before_edit(edits[0].evidence) if edits else None


def _list_argument_changes_since(
    call: ToolCall, decisions: Sequence[Decision], revision: int
) -> Sequence[ValueDifference]:
    """List how the arguments of a call differ from those that it had at this revision."""
    before = _find_arguments_before_edits_since(decisions, revision)
    if before is None:
        return []
    now = masked_formatting.parse_json_or_text(call.args_json_in_caller_order)
    return list_value_differences(masked_formatting.parse_json_or_text(before), now, as_stored=True)


def _rebind_form_to_current_revision(
    request: MemberRequest, call: ToolCall, decisions: Sequence[Decision]
) -> OutcomeForm | ApprovalForm:
    """Bind the typed data to the current revision of the call."""
    data = request.POST.copy()
    sent = data.get("revision", "")
    before = _find_arguments_before_edits_since(decisions, int(sent)) if sent.isdecimal() else None
    if before is not None:
        keep_only_changed_arguments(data, call, before)
    data["revision"] = str(call.revision)
    return build_bound_decision_form(data, call)
