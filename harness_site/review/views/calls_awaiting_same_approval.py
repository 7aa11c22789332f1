"""Page of calls of one tool that await the same approval: one answer and one reason for those that are selected."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.forms import BoundField
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import ToolCall
from harness_site.accounts.map_decisions_to_eligible_votes import build_eligible_vote_mapper
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.core import masked_formatting
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.money_amounts_in_call_arguments import Amount, find_visible_amount
from harness_site.core.unreadable_rows_and_quarantine import (
    UnreadableRecord,
    call_or_use_fallback,
    convert_rows_or_mark_unreadable,
    filter_out_unreadable_records,
)
from harness_site.review import (
    bulk_results_in_user_session,
    load_claims_and_record_presence,
    record_each_of_several_decisions,
)
from harness_site.review.bulk_decision_forms import SameApprovalForm, focus_first_invalid_field
from harness_site.review.differing_arguments import (
    find_names_of_equal_arguments,
    find_names_of_visibly_differing_arguments,
)
from harness_site.review.load_claims_and_record_presence import NOBODY
from harness_site.review.outage_calls_added_or_removed import find_calls_that_left_form
from harness_site.review.pending_call_rows import PendingCallRow, PendingRowBuilder, UnverifiedCallRow
from harness_site.review.queue_filters import ActiveFilter, load_call_filters_of_list, parse_queue_filters
from harness_site.review.selectors import next_call_to_decide, pending_call_counts_by_decider
from harness_site.review.selectors.edits_and_withdrawals_of_pending_calls import (
    UNCHANGED,
    ChangesOfWaitingCall,
    load_changes_of_waiting_calls,
)
from harness_site.review.selectors.pending_calls import CallFilters
from harness_site.review.selectors.same_approval_call_groups import (
    SameApprovalGroup,
    list_groups_of_calls_awaiting_same_approval,
    load_calls_awaiting_same_approval,
    parse_same_approval_group,
)
from harness_site.review.selectors.usual_amounts import load_usual_amounts
from harness_site.review.views.decision_card import build_decision_actor
from harness_site.review.why_reader_cannot_decide import explain_why_reader_cannot_decide
from harness_site.sessions.selectors import multi_person_decisions


@dataclass(frozen=True, slots=True)
class SelectableCallRow:
    """Call of the page. `value` is that of its checkbox; `refusal` says why the reader cannot decide about it."""

    pk: int
    row: PendingCallRow | UnverifiedCallRow
    args: Any
    #: Amount that the row shows.
    amount: Amount | None
    value: str
    is_selected: bool
    refusal: str
    #: Risk of the call if it is unusual, or if the calls are filtered by it; else empty.
    risk: str

    @property
    def can_be_decided(self) -> bool:
        return self.row.is_verified and not self.refusal

    @property
    def has_unusual_amount(self) -> bool:
        return isinstance(self.row, PendingCallRow) and bool(self.row.usual_amount)


@require_http_methods(["GET", "POST"])
@require_member_with_role(Role.AUDITOR)
def show_or_decide_calls_awaiting_same_approval(request: MemberRequest) -> HttpResponse:
    """Show the calls, or record one answer about those that are selected; a refusal does not affect the others.

    Without a tool, the tools are offered, and nothing is recorded.
    """
    if request.method == "GET":
        if not parse_same_approval_group(request.GET).tool:
            return _render_choice_of_tool(request, request.GET)
        return _render_same_approval_page(request, parse_same_approval_group(request.GET), SameApprovalForm())
    return _decide_selected_calls_and_redirect(request)


@require_member_with_role(Role.APPROVER)
def _decide_selected_calls_and_redirect(request: MemberRequest) -> HttpResponse:
    group, form = parse_same_approval_group(request.POST), SameApprovalForm(request.POST)
    if not group.tool:
        return _render_choice_of_tool(request, request.POST, status=HTTPStatus.UNPROCESSABLE_ENTITY)
    if not form.is_valid():
        return _render_same_approval_page(request, group, form, status=422)
    results = record_each_of_several_decisions.record_decisions_from_answers(
        form.build_answers(), by=request.membership, actor=build_decision_actor(request)
    )
    name = bulk_results_in_user_session.save_bulk_results_and_get_name(request, results)
    return redirect(f"{group.url}&settled={name}")


def _render_choice_of_tool(request: MemberRequest, query: QueryDict, *, status: int = 200) -> HttpResponse:
    """Render the tools with calls that await approval; only those of as many people as `query` names, if it does."""
    group = parse_same_approval_group(query)
    waiting = pending_call_counts_by_decider.count_calls_for_reader_and_for_others(request.membership)
    groups = list_groups_of_calls_awaiting_same_approval(
        request.membership.workspace,
        query,
        _load_call_filters_or_select_none(group, request.membership),
        except_calls=waiting.pks_of_others | waiting.pks_answered,
        min_number=1,
    )
    active_filters = _list_filters_beside_tool(group)
    context = {
        "groups": [each for each in groups if "people" not in query or each.people == group.people],
        "active_filters": active_filters,
        "is_filtered": bool(active_filters) or "people" in query,
        "was_sent": status == HTTPStatus.UNPROCESSABLE_ENTITY,
    }
    return render(request, "review/same_approvals_of_tools.html", context, status=status)


def _render_same_approval_page(
    request: MemberRequest,
    group: SameApprovalGroup,
    form: SameApprovalForm,
    *,
    status: int = 200,
) -> HttpResponse:
    calls = load_calls_awaiting_same_approval(
        request.membership.workspace, group, _load_call_filters_or_select_none(group, request.membership)
    )
    settled = request.GET.get("settled", "") or request.POST.get("settled", "")
    outcome = bulk_results_in_user_session.load_bulk_results(request, settled)
    shown = [*filter_out_unreadable_records(calls), *(outcome.calls if outcome else ())]
    session_pks = {call.session_id for call in shown}
    mark_excerpts_shown_in_response(request, "same approvals", session_pks)
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(session_pks)
    invalid_field = focus_first_invalid_field([form]) if form.selected else None
    usual_amounts = load_usual_amounts(request.membership.workspace_id, filter_out_unreadable_records(calls))
    builder = PendingRowBuilder(request.GET, secrets, usual_amounts)
    rows = _build_selectable_call_rows(request, calls, form, builder)
    may_decide = request.membership.has_role(Role.APPROVER)
    selectable = [row for row in filter_out_unreadable_records(rows) if may_decide and row.can_be_decided]
    unusual = [row for row in selectable if row.has_unusual_amount]
    usual = [row for row in selectable if not row.has_unusual_amount]
    selectable = [*unusual, *usual]
    compared = [row for row in filter_out_unreadable_records(rows) if row.row.is_verified]
    args_of_calls = [row.args for row in compared]
    context = {
        "group": group,
        "active_filters": _list_filters_beside_tool(group),
        "selectable": selectable,
        "sections": [section for section in (unusual, usual) if section],
        "unusual_count": len(unusual),
        "differing": find_names_of_visibly_differing_arguments(args_of_calls),
        "equal": find_names_of_equal_arguments(args_of_calls) if len(compared) > 1 else set(),
        "compared": compared,
        "others": [row for row in rows if row not in selectable],
        "changes": find_calls_that_left_form(
            request.POST if request.method == "POST" else request.GET,
            [row.pk for row in selectable],
            request.membership,
        ),
        "refresh_url": f"{group.url}&{urlencode({'settled': settled})}" if settled else group.url,
        "form": form,
        "first_error": _find_first_error(form, selectable, invalid_field),
        "outcome": outcome,
        "next_call": next_call_to_decide.find_next_call_to_decide(request.membership) if outcome else None,
        "secrets": secrets,
        "invalid": status == HTTPStatus.UNPROCESSABLE_ENTITY,
    }
    response = render(request, "review/same_approvals.html", context, status=status)
    if context["invalid"]:
        # The page stays where it is.
        response["HX-Reswap"], response["HX-Push-Url"] = "outerHTML", "false"
    return response


def _load_call_filters_or_select_none(group: SameApprovalGroup, reader: Membership) -> CallFilters:
    """Load the filters of a group; those that select no call if a row that is searched cannot be read."""
    return call_or_use_fallback(
        "The filters of calls that are decided together",
        partial(load_call_filters_of_list, group.query, reader),
        CallFilters(condition=Q(pk__in=())),
    )


def _list_filters_beside_tool(group: SameApprovalGroup) -> list[ActiveFilter]:
    query = QueryDict(group.query)
    return replace(parse_queue_filters(query, ""), tool="").list_active_filters("awaiting", query)


def _find_first_error(
    form: SameApprovalForm, selectable: Sequence[SelectableCallRow], invalid_field: BoundField | None
) -> dict[str, str] | None:
    """Return the first error on the page, and the id of the field where it is mended."""
    if selectable and form.non_field_errors():
        return {"text": str(form.non_field_errors()[0]), "field_id": f"call-{selectable[0].value}"}
    if invalid_field is None:
        return None
    return {
        "text": str(invalid_field.errors[0]),
        "field_id": invalid_field.id_for_label or f"id_{invalid_field.name}_0",
    }


def _build_selectable_call_rows(
    request: MemberRequest,
    calls: list[ToolCall | UnreadableRecord],
    form: SameApprovalForm,
    builder: PendingRowBuilder,
) -> list[SelectableCallRow | UnreadableRecord]:
    readable, reader, now = filter_out_unreadable_records(calls), request.membership, clock.now()
    electorate = build_eligible_vote_mapper(reader.workspace)
    agreements_by_call = multi_person_decisions.load_incomplete_agreements_of_calls(readable, electorate)
    changes_by_call = load_changes_of_waiting_calls(readable, electorate)
    people = load_claims_and_record_presence.load_claims_and_presence_of_calls([call.pk for call in calls], reader)

    def build_row(call: ToolCall) -> SelectableCallRow:
        agreements, company = agreements_by_call.get(call.pk, ()), people.get(call.pk, NOBODY)
        changes = changes_by_call.get(call.pk, UNCHANGED)
        row = builder.check_integrity_and_build_row(
            call, agreements, company, None, now=now, hook_could_not_tell=False, changes=changes
        )
        is_shown = isinstance(row, PendingCallRow)
        args = masked_formatting.parse_json_or_text(call.args_json_in_caller_order) if is_shown else None
        return SelectableCallRow(
            call.pk,
            row,
            args,
            find_visible_amount(args) if isinstance(row, PendingCallRow) and row.amount else None,
            f"{call.pk}.{call.revision}",
            is_selected=call.pk in form.selected,
            refusal=explain_why_reader_cannot_decide(call, agreements, reader)
            or _explain_why_reader_cannot_approve(call, changes, reader),
            risk=builder.find_shown_risk(call, has_unusual_amount=bool(row.usual_amount))
            if isinstance(row, PendingCallRow)
            else "",
        )

    return convert_rows_or_mark_unreadable(calls, build_row, "call", attrgetter("session_id"))


def _explain_why_reader_cannot_approve(call: ToolCall, changes: ChangesOfWaitingCall, reader: Membership) -> str:
    """Return why other people have to approve a call, if this member has changed its arguments; else empty."""
    if call.approvals == 1 or reader.role == Role.AUDITOR or reader.user.get_username() not in changes.editors:
        return ""
    return _("you made this change, so other people have to approve it; you can only reject it, on its page")
