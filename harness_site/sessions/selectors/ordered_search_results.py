"""Search results by how well sessions match, or in an order of the session list.

The order of the newest match is the only one that an index of texts has. For another one, the sessions of a few
thousand matches are put into it; if there are more, the sessions are read in the order until enough of them match.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from django.db import OperationalError, connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, select_sessions_by_filter
from harness_site.core.masking.masker import mask_text
from harness_site.core.time_range_parameters import TimeRange
from harness_site.search import passage_search
from harness_site.search.models import Kind, Passage
from harness_site.search.passage_search import PAGE, OrderedSearchCursor, SearchPage
from harness_site.search.query_terms import SearchQuery
from harness_site.search.trigram_search_conditions import (
    filter_passages_by_query_with_index,
    filter_passages_by_query_without_index,
)
from harness_site.sessions.selectors import session_list_pages

#: Most matches whose sessions are read to put them into the order of a column.
_MAX_SORTED_MATCHES: Final = 5_000
#: Most matches, and most sessions, that are compared to find those that match best.
_MAX_RANKED_MATCHES: Final = 1_600
_MAX_RANKED_SESSIONS: Final = 200


@dataclass(frozen=True, slots=True)
class OrderedSearch:
    """A search of sessions in another order than that of the newest match.

    Attributes:
        workspace: Key of the workspace.
        query: Terms that one text has to contain.
        wanted: Filter of the sessions, with the order of a column.
        sessions: Keys of all sessions that match the filter, if they are few.
        times: Times of the passages.
        cursor: End of the page before.
    """

    workspace: int
    query: SearchQuery
    wanted: SessionFilter
    sessions: Collection[int] | None
    times: TimeRange
    cursor: OrderedSearchCursor | None


def search_sessions_in_order_of_column(search: OrderedSearch) -> SearchPage | None:
    """Search a page of sessions in the order of the filter; None if too many texts would have to be read."""
    sort, cursor = search.wanted.sort, search.cursor
    after = session_list_pages.parse_page_cursor(cursor.place, sort) if cursor else None
    try:
        with passage_search.limit_search_time_and_force_custom_plan():
            condition = _build_match_condition(search)
            if condition is None:
                return None
            matching = replace(search.wanted, among=(*search.wanted.among, condition), keys=None)
            found = session_list_pages.load_partial_sessions_after_cursor(
                search.workspace, matching, PAGE + 1, after=after
            )
    except OperationalError:
        return None
    last = session_list_pages.build_cursor_of_session_or_none(found[PAGE - 1], sort) if len(found) > PAGE else None
    page = passage_search.load_newest_passages_of_sessions(
        search.workspace, search.query, [session.pk for session in found[:PAGE]], times=search.times
    )
    return replace(page, next=_build_next_cursor_and_count_first_page(search, str(last or "")))


def search_best_matching_sessions(search: OrderedSearch) -> SearchPage | None:
    """Search a page of the sessions that match best; None if too many match to compare them.

    Sessions with all terms in their title, or with the query as their id, come first, then those with the most
    passages. What a fork has copied does not count.
    """
    cursor = search.cursor
    start = int(cursor.place) if cursor and cursor.place.isascii() and cursor.place.isdigit() else 0
    try:
        with passage_search.limit_search_time_and_force_custom_plan():
            ranked = _rank_sessions_if_few(search)
    except OperationalError:
        return None
    if ranked is None:
        return None
    page = passage_search.load_newest_passages_of_sessions(
        search.workspace, search.query, ranked[start : start + PAGE], times=search.times
    )
    place = str(start + PAGE) if len(ranked) > start + PAGE else ""
    return replace(page, next=_build_next_cursor_and_count_first_page(search, place))


def _build_next_cursor_and_count_first_page(search: OrderedSearch, place: str) -> OrderedSearchCursor | None:
    if not place:
        return None
    if search.cursor is not None:
        return OrderedSearchCursor(place, search.cursor.total)
    total = passage_search.count_visible_sessions_unless_index_is_large(
        search.workspace, search.query, search.wanted, search.sessions
    )
    return OrderedSearchCursor(place, total)


def _select_matches_if_findable_by_index(search: OrderedSearch) -> QuerySet[Passage] | None:
    """Select the passages that match, by the index; None if that cannot find any of the terms among many texts."""
    passages = Passage.objects.filter(workspace=search.workspace)
    if search.sessions is not None:
        passages = passages.filter(session__in=search.sessions)
    elif not search.query.has_term_findable_by_index and passage_search.load_sequential_read_limits().key is not None:
        return None
    return filter_passages_by_query_with_index(passages, search.query)


def _build_match_condition(search: OrderedSearch) -> Q | None:
    """Build the condition of the sessions with a match: among their keys if they are few, else by their texts."""
    matches = _select_matches_if_findable_by_index(search)
    if matches is None:
        return None
    keys = list(matches.values_list("session_id", flat=True)[: _MAX_SORTED_MATCHES + 1])
    if len(keys) <= _MAX_SORTED_MATCHES:
        return Q(pk__in=set(keys))
    if connection.vendor == "sqlite":  # has no limit of time, and its full-text table lists the matches at once
        return Q(pk__in=matches.values("session_id"))
    passages = Passage.objects.filter(workspace=search.workspace, session=OuterRef("pk"))
    return Q(Exists(filter_passages_by_query_without_index(passages, search.query)))


def _rank_sessions_if_few(search: OrderedSearch) -> list[int] | None:
    matches = _select_matches_if_findable_by_index(search)
    if matches is None:
        return None
    columns = matches.values_list("session_id", "pk", "kind", "source")
    passages = list(columns[: _MAX_RANKED_MATCHES + 1])
    if len(passages) > _MAX_RANKED_MATCHES:
        return None
    sessions = select_sessions_by_filter(search.workspace, search.wanted)
    rows = sessions.filter(pk__in={session for session, *_ in passages})
    names = {pk: (title, name) for pk, title, name in rows.values_list("pk", "title", "session_id")}
    if len(names) > _MAX_RANKED_SESSIONS:
        return None
    copied_calls = set(ToolCall.objects.filter(COPIED_CALLS, session__in=names).values_list("pk", flat=True))
    newest: defaultdict[int, int] = defaultdict(int)
    own_passages = Counter[int]()
    query = search.query
    for session, pk, kind, source in passages:
        newest[session] = max(newest[session], pk)
        own_passages[session] += kind != Kind.SESSION and not (kind == Kind.CALL and source in copied_calls)

    def get_rank_key(pk: int) -> tuple[bool, bool, int, int]:
        title, session_id = names[pk]
        return session_id == str(query), query.matches_text(mask_text(title)), own_passages[pk], newest[pk]

    return sorted(names, key=get_rank_key, reverse=True)
