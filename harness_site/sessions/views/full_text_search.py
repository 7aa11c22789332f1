"""Full-text search: hits grouped by session."""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.html import strip_tags

from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, Sort
from harness_site.accounts.mark_sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.accounts.permissions import MemberRequest
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.core.number_parameters import parse_number_parameter_or_none, parse_whole_number_or_none
from harness_site.core.pagination_links import build_first_previous_and_next_links
from harness_site.core.similar_known_names import NearNames
from harness_site.core.time_range_parameters import TimeRange
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.search import passage_search, spelling_suggestions
from harness_site.search.index_status import load_index_status
from harness_site.search.list_incompletely_indexed_texts import list_incompletely_indexed_texts
from harness_site.search.load_search_hits import SearchHit, load_search_hits_by_session
from harness_site.search.models import Kind
from harness_site.search.passage_search import OrderedSearchCursor, SearchCursor, SearchPage
from harness_site.search.query_terms import SearchQuery, do_terms_occur_outside_of_ids
from harness_site.search.sessions_matching_words_across_texts import WordMatches, search_sessions_with_all_words
from harness_site.sessions import session_row_display
from harness_site.sessions.selectors import session_list_pages, session_rows
from harness_site.sessions.selectors.ordered_search_results import (
    OrderedSearch,
    search_best_matching_sessions,
    search_sessions_in_order_of_column,
)
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.session_and_call_links import SessionLinks
from harness_site.sessions.session_list_query_parameters import (
    BEST_MATCH,
    SearchOrder,
    list_search_order_choices,
    parse_search_order,
    read_and_decrypt_text_parameter,
)
from harness_site.sessions.session_lookup_masking_and_404 import parse_displayed_session_keys
from harness_site.sessions.session_row_display import SessionLine

#: Hits displayed for each session before the link to all of them.
SHOWN = 3
#: Hits of each word displayed for a session that has the words of a query in different texts.
_SHOWN_OF_A_WORD = 1
#: Largest number of sessions that match the filters for a search to read only their texts.
_MAX_FILTERED_SESSIONS = 200
#: Parameters with which an open page is loaded again.
_OF_A_RELOAD = ("rows", "newest", "then", "unordered")


@dataclass(frozen=True, slots=True)
class SessionResultGroup:
    """A session with its best passages. Its title, id and agent mark `marked_words`, if all are in them."""

    row: SessionLine | UnreadableRecord
    passages: tuple[SearchHit, ...]
    has_more: bool
    marked_words: tuple[str, ...]
    #: Words that a hit was found by, by key of its passage, where these are not all words of the query.
    words_of_hits: Mapping[int, SearchQuery] = field(default_factory=dict)


def show_hits_or_redirect_to_correction(
    request: MemberRequest,
    query: SearchQuery,
    wanted: SessionFilter,
    context: dict[str, Any],
    *,
    load_near_names: Callable[[], list[NearNames]],
) -> HttpResponse:
    """Show search results. A query that finds nothing leads to that of known words if this finds something.

    `before` is the cursor of the page, `within` limits the search to one session, and `rows` reloads the sessions of an
    open page. `load_near_names` loads known names for the filters if nothing is found.
    """
    workspace = request.membership.workspace_id
    cursor = _parse_cursor(request.GET.get("before", ""))
    within = parse_number_parameter_or_none(request, "within")
    order = parse_search_order(request.GET) if within is None else ""
    exact_match = session_rows.find_session_pk(workspace, request.GET.get("q", "").strip())
    found, pks, is_in_order = _search_or_refresh_displayed_sessions(
        request, query, wanted, order, cursor=cursor, within=within, exact_match=exact_match
    )
    apart: WordMatches | None = None
    if not pks and not found.slow and found.next is None and _is_first_page_of_all_sessions(request, cursor):
        other = _find_correction_or_words_in_different_texts(request, query, wanted)
        if isinstance(other, SearchQuery):
            return redirect(_build_suggestion_url(request, other))
        apart = other
        pks = apart.sessions if apart else ()
    hits = load_search_hits_by_session(found.passages, query)
    is_reload = bool(request.GET.get("rows"))
    rows = session_rows.load_session_rows_in_order_of_pks(workspace, pks, None if is_reload else wanted)
    secrets = _load_secrets_of_sessions(pks, found, apart)
    line_sort = order if isinstance(order, Sort) else Sort.UPDATED
    lines = session_row_display.build_session_list_lines(rows, secrets, sort=line_sort, since="", query=request.GET)
    telling = {passage.pk for passage in found.passages if do_terms_occur_outside_of_ids(query, passage.text)}
    limit = None if within is not None else SHOWN
    groups = (
        _build_groups_of_words_in_different_texts(lines, apart, query)
        if apart
        else [_build_result_group(line, hits.get(line.pk, []), limit, query, found, telling) for line in lines]
    )
    if not (order or apart or is_reload or within is not None):
        groups = _sort_title_matches_first(groups, hits, rows, query, telling)
    # Secrets of a session are needed only for hits in its texts; ids and titles are in every list anyway.
    excerpt_pks = (group.row.pk for group in groups if group.passages)
    mark_excerpts_shown_in_response(request, "search", excerpt_pks)
    number = len(groups) if within is None else sum(len(group.passages) for group in groups)
    instead = read_and_decrypt_text_parameter(request.GET, "instead")
    context |= {
        "query": query,
        "groups": groups,
        "secrets": secrets,
        "session_links": SessionLinks(),
        "found": found,
        **_build_result_numbers_and_links_context(request, found, cursor, number),
        "index_status": load_index_status(),
        "problems": list_incompletely_indexed_texts(workspace),
        "within": within,
        "meant": ()
        if within is not None or cursor or instead or telling or exact_match is not None
        else _find_corrections_of_words_matched_as_substrings(request, query, wanted, found),
        "also_near": ()
        if within is not None or cursor or not instead or not groups
        else _find_equally_near_queries(request, SearchQuery.parse(instead), query, wanted),
        "near_names": [] if groups or found.next or cursor or found.slow else load_near_names(),
        "order": order,
        "order_label": dict(list_search_order_choices())[order],
        "is_in_order": is_in_order,
        "instead": instead,
        "has_minus": SearchQuery.parse(instead or str(query)).has_words_after_minus,
        "apart": apart,
        "rows": "" if apart else ",".join(str(group.row.pk) for group in groups),
    }
    return render(request, "sessions/search_results.html", context)


