"""Audit trail of the workspace: list, verify, export."""

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_GET, require_POST

from checkpoints import audit as checkpoints_audit
from checkpoints.db import clock
from checkpoints.enums import AuditKind, Role
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest, require_member_with_role
from harness_site.audit import (
    audit_trail_csv_export,
    audit_trail_query,
    audit_verification_status,
    calls_of_audit_entries,
    folded_entry_pages,
    invitations_of_audit_entries,
)
from harness_site.audit.audit_trail_query import AuditFilter, AuditSubject
from harness_site.audit.folded_entry_pages import AuditPage, Routine
from harness_site.audit.search_entries_by_words import SEARCHED_ENTRIES, WordSearch, split_words
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted
from harness_site.core.number_parameters import parse_whole_number_or_none
from harness_site.core.pagination_links import PageLinks, build_first_previous_and_next_links
from harness_site.core.similar_known_names import NearNames
from harness_site.core.streamed_downloads import CSV, build_download_response
from harness_site.core.time_range_parameters import TimeRange

#: Maximum length of a filter value.
_MAX_FILTER_LENGTH = 255


@require_GET
@require_member_with_role(Role.AUDITOR)
def show_audit_log(request: MemberRequest) -> HttpResponse:
    workspace = request.membership.workspace_id
    audit_filter = _parse_audit_filter(request.GET)
    before, oldest = (parse_whole_number_or_none(request.GET.get(name, "")) for name in ("before", "oldest"))
    is_about_runs = bool(audit_filter.subject is AuditSubject.SESSIONS or audit_filter.session or audit_filter.actor)
    shown = {
        Routine.PAGE_VIEW: "views" in request.GET or audit_filter.subject is AuditSubject.READING,
        Routine.RUN_EVENT: "runs" in request.GET or is_about_runs,
    }
    hides = frozenset(routine for routine, is_shown in shown.items() if not is_shown)
    search = WordSearch(workspace, audit_filter, hides) if audit_filter.words else None
    page = folded_entry_pages.load_page_of_folded_entries(
        workspace,
        audit_filter,
        search=search,
        before=before,
        oldest=oldest,
        hides=hides,
        folds_runs=not is_about_runs,
    )
    calls = calls_of_audit_entries.load_calls_of_unfolded_entries(workspace, page.rows)
    mark_excerpts_shown_in_response(request, "audit", {call.session_pk for call in calls.values()})
    actors = audit_trail_query.list_actors_to_filter_by(
        workspace, (entry for row in page.rows for entry in row.entries)
    )
    integrity = audit_verification_status.load_chain_state_and_last_verdict(workspace)
    context = {
        "page": page,
        "calls": calls,
        "invitations": invitations_of_audit_entries.load_invitations_of_entries(workspace, page.rows),
        "is_row_opened": oldest is not None,
        "wanted": audit_filter,
        "search_reached_at": None if search is None else search.reached_at,
        "searched_entries": SEARCHED_ENTRIES,
        "unsearched_views": search is not None and Routine.PAGE_VIEW in hides,
        "unsearched_runs": search is not None and Routine.RUN_EVENT in hides,
        "subjects": AuditSubject.choices,
        "filter_errors": _describe_invalid_filters_by_parameter(request.GET, audit_filter),
        "actors": actors,
        "near_names": _find_near_names_if_nothing_matches(workspace, audit_filter, page, actors),
        "integrity": integrity,
        "has_unverified_entries": audit_verification_status.query_entries_since_verification_except_views(
            workspace, integrity
        ).exists(),
        "rows_checked": audit_verification_status.load_last_integrity_check(workspace),
        "has_seal_keys": audit_verification_status.has_seal_keys(),
        "has_row_verification_keys": audit_verification_status.has_row_verification_keys(),
        "signing_key": audit_verification_status.get_site_decision_signing_key_id(),
        "here": (here := _build_query_string(request)),
        "place": f"{here}&" if here else "?",
        "links": _build_page_links(request, page.before, oldest),
        "folded_here": _build_query_string(request, before=before),
        "with_views": _build_query_string(request, before=before, views=1),
        "without_views": _build_query_string(request, before=before, views=None),
        "are_views_wanted": "views" in request.GET,
        "with_runs": _build_query_string(request, before=before, runs=1),
        "without_runs": _build_query_string(request, before=before, runs=None),
        "are_runs_wanted": "runs" in request.GET,
        "later": before is not None and oldest is None,
    }
    return render(request, "audit/log.html", context)


