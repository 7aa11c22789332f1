"""Page of the decisions that a person recorded together, where those that no run has used are withdrawn."""

from collections.abc import Mapping
from http import HTTPStatus

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from checkpoints.enums import Role
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.review import claim_services
from harness_site.review.bulk_decision_storage_and_withdrawal import (
    RecordedBulkDecision,
    load_bulk_decision,
    withdraw_decisions,
)
from harness_site.review.decision_error_texts import DecisionProblem
from harness_site.review.forms import BulkWithdrawForm
from harness_site.review.views.decision_card import build_decision_actor


@require_http_methods(["GET", "POST"])
@require_member_with_role(Role.AUDITOR)
def show_or_withdraw_bulk_decision(request: MemberRequest, pk: int) -> HttpResponse:
    """Show the decisions, or withdraw those that no run has used."""
    if request.method == "GET":
        return _render_bulk_decision(request, _load_bulk_decision_or_404(request, pk))
    return _withdraw_bulk_decision(request, pk)


@require_member_with_role(Role.APPROVER)
def _withdraw_bulk_decision(request: MemberRequest, pk: int) -> HttpResponse:
    bulk, form = _load_bulk_decision_or_404(request, pk), BulkWithdrawForm(request.POST)
    if not form.is_valid():
        return _render_bulk_decision(request, bulk, form=form, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    decisions = bulk.list_withdrawable(request.membership)
    problems = withdraw_decisions(
        decisions,
        by=request.membership,
        actor=build_decision_actor(request),
        reason=form.cleaned_data["reason"],
    )
    claim_services.restore_handovers_after_withdrawal([recorded.call for recorded in decisions])
    if problems:
        return _render_bulk_decision(request, _load_bulk_decision_or_404(request, pk), problems=problems)
    return redirect("harness_review:bulk-decision", pk)


def _load_bulk_decision_or_404(request: MemberRequest, pk: int) -> RecordedBulkDecision:
    bulk = load_bulk_decision(request.membership.workspace, pk)
    if bulk is None:
        raise Http404
    return bulk


def _render_bulk_decision(
    request: MemberRequest,
    bulk: RecordedBulkDecision,
    *,
    form: BulkWithdrawForm | None = None,
    problems: Mapping[int, DecisionProblem] | None = None,
    status: int = HTTPStatus.OK,
) -> HttpResponse:
    """`problems` are why decisions were not withdrawn, by primary key of the call."""
    session_pks = {each.call.session_id for each in bulk.decisions}
    mark_excerpts_shown_in_response(request, "bulk decision", session_pks)
    withdrawable = bulk.list_withdrawable(request.membership) if request.membership.has_role(Role.APPROVER) else []
    context = {
        "bulk": bulk,
        "tool": _get_only_value({each.call.tool for each in bulk.decisions}),
        "shows_reasons": not bulk.common_reason,
        "withdrawable": withdrawable,
        "cancels_others": any(each.cancels_others for each in withdrawable),
        "withdraw_form": form,
        "problems": problems or {},
        "secrets": mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(session_pks),
    }
    response = render(request, "review/bulk_decision.html", context, status=status)
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        # The page stays where it is.
        response["HX-Reswap"], response["HX-Push-Url"] = "outerHTML", "false"
    return response


def _get_only_value(values: set[str]) -> str:
    """Return the value that all have; empty if they differ."""
    return next(iter(values)) if len(values) == 1 else ""