def _search_or_refresh_displayed_sessions(
    request: MemberRequest,
    query: SearchQuery,
    wanted: SessionFilter,
    order: SearchOrder,
    *,
    cursor: SearchCursor | OrderedSearchCursor | None,
    within: int | None,
    exact_match: int | None,
) -> tuple[SearchPage, tuple[int, ...], bool]:
    """Search, or load an open page again. Returns the page, the keys of its sessions, and whether it has its order.

    If too many sessions match for the order, those with the newest matches come first, on the following pages as well.
    """
    workspace = request.membership.workspace_id
    newest = parse_whole_number_or_none(request.GET.get("newest", ""))
    times = _parse_times_of_passages(request, wanted)
    if within is not None:
        found = passage_search.search_passages_of_session(
            workspace, query, within, cursor=_get_search_cursor_or_none(cursor), newest=newest, times=times
        )
        return found, (within,) if found.passages else (), True
    if displayed_pks := parse_displayed_session_keys(request):
        found = passage_search.load_newest_passages_of_sessions(
            workspace, query, displayed_pks, newest=newest, times=times
        )
        found = replace(found, next=_parse_cursor(request.GET.get("then", "")))
        return found, displayed_pks, not request.GET.get("unordered")
    few = _list_matching_session_keys_if_few(workspace, wanted)
    if order and not isinstance(cursor, SearchCursor):
        search = search_best_matching_sessions if order == BEST_MATCH else search_sessions_in_order_of_column
        ordered = search(OrderedSearch(workspace, query, wanted, sessions=few, times=times, cursor=cursor))
        if ordered is not None and (ordered.passages or ordered.next or cursor):
            return ordered, tuple(ordered.list_session_pks()), True
    newest_first = _get_search_cursor_or_none(cursor)
    found = passage_search.search_sessions(
        workspace, query, cursor=newest_first, wanted=wanted, sessions=few, first=exact_match, times=times
    )
    pks = tuple(found.list_session_pks())
    if exact_match is not None and newest_first is None:
        pks = tuple(dict.fromkeys((exact_match, *pks)))
    return found, pks, not order or len(pks) < 2


def _build_result_numbers_and_links_context(
    request: HttpRequest, found: SearchPage, cursor: SearchCursor | OrderedSearchCursor | None, number: int
) -> dict[str, Any]:
    """Build which ones of all results a page with so many of them has, and the links to the other pages."""
    shown_before = cursor.shown if cursor else 0
    following = replace(found.next, shown=shown_before + number) if found.next else None
    return {
        "number": number,
        "number_from": shown_before + 1,
        "number_to": shown_before + number,
        "cursor": cursor,
        "following": following,
        "links": build_first_previous_and_next_links(request, "before", following, without=_OF_A_RELOAD),
    }


def _parse_times_of_passages(request: HttpRequest, wanted: SessionFilter) -> TimeRange:
    """Parse the times of the passages to search: all, if the times of the request are those of the sessions' start."""
    return TimeRange() if wanted.sort.is_by_start else TimeRange.parse_query(request.GET)


