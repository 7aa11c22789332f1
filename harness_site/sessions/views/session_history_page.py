"""Page of the history of a session: events, decisions and calls that ended."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.db.keyset_pagination import Cursor
from harness_site.accounts.permissions import MemberRequest
from harness_site.audit import audit_verification_status
from harness_site.core.number_parameters import parse_number_parameter_or_none
from harness_site.sessions.selectors import session_history
from harness_site.sessions.selectors.session_history import HistoryCursor
from harness_site.sessions.session_lookup_masking_and_404 import (
    get_session_head_and_mask_secrets_or_404,
    require_member_and_handle_page_not_found,
)


@require_GET
@require_member_and_handle_page_not_found
def show_session_history(request: MemberRequest, pk: int) -> HttpResponse:
    head = get_session_head_and_mask_secrets_or_404(request, pk)
    before = _parse_history_cursor_or_none(request)
    page = session_history.load_history_page(pk, before=before)
    integrity = audit_verification_status.load_chain_state_and_last_verdict(request.membership.workspace_id)
    unverified_entries = audit_verification_status.query_entries_since_verification_except_views(
        request.membership.workspace_id, integrity
    )
    context = {
        "head": head,
        "tab": "history",
        "page": page,
        "rows": list(session_history.group_read_events(page.rows)),
        "before": before,
        "takers": session_history.load_takeover_runs_by_lost_run_name(pk, page),
        "integrity": integrity,
        "has_seal_keys": audit_verification_status.has_seal_keys(),
        "unverified": unverified_entries.filter(session=pk).count(),
    }
    return render(request, "sessions/history.html", context)


def _parse_history_cursor_or_none(request: MemberRequest) -> HistoryCursor | None:
    event = parse_number_parameter_or_none(request, "event")
    decision = parse_number_parameter_or_none(request, "decision")
    if event is None or decision is None:
        return None
    return HistoryCursor(event, decision, Cursor.parse(request.GET.get("call", "")))