@require_POST
@require_member_with_role(Role.AUDITOR)
def seal_and_verify_audit_log(request: MemberRequest) -> HttpResponse:
    """Verify every entry and record the verification; the page shows the result."""
    verdict = checkpoints_audit.seal_and_verify_chain_and_store_result(request.membership.workspace_id)
    details: dict[str, Any] = {"checked": verdict.checked, "flaws": len(verdict.flaws)}
    record_user_audit_events.record_member_event(
        request.membership, AuditKind.AUDIT_VERIFIED, request=request, **details
    )
    return redirect("harness_audit:audit")


@require_GET
@require_member_with_role(Role.AUDITOR)
def export_audit_log(request: MemberRequest) -> HttpResponseBase:
    """Export all matching entries as CSV, streamed while they are read."""
    audit_filter = _parse_audit_filter(request.GET)
    record_user_audit_events.record_member_event(
        request.membership,
        AuditKind.EXPORTED,
        request=request,
        what="audit trail",
        **_build_audit_details_of_filter(audit_filter),
    )
    workspace_pk = request.membership.workspace_id
    name = f"audit-{request.membership.workspace.slug}-{clock.now():%Y-%m-%d}.csv"
    return build_download_response(
        audit_trail_csv_export.generate_csv_lines(
            workspace_pk,
            WordSearch(workspace_pk, audit_filter).iterate_all_entries()
            if audit_filter.words
            else audit_trail_query.iterate_entries(workspace_pk, audit_filter),
        ),
        CSV,
        name,
    )


def _parse_audit_filter(query: QueryDict) -> AuditFilter:
    subject = query.get("subject", "")
    return AuditFilter(
        subject=AuditSubject(subject) if subject in AuditSubject.values else None,
        actor=decrypt_name_if_encrypted(query.get("actor", "").strip())[:_MAX_FILTER_LENGTH],
        session=decrypt_name_if_encrypted(query.get("session", "").strip())[:_MAX_FILTER_LENGTH],
        words=" ".join(query.get("words", "").replace("\0", "").split())[:_MAX_FILTER_LENGTH],
        times=TimeRange.parse_query(query),
    )


def _find_near_names_if_nothing_matches(
    workspace: int, audit_filter: AuditFilter, page: AuditPage, members: list[str]
) -> list[NearNames]:
    """Find the actors and the ids of sessions that may be meant if nothing matches the filter."""
    if page.rows or page.hidden_views or page.hidden_runs or audit_filter.words:
        return []
    near = []
    if audit_filter.actor:
        actors = audit_trail_query.list_near_actors(workspace, audit_filter.actor, members)
        near.append(NearNames("actor", gettext("Actor"), actors))
    if audit_filter.session:
        ids = audit_trail_query.list_near_session_ids(workspace, audit_filter.session)
        near.append(NearNames("session", gettext("Session"), ids))
    return [one for one in near if one.names]


def _describe_invalid_filters_by_parameter(query: QueryDict, audit_filter: AuditFilter) -> dict[str, str]:
    """Describe for each parameter with an invalid value what is wrong with it. Such a parameter filters nothing."""
    subject = query.get("subject", "").replace("\0", "").strip()
    sentence = gettext("“%(value)s” is not a subject, so it does not filter.")
    unknown = {"subject": sentence % {"value": subject[:_MAX_FILTER_LENGTH]}}
    bounds = audit_filter.times.describe_invalid_bounds_by_parameter(query)
    return unknown | bounds if subject and audit_filter.subject is None else bounds


def _build_audit_details_of_filter(audit_filter: AuditFilter) -> dict[str, Any]:
    """Build the audit details that describe the filter of an export."""
    parts = {
        "subject": audit_filter.subject or "",
        "actor": audit_filter.actor,
        "session": audit_filter.session,
        "words": len(split_words(audit_filter.words)),  # what somebody typed is never recorded
        "first": audit_filter.times.first,
        "last": audit_filter.times.last,
        "zone": audit_filter.times.zone if audit_filter.times else "",
    }
    return {name: str(value) for name, value in parts.items() if value}


def _build_page_links(request: HttpRequest, following: int | None, oldest: int | None) -> PageLinks:
    """Build the links to other pages. The first one of the entries of a folded row, down to `oldest`, has a cursor."""
    links = build_first_previous_and_next_links(request, "before", following)
    if oldest is None:
        return links
    is_first = len(request.GET.getlist("before")) < 2
    return replace(links, first="", previous="" if is_first else links.previous, number=None)


def _build_query_string(request: HttpRequest, **place: int | None) -> str:
    """Build the query of the filter, with another place in the trail. Parameters that are None are left out."""
    query = request.GET.copy()
    for name in ("before", "oldest", *place):
        query.pop(name, None)
    for name, key in place.items():
        if key is not None:
            query[name] = str(key)
    return f"?{query.urlencode()}" if query else ""