def _parse_cursor(token: str) -> SearchCursor | OrderedSearchCursor | None:
    return SearchCursor.parse(token) or OrderedSearchCursor.parse(token)


def _get_search_cursor_or_none(cursor: SearchCursor | OrderedSearchCursor | None) -> SearchCursor | None:
    return cursor if isinstance(cursor, SearchCursor) else None


def _list_matching_session_keys_if_few(workspace: int, wanted: SessionFilter) -> tuple[int, ...] | None:
    """List the keys of the sessions that match the filters; None without filters, and for many sessions."""
    if not wanted:
        return None
    size = _MAX_FILTERED_SESSIONS + 1
    sessions = session_list_pages.load_partial_sessions_after_cursor(workspace, wanted, size)
    return tuple(session.pk for session in sessions) if len(sessions) < size else None


def _find_correction_or_words_in_different_texts(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter
) -> SearchQuery | WordMatches | None:
    """Find what to show for a query that no text contains.

    Only the query that was typed is corrected: that to which a correction led is not corrected again.

    Returns:
        A query that finds sessions: the one of known words, or, if no session has the words in different texts either,
        the one without the words after a minus. Otherwise the result of `_search_words_in_different_texts`.
    """
    is_typed = not request.GET.get("instead")
    if is_typed and (near := _suggest_query_if_nothing_matches(request, query, wanted)) is not None:
        return near
    apart = _search_words_in_different_texts(request, query, wanted)
    if (apart and apart.sessions) or not is_typed or not query.has_words_after_minus:
        return apart
    others = query.without_words_that_begin_with_minus
    return others if others and _finds_sessions(request, others, wanted) else apart


def _find_corrections_of_words_matched_as_substrings(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter, found: SearchPage
) -> tuple[str, ...]:
    """Find queries of known words for one that was found only inside of longer words, as “oder” in “modern”."""
    if not found.passages or found.slow:
        return ()
    near = spelling_suggestions.suggest_corrected_queries(request.membership.workspace_id, query)
    return _list_queries_that_find_sessions(request, near, wanted)


def _find_equally_near_queries(
    request: MemberRequest, typed: SearchQuery, shown: SearchQuery, wanted: SessionFilter
) -> tuple[str, ...]:
    """Find the queries of known words that are as near to the typed one as that whose results are shown."""
    near = spelling_suggestions.suggest_corrected_queries(request.membership.workspace_id, typed)
    if shown not in near:
        return ()
    return _list_queries_that_find_sessions(request, (other for other in near if other != shown), wanted)


def _list_queries_that_find_sessions(
    request: MemberRequest, queries: Iterable[SearchQuery], wanted: SessionFilter
) -> tuple[str, ...]:
    return tuple(
        str(near)
        for near in queries
        if masker.mask_text(str(near)) == str(near) and _finds_sessions(request, near, wanted)
    )


def _suggest_query_if_nothing_matches(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter
) -> SearchQuery | None:
    """Suggest a query of known words that finds sessions, if not the filters, but the words are the reason that nothing
    was found."""
    workspace = request.membership.workspace_id
    if wanted and passage_search.search_sessions(workspace, query).passages:
        return None
    suggested = spelling_suggestions.suggest_corrected_queries(workspace, query)
    return next((near for near in suggested if _finds_sessions(request, near, wanted)), None)


def _finds_sessions(request: MemberRequest, query: SearchQuery, wanted: SessionFilter) -> bool:
    """Return whether a search finds sessions with all words, in one text or in different ones."""
    workspace = request.membership.workspace_id
    times = _parse_times_of_passages(request, wanted)
    few = _list_matching_session_keys_if_few(workspace, wanted)
    found = passage_search.search_sessions(workspace, query, wanted=wanted, sessions=few, times=times)
    if found.passages or found.next:
        return True
    apart = _search_words_in_different_texts(request, query, wanted)
    return apart is not None and bool(apart.sessions)


def _search_words_in_different_texts(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter
) -> WordMatches | None:
    """Search the sessions that have all words in different texts; None for one word, and if it took too long."""
    if len(query.terms) < 2:
        return None
    workspace = request.membership.workspace_id
    times = _parse_times_of_passages(request, wanted)
    few = _list_matching_session_keys_if_few(workspace, wanted)
    return search_sessions_with_all_words(workspace, query, wanted=wanted, sessions=few, times=times)


