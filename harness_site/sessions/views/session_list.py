"""Session list, and redirect from a session id to the page of the session."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from checkpoints.enums import Role
from checkpoints.sessions.agent_and_label_suggestions import SessionFacets, list_recent_agents_and_labels
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, Sort
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.pagination_links import build_first_previous_and_next_links
from harness_site.core.similar_known_names import NearNames
from harness_site.core.time_range_parameters import TimeRange, format_time_parameter
from harness_site.search.index_status import estimate_unindexed_backlog
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import session_row_display
from harness_site.sessions.selectors import (
    filter_suggestions,
    session_list_pages,
    session_list_totals,
    session_rows,
)
from harness_site.sessions.selectors.session_rows import SessionPage
from harness_site.sessions.selectors.similar_names_for_filters import load_similar_names_of_session_filters
from harness_site.sessions.session_list_query_parameters import (
    COST_PARAMETERS,
    LONGEST,
    SUGGESTED_TRAITS,
    count_given_filters,
    describe_invalid_filters_by_parameter,
    get_required_index_kinds,
    map_suggestions_to_parameters,
    parse_session_filter,
    read_and_decrypt_text_parameter,
    read_name_filters,
)
from harness_site.sessions.session_lookup_masking_and_404 import (
    PageNotFound,
    parse_displayed_session_keys,
    require_member_and_handle_page_not_found,
)
from harness_site.sessions.sortable_heading import SortableHeading
from harness_site.sessions.views.full_text_search import show_hits_or_redirect_to_correction

#: Parameters that select a part of the list, not its contents.
_OF_A_PAGE = ("rows", "after", "newest", "then", "before", "within", "instead", "unordered")


@require_GET
@require_member_and_handle_page_not_found
def list_sessions(request: MemberRequest) -> HttpResponse:
    """Show the session list.

    With `rows`, reload the sessions of an open page in the order in which they are displayed. New ones are added where
    all sessions are on one page; otherwise they are counted.
    """
    workspace = request.membership.workspace_id
    filters = parse_session_filter(workspace, request.GET)
    times = TimeRange.parse_query(request.GET)
    common = _build_filter_form_context(request, filters, times)
    if query := SearchQuery.parse(read_and_decrypt_text_parameter(request.GET, "q")):
        known = list_recent_agents_and_labels(workspace)
        return show_hits_or_redirect_to_correction(
            request,
            query,
            filters,
            {**common, "known": known},
            load_near_names=lambda: _load_near_names_of_filters(request, common["suggested"], known),
        )
    after = session_list_pages.parse_page_cursor(request.GET.get("after", ""), filters.sort)
    page = session_rows.load_session_page(workspace, filters, after=after)
    displayed_pks = parse_displayed_session_keys(request)
    if displayed_pks and after is None and page.after is None:
        displayed_pks = _add_new_sessions_to_displayed_ones(page, displayed_pks, filters.sort)
    rows = session_rows.load_session_rows_in_order_of_pks(workspace, displayed_pks) if displayed_pks else page.rows
    lines = session_row_display.build_session_list_lines(
        rows,
        mask_argument_secrets_throughout_session.load_known_secrets_of_sessions([row.pk for row in rows]),
        sort=filters.sort,
        since="" if times.since is None else format_time_parameter(times.since),
        query=request.GET,
    )
    is_empty = not rows and after is None
    untimed = _count_newest_sessions_left_out_by_times(workspace, request.GET) if is_empty and times else 0
    model = read_and_decrypt_text_parameter(request.GET, "model")
    context = common | {
        "model": model,
        "model_part": session_list_totals.load_part_of_model_or_none(workspace, filters, model) if page.sums else None,
        "unread": estimate_unindexed_backlog(get_required_index_kinds(request.GET)) if filters.among else 0,
        "page": page,
        "rows": lines,
        "known": page.known,
        "fresh": _count_first_page_sessions_not_displayed(page, displayed_pks)
        if displayed_pks and after is None and not filters.sort.is_ascending
        else 0,
        "first_time": is_empty and not filters,
        "heads": {
            "cost": _build_sortable_heading(request, filters.sort, Sort.COST, _("Cost"), "number"),
            "time": _build_sortable_heading(request, filters.sort, Sort.STARTED, _("Started"))
            if filters.sort.is_by_start
            else _build_sortable_heading(request, filters.sort, Sort.UPDATED, _("Updated")),
        },
        "here": _build_list_url_with_changes(request, rows=""),
        "again": _build_list_url_with_changes(request, rows=",".join(str(row.pk) for row in rows)),
        "links": build_first_previous_and_next_links(request, "after", page.after, without=("rows",)),
        "after": after,
        "untimed": untimed,
        "near_names": _load_near_names_of_filters(request, common["suggested"], page.known)
        if is_empty and not untimed
        else [],
        "may_label": request.membership.has_role(Role.APPROVER),
    }
    return render(request, "sessions/list.html", context)


def _build_filter_form_context(request: MemberRequest, filters: SessionFilter, times: TimeRange) -> dict[str, Any]:
    """Build the form of the filters, which the list and the results of a search have."""
    errors = describe_invalid_filters_by_parameter(request.GET)
    return {
        "wanted": filters,
        "given_filters": count_given_filters(request.GET),
        "filter_errors": errors,
        "cost_errors": [errors[name] for name in COST_PARAMETERS if name in errors],
        "other_errors": [sentence for name, sentence in errors.items() if name not in COST_PARAMETERS],
        "times": times,
        # An absent parameter is an empty text: for a name that is missing, a template fails several times.
        "asked": defaultdict(str, request.GET.dict()),
        "suggested": filter_suggestions.list_recent_values_by_trait(request.membership.workspace_id, SUGGESTED_TRAITS),
        "exported": _build_list_url_with_changes(
            request, reverse("harness_sessions:sessions-export"), **dict.fromkeys(_OF_A_PAGE, "")
        ),
    }


@require_GET
@require_member_and_handle_page_not_found
def redirect_to_session_by_id(request: MemberRequest) -> HttpResponse:
    session_id = request.GET.get("id", "")
    pk = session_rows.find_session_pk(request.membership.workspace_id, session_id)
    if pk is None:
        raise PageNotFound(
            _("There is no session with the id “%(id)s” here.") % {"id": session_id[:LONGEST]},
            _("Ids have to match exactly, including case, spaces and slashes. The list finds parts of an id."),
        )
    return redirect("harness_sessions:session", pk)


def _count_newest_sessions_left_out_by_times(workspace: int, query: QueryDict) -> int:
    """Count the sessions without times that match all filters of an empty list but its times."""
    without_times = query.copy()
    for name in ("first", "last"):
        without_times.pop(name, None)
    filters = parse_session_filter(workspace, without_times)
    return session_list_pages.count_newest_sessions_without_times(workspace, filters)


def _load_near_names_of_filters(
    request: MemberRequest, suggested: Mapping[str, Iterable[str]], known: SessionFacets
) -> list[NearNames]:
    """Load known names for the filters of an empty list."""
    suggested_names = map_suggestions_to_parameters(suggested) | {"agent": known.agents, "label": known.labels}
    workspace = request.membership.workspace_id
    return load_similar_names_of_session_filters(workspace, read_name_filters(request.GET), suggested_names)


def _build_sortable_heading(
    request: HttpRequest, current: Sort, descending: Sort, words: str, css_class: str = ""
) -> SortableHeading:
    """Build the heading of a column; its link sorts by the column, or the other way round if the list is already."""
    is_sorted = current.column == descending.column
    following = Sort(f"{descending.value}-asc") if is_sorted and not current.is_ascending else descending
    sort = "" if following is Sort.UPDATED else following.value
    url = _build_list_url_with_changes(request, **dict.fromkeys(_OF_A_PAGE, ""), sort=sort)
    direction = ("ascending" if current.is_ascending else "descending") if is_sorted else ""
    return SortableHeading(words, url, direction, str(following.label), css_class)


def _add_new_sessions_to_displayed_ones(
    page: SessionPage, displayed_pks: tuple[int, ...], sort: Sort
) -> tuple[int, ...]:
    """Add the sessions that have come to a list of one page, at the end where the order puts new sessions there."""
    new_pks = tuple(row.pk for row in page.rows if row.pk not in displayed_pks)
    has_newest_first = sort in (Sort.UPDATED, Sort.STARTED)
    return (*new_pks, *displayed_pks) if has_newest_first else (*displayed_pks, *new_pks)


def _count_first_page_sessions_not_displayed(page: SessionPage, displayed_pks: tuple[int, ...]) -> int:
    """Count the sessions of the first page that are not displayed yet."""
    return len({row.pk for row in page.rows} - set(displayed_pks))


def _build_list_url_with_changes(request: HttpRequest, path: str = "", **changed: str) -> str:
    """Return the URL of this page, or of `path`, with changed parameters; empty ones are left out."""
    path = path or request.path
    query = request.GET.copy()
    for name, value in changed.items():
        query[name] = value
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    return f"{path}?{query.urlencode()}" if query else path
