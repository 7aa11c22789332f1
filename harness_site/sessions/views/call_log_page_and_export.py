"""Tool calls of all sessions of a workspace, and success rates of its tools."""

from dataclasses import replace

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_GET

from checkpoints.db import clock
from checkpoints.db.keyset_pagination import Cursor
from checkpoints.enums import AuditKind, CallStatus
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted, encrypt_name_if_masked
from harness_site.core.pagination_links import build_first_previous_and_next_links
from harness_site.core.streamed_downloads import CSV, build_download_response
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import passage_search
from harness_site.search.index_status import load_index_status
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import call_log_csv_export, session_and_call_status_chips
from harness_site.sessions.call_row_display import build_workspace_call_lines
from harness_site.sessions.selectors import tool_success_rates, workspace_call_log
from harness_site.sessions.selectors.call_records import CallFilter
from harness_site.sessions.selectors.similar_names_for_filters import load_similar_names_of_call_filters
from harness_site.sessions.selectors.workspace_call_log import CallLogFilter, LoggedCall
from harness_site.sessions.session_lookup_masking_and_404 import require_member_and_handle_page_not_found
from harness_site.sessions.sortable_heading import SortableHeading

_MAX_FILTER_LENGTH = 255


@require_GET
@require_member_and_handle_page_not_found
def show_call_log(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace_id
    filters = _parse_log_filter_and_search_words(workspace, request.GET)
    after = Cursor.parse(request.GET.get("after", ""))
    page = workspace_call_log.load_call_log_page(workspace, filters, after=after)
    session_pks = {row.session_pk for row in page.rows if isinstance(row, LoggedCall)}
    mark_excerpts_shown_in_response(request, "tool calls", session_pks)
    secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(session_pks)
    rows = build_workspace_call_lines(page.rows, secrets)
    examined = None if filters.session else page
    has_most_failed_first = request.GET.get("tools") == "failed"
    rates = (
        tool_success_rates.load_tool_success_rates(
            workspace, filters, examined, has_most_failed_first=has_most_failed_first
        )
        if after is None
        else None
    )
    is_empty = not rows and rates is not None
    untimed = (
        workspace_call_log.count_newest_calls_without_times(workspace, filters) if is_empty and filters.times else 0
    )
    context = {
        "untimed": untimed,
        "page": page,
        "rows": rows,
        "secrets": secrets,
        "rates": rates,
        "has_most_failed_first": has_most_failed_first,
        "rates_heads": {
            "calls": _build_heading_of_rates(request, gettext("Calls"), "", is_sorted=not has_most_failed_first),
            "failed": _build_heading_of_rates(request, gettext("Failed"), "failed", is_sorted=has_most_failed_first),
        },
        "counted": page if filters.has_filters_ignored_by_rates else rates,
        "wanted": filters,
        "filter_errors": _describe_invalid_filters_by_parameter(request.GET, filters),
        "agents": sorted({row.agent for row in page.rows if isinstance(row, LoggedCall)} - {""}, key=str),
        "statuses": session_and_call_status_chips.list_call_status_choices(),
        "links": build_first_previous_and_next_links(request, "after", page.after),
        "near_names": load_similar_names_of_call_filters(
            workspace, tool=filters.calls.tool, agent=filters.agent, newest_tools=rates.tool_names
        )
        if rates is not None and is_empty and not untimed
        else [],
        "later": after is not None,
        "looked_at": workspace_call_log.LOOKED_AT,
        "most_found": passage_search.MOST_CALLS,
        "index_status": None if filters.found is None else load_index_status(),
        "exported": _build_export_url_with_filters(request),
    }
    return render(request, "sessions/workspace_calls.html", context)


@require_GET
@require_member_and_handle_page_not_found
def export_call_log(request: MemberRequest) -> HttpResponseBase:
    """Stream a CSV file of every call that matches the filters of the list."""
    membership = request.membership
    query = request.GET.copy()
    for name in ("key", "q"):
        if query.get(name):
            query[name] = "*"  # may be confidential, as words of a search
    filters = query.urlencode(safe="*")[:_MAX_FILTER_LENGTH]
    record_user_audit_events.record_member_event(
        membership, AuditKind.EXPORTED, request=request, what="tool calls", filters=filters
    )
    wanted = _parse_log_filter_and_search_words(membership.workspace_id, request.GET)
    wanted = replace(wanted, with_copied=bool(request.GET.get("copied")))
    pages = workspace_call_log.iterate_call_log_pages(membership.workspace_id, wanted)
    name = f"tool-calls-{membership.workspace.slug}-{clock.now():%Y-%m-%d}.csv"
    return build_download_response(call_log_csv_export.generate_csv_lines(pages), CSV, name)


def parse_call_filter(query: QueryDict) -> CallFilter:
    """Parse the call filter from the query, for this page and the call log of one session."""
    status = query.get("status", "")
    return CallFilter(
        status=CallStatus(status) if status in CallStatus.values else None,
        tool=decrypt_name_if_encrypted(query.get("tool", ""))[:_MAX_FILTER_LENGTH],
        key=decrypt_name_if_encrypted(query.get("key", "").strip())[:_MAX_FILTER_LENGTH],
    )


def _build_heading_of_rates(request: HttpRequest, words: str, order: str, *, is_sorted: bool) -> SortableHeading:
    """Build the heading of a column of the table by tool; its link sorts by it, the highest number first."""
    query = request.GET.copy()
    query["tools"] = order
    if not order:
        del query["tools"]
    return SortableHeading(words, f"?{query.urlencode()}", "descending" if is_sorted else "", words, "number")


def _parse_log_filter_and_search_words(workspace: int, query: QueryDict) -> CallLogFilter:
    agent = decrypt_name_if_encrypted(query.get("agent", "").strip())[:_MAX_FILTER_LENGTH]
    session = decrypt_name_if_encrypted(query.get("session", "").strip())[:_MAX_FILTER_LENGTH]
    times, words = TimeRange.parse_query(query), SearchQuery.parse(query.get("q", ""))
    return CallLogFilter(
        calls=parse_call_filter(query),
        agent=agent,
        times=times,
        interrupted=bool(query.get("interrupted")),
        finished=bool(query.get("finished")),
        words=str(words),
        found=passage_search.search_calls(workspace, words, times=times) if words else None,
        session=session,
        session_pk=workspace_call_log.find_session_pk_by_id_or_number(workspace, session) if session else None,
    )


def _describe_invalid_filters_by_parameter(query: QueryDict, filters: CallLogFilter) -> dict[str, str]:
    """Describe for each parameter with an invalid value what is wrong with it. Such a parameter filters nothing."""
    status = query.get("status", "").replace("\0", "").strip()
    sentence = gettext("“%(value)s” is not a status, so it does not filter.")
    unknown = {"status": sentence % {"value": status[:_MAX_FILTER_LENGTH]}}
    bounds = filters.times.describe_invalid_bounds_by_parameter(query)
    return unknown | bounds if status and filters.calls.status is None else bounds


def build_session_export_url_with_filters(request: HttpRequest, session_id: str, *, has_copied_calls: bool) -> str:
    """Build the URL of the export of the calls of one session that match the filters of its list.

    That of a fork has also the calls that it has copied.
    """
    query = QueryDict(mutable=True)
    query["session"] = encrypt_name_if_masked(session_id)
    query.update({name: value for name in ("tool", "status", "key") if (value := request.GET.get(name, "").strip())})
    if has_copied_calls:
        query["copied"] = "1"
    return f"{reverse('harness:calls-export')}?{query.urlencode()}"


def _build_export_url_with_filters(request: HttpRequest) -> str:
    query = request.GET.copy()
    query.pop("after", None)
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    path = reverse("harness:calls-export")
    return f"{path}?{query.urlencode()}" if query else path