def _build_groups_of_words_in_different_texts(
    lines: Iterable[SessionLine | UnreadableRecord], apart: WordMatches, query: SearchQuery
) -> list[SessionResultGroup]:
    """Build the results of sessions that have the words in different texts: the newest hits of each word."""
    hits_of_words = [(word, load_search_hits_by_session(page.passages, word)) for word, page in apart.pages]
    groups: list[SessionResultGroup] = []
    for line in lines:
        passages: dict[int, SearchHit] = {}
        words_of_hits: dict[int, SearchQuery] = {}
        for word, hits in hits_of_words:
            of_word = [hit for hit in hits.get(line.pk, []) if hit.kind != Kind.SESSION][:_SHOWN_OF_A_WORD]
            passages |= {hit.passage: hit for hit in of_word}
            words_of_hits |= {hit.passage: word for hit in of_word}
        groups.append(SessionResultGroup(line, tuple(passages.values()), False, query.words, words_of_hits))
    return groups


def _load_secrets_of_sessions(
    pks: Iterable[int], found: SearchPage, apart: WordMatches | None
) -> dict[int, frozenset[str]]:
    """Collect the secrets of the sessions, and load those of one that is found by its id alone."""
    missing = set(pks).difference(passage.session_id for passage in found.passages)
    secrets = {**found.secrets, **mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(missing)}
    for _word, page in apart.pages if apart else ():
        secrets |= page.secrets
    return secrets


def _is_first_page_of_all_sessions(request: HttpRequest, cursor: SearchCursor | OrderedSearchCursor | None) -> bool:
    return cursor is None and not any(request.GET.get(name) for name in ("within", "rows"))


def _build_suggestion_url(request: HttpRequest, near: SearchQuery) -> str:
    """Return the URL of this search with a query that finds something; `instead` is the one that finds nothing."""
    parameters = request.GET.copy()
    parameters["instead"], parameters["q"] = request.GET.get("q", ""), str(near)
    return f"{request.path}?{parameters.urlencode()}"


def _build_result_group(
    row: SessionLine | UnreadableRecord,
    hits: list[SearchHit],
    limit: int | None,
    query: SearchQuery,
    found: SearchPage,
    telling: Container[int],
) -> SessionResultGroup:
    """Build the results of a session: all, newest first, or the best up to `limit`.

    Those that match only inside of ids are left out of the best, if there are others.
    """
    head = (row.name, row.session_id, row.agent) if isinstance(row, SessionLine) else ()
    marked_words = query.words if query.matches_text("\n".join(head)) else ()
    passages = [hit for hit in hits if hit.kind != Kind.SESSION and not _repeats_title(hit, head[0] if head else "")]
    passages.sort(key=lambda hit: (not hit.is_copied, hit.at.timestamp() if hit.at else 0), reverse=True)
    if limit is None:
        return SessionResultGroup(row, tuple(passages), has_more=False, marked_words=marked_words)
    best = [hit for hit in passages if hit.passage in telling] or ([] if marked_words else passages)
    best = sorted(best, key=lambda hit: -_count_query_words_in_excerpt(hit, query))[:limit]
    has_more = len(passages) > len(best) or row.pk in found.cut_sessions
    return SessionResultGroup(row, tuple(best), has_more=has_more, marked_words=marked_words)


def _sort_title_matches_first(
    groups: list[SessionResultGroup],
    hits: Mapping[int, list[SearchHit]],
    rows: Iterable[SessionRow | UnreadableRecord],
    query: SearchQuery,
    telling: Container[int],
) -> list[SessionResultGroup]:
    """Sort the sessions of a page: those with the words in their id or title come first, then the newest matches.

    Sessions without times follow, because it is not known when something was said in them, and last come those that
    match only inside of hashes, ids and other words.
    """
    without_times = {row.pk for row in rows if isinstance(row, SessionRow) and not row.has_times}

    def get_sort_position(group: SessionResultGroup) -> int:
        row = group.row
        if isinstance(row, SessionLine) and do_terms_occur_outside_of_ids(
            query, f"{row.name}\n{strip_tags(row.session_id)}"
        ):
            return 0
        if not any(hit.passage in telling for hit in hits.get(row.pk, ())):
            return 3
        return 2 if row.pk in without_times else 1

    return sorted(groups, key=get_sort_position)


def _repeats_title(hit: SearchHit, title: str) -> bool:
    """Return whether a hit is a message that says no more than the title, such as the prompt it was made of."""
    return hit.kind == Kind.MESSAGE and " ".join(_get_plain_excerpt_text(hit).split()) == " ".join(title.split())


def _count_query_words_in_excerpt(hit: SearchHit, query: SearchQuery) -> int:
    """Count the words of a query that are whole words of a hit: it rates the hit."""
    excerpt = _get_plain_excerpt_text(hit)
    return sum(bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", excerpt, re.IGNORECASE)) for word in query.words)


def _get_plain_excerpt_text(hit: SearchHit) -> str:
    return "".join(part.text for part in hit.stretches)
