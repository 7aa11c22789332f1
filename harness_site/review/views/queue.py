"""Review queue over all sessions, and the list of recorded decisions."""

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.enums import Role
from checkpoints.models import Session, ToolCall
from harness_site.accounts import call_secrets
from harness_site.accounts.decision_eligibility import build_electorate
from harness_site.accounts.permissions import MemberRequest, require_member
from harness_site.accounts.read_records import note_excerpts_shown
from harness_site.review import presence
from harness_site.review.decided_rows import build_decided_row
from harness_site.review.lost_run_detection import interrupt_lost_calls
from harness_site.review.pending_rows import (
    OutageGroupRow,
    PendingCallRow,
    build_outage_group_row,
    build_pending_call_row,
)
from harness_site.review.presence import NOBODY
from harness_site.review.queue_filters import CHOICES, STATUS_OF, TABS, parse_queue_filters
from harness_site.review.selectors import outage_groups, pending_calls
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.selectors.queue_order import QueueSort
from harness_site.sessions.selectors import agreements


@require_GET
@require_member(Role.AUDITOR)
def show_review_queue(request: MemberRequest) -> HttpResponse:
    interrupt_lost_calls(request.membership.workspace)
    query_filters = parse_queue_filters(request.GET)
    filters = query_filters.filters(request.membership)
    interrupted, awaiting = (
        pending_calls.count_pending_calls(request.membership.workspace, filters, status=status)
        for status in STATUS_OF.values()
    )
    tab = _choose_tab(request.GET.get("tab", ""), only_awaiting=bool(awaiting) and not interrupted)
    tab_context = (
        _build_decided_context(request, filters)
        if tab == "decided"
        else _build_pending_context(request, tab, filters, query_filters.sort)
    )
    context = {
        **tab_context,
        **CHOICES,
        "tab": tab,
        "wanted": query_filters,
        "page_size": pending_calls.PAGE,
        "interrupted": interrupted,
        "awaiting": awaiting,
        "found": interrupted + awaiting,
        "here": request.GET.urlencode(),
    }
    rows = tab_context.get("rows") or tab_context.get("decisions", [])
    sessions = {row.session_pk for row in rows}
    note_excerpts_shown(request, "review queue", sessions)
    context["secrets"] = call_secrets.load_secrets_of_sessions(sessions)
    return render(request, "review/queue.html", context)


@require_GET
@require_member(Role.AUDITOR)
def show_queue_count(request: MemberRequest) -> HttpResponse:
    """Render the number beside `Review` for open pages."""
    return render(
        request, "parts/waiting.html", {"waiting": pending_calls.count_pending_calls(request.membership.workspace)}
    )


def _choose_tab(tab: str, *, only_awaiting: bool) -> str:
    """Return the tab of the query string, or the default: the one that has calls."""
    if tab in TABS:
        return tab
    return "awaiting" if only_awaiting else "interrupted"


def _build_pending_context(
    request: MemberRequest, tab: str, filters: pending_calls.CallFilters, sort: QueueSort
) -> dict[str, Any]:
    workspace = request.membership.workspace
    after_key = _parse_number(request.GET)
    calls, next_key = pending_calls.load_pending_page(workspace, STATUS_OF[tab], filters, sort=sort, after=after_key)
    is_first_use = tab == "interrupted" and not calls and not Session.objects.filter(workspace=workspace).exists()
    next_url = _build_next_page_url(request.GET, next_key, tab=tab)
    outages = outage_groups.open_outages(workspace) if tab == "interrupted" else []
    groups = {outage: build_outage_group_row(outage) for outage in outages}
    return {
        "rows": _build_pending_rows(request, calls, groups),
        "more": next_url,
        "first_time": is_first_use,
        "groups": list(groups.values()),
    }


def _build_decided_context(request: MemberRequest, filters: pending_calls.CallFilters) -> dict[str, Any]:
    decisions, next_key = pending_calls.load_decided_page(
        request.membership.workspace, filters, before=_parse_number(request.GET)
    )
    return {
        "decisions": [build_decided_row(decision) for decision in decisions],
        "more": _build_next_page_url(request.GET, next_key),
    }


def _build_pending_rows(
    request: MemberRequest, calls: Sequence[ToolCall], groups: dict[Outage, OutageGroupRow]
) -> list[PendingCallRow]:
    now = clock.now()
    outages_by_call = outage_groups.map_calls_to_outages(calls, list(groups))
    agreements_by_call = agreements.load_agreements_of_calls(calls, build_electorate(request.membership.workspace))
    people = presence.load_presence_of_calls([call.pk for call in calls], request.membership)
    rows = []
    for call in calls:
        outage = outages_by_call.get(call.pk)
        group = None if outage is None else groups[outage]
        rows.append(
            build_pending_call_row(
                call, agreements_by_call.get(call.pk, ()), people.get(call.pk, NOBODY), group, now=now
            )
        )
    return rows


def _parse_number(query: QueryDict) -> int | None:
    token = query.get("after", "")
    if token and not (token.isdecimal() and len(token) <= 18):
        raise BadRequest("The page to go on from is not a number.")
    return int(token) if token else None


def _build_next_page_url(current_query: QueryDict, after: int | None, **parameters: str) -> str:
    """Build the URL of this page with another start; empty if there is no next page."""
    if after is None:
        return ""
    query = current_query.copy()
    for name, value in {"after": str(after), **parameters}.items():
        query[name] = value
    return f"?{query.urlencode()}"
