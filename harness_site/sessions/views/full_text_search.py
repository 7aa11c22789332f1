"""Full-text search: hits grouped by session."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from checkpoints.sessions.session_list_filters import SessionFilter, Sort
from harness_site.accounts import session_secrets_from_call_arguments
from harness_site.accounts.permissions import MemberRequest
from harness_site.accounts.sessions_shown_in_response import mark_excerpts_shown_in_response
from harness_site.core.time_range_parameters import TimeRange
from harness_site.core.unreadable_rows import UnreadableRecord
from harness_site.search import passage_search, spelling_suggestions
from harness_site.search.index_status import load_index_status
from harness_site.search.list_unreadable_or_cut_texts import list_unreadable_or_cut_texts
from harness_site.search.load_search_hits import SearchHit, load_search_hits_by_session
from harness_site.search.models import Kind, Passage
from harness_site.search.passage_search import SearchPage
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions import session_row_display
from harness_site.sessions.selectors import session_list_pages, session_rows
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.session_list_filter_parameters import read_unmasked_text_parameter
from harness_site.sessions.session_lookup import parse_number_parameter_or_none
from harness_site.sessions.session_row_display import SessionLine

#: Hits displayed for each session before the link to all of them.
SHOWN = 3
#: Largest number of sessions that match the filters for a search to read only their texts.
_MAX_FILTERED_SESSIONS = 200
#: Pages of passages that one request reads at most until one has a session that matches the filters.
_MAX_PAGES = 8


@dataclass(frozen=True, slots=True)
class SessionResultGroup:
    """A session with its best passages. Its title, id and agent are marked in the head of the group."""

    row: SessionLine | UnreadableRecord
    passages: tuple[SearchHit, ...]
    more: int
    #: Whether the session has more passages than `more` says.
    has_uncounted: bool = False


def show_hits_or_redirect_to_correction(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter, context: dict[str, Any]
) -> HttpResponse:
    """Show search results.

    `before` is the cursor of the next page, `within` limits the search to one session, `hits` reloads the hits of an
    open page.
    """
    workspace = request.membership.workspace_id
    before, session_pk = (
        _parse_passage_key(request.GET.get("before", "")),
        parse_number_parameter_or_none(request, "within"),
    )
    exact_match = None
    if before is None:
        exact_match = session_rows.find_session_pk(workspace, request.GET.get("q", "").strip())
    results = _search_until_session_matches(request, query, wanted, before=before, within=session_pk, first=exact_match)
    found, by_session, rows = results.page, results.hits, results.rows
    if exact_match is None and _is_new_search_without_results(request, found, before):
        near = _suggest_query_if_nothing_matches(workspace, query, wanted)
        if near is not None:
            return redirect(_build_suggestion_url(request, near))
    pks = results.pks
    secrets = {**found.secrets, **_load_secrets_of_sessions_without_passages(pks, found)}
    lines = session_row_display.build_session_lines(rows, secrets, sort=Sort.UPDATED, since="", query=request.GET)
    limit = None if session_pk is not None else SHOWN
    groups = [_build_result_group(line, by_session.get(line.pk, []), limit, query, found) for line in lines]
    # Secrets of a session are needed only for hits in its texts; ids and titles are in every list anyway.
    excerpt_pks = (group.row.pk for group in groups if group.passages)
    mark_excerpts_shown_in_response(request, "search", excerpt_pks)
    context |= {
        "query": query,
        "groups": groups,
        "secrets": secrets,
        "number": sum(len(group.passages) + group.more for group in groups),
        "found": found,
        "standing": load_index_status(),
        "problems": list_unreadable_or_cut_texts(workspace),
        "within": session_pk,
        "before": before,
        "instead": read_unmasked_text_parameter(request.GET, "instead"),
        "hits": ",".join(
            str(passage.pk) for passage in _order_passages_like_sessions(found.passages, [row.pk for row in rows])
        ),
    }
    return render(request, "sessions/search_results.html", context)


@dataclass(frozen=True, slots=True)
class _MatchingSessions:
    """A page of passages, its hits by session, the keys of these sessions, and the rows of those that match the
    filters."""

    page: SearchPage
    hits: dict[int, list[SearchHit]]
    pks: tuple[int, ...]
    rows: tuple[SessionRow | UnreadableRecord, ...]


def _search_until_session_matches(
    request: MemberRequest,
    query: SearchQuery,
    wanted: SessionFilter,
    *,
    before: int | None,
    within: int | None,
    first: int | None,
) -> _MatchingSessions:
    """Search page by page until one has a session that matches the filters, up to a number of pages.

    The session with the key `first` comes before the others. A page that is open already is only read again.
    """
    workspace, is_reload = request.membership.workspace_id, bool(_parse_displayed_passage_keys(request))
    few = None if within is not None else _list_matching_sessions_if_few(workspace, wanted)
    pages_read = 0
    while True:
        found = _search_or_reload_passages(request, query, before, within, few)
        hits = load_search_hits_by_session(found.passages, query)
        if wanted.sort is not Sort.STARTED:
            hits = _filter_hits_by_time(TimeRange.parse_query(request.GET), hits)
        pks = tuple(hits)
        if first is not None and not pages_read:
            pks = (first, *(pk for pk in pks if pk != first))
        rows = session_rows.load_session_rows_with_keys(workspace, pks, wanted)
        before = found.before
        pages_read += 1
        if rows or before is None or is_reload or pages_read >= _MAX_PAGES:
            break
    if not is_reload:
        rows = _sort_by_activity_after_first(rows, first=first)
    return _MatchingSessions(found, hits, pks, rows)


def _list_matching_sessions_if_few(workspace: int, wanted: SessionFilter) -> tuple[int, ...] | None:
    """List the keys of the sessions that match the filters; None without filters, and for many sessions."""
    if not wanted:
        return None
    size = _MAX_FILTERED_SESSIONS + 1
    sessions = session_list_pages.load_partial_sessions_after_cursor(workspace, wanted, size)
    return tuple(session.pk for session in sessions) if len(sessions) < size else None


def _suggest_query_if_nothing_matches(workspace: int, query: SearchQuery, wanted: SessionFilter) -> SearchQuery | None:
    """Suggest a query of known words if not the filters, but the words are the reason that nothing was found."""
    if wanted and passage_search.search_passages(workspace, query).passages:
        return None
    return spelling_suggestions.suggest_corrected_query(workspace, query)


def _sort_by_activity_after_first(
    rows: Iterable[SessionRow | UnreadableRecord], *, first: int | None
) -> tuple[SessionRow | UnreadableRecord, ...]:
    """Sort sessions by their last activity, the newest first; before them the one with the key `first`."""

    def sort_key(row: SessionRow | UnreadableRecord) -> tuple[bool, float]:
        activity = row.updated_at.timestamp() if isinstance(row, SessionRow) else 0
        return row.pk != first, -activity

    return tuple(sorted(rows, key=sort_key))


def _order_passages_like_sessions(passages: Iterable[Passage], session_pks: Sequence[int]) -> list[Passage]:
    """Order passages as their sessions are, and those of sessions that are not among these last."""
    places = {pk: place for place, pk in enumerate(session_pks)}
    return sorted(passages, key=lambda passage: places.get(passage.session_id, len(places)))


def _load_secrets_of_sessions_without_passages(pks: Iterable[int], found: SearchPage) -> dict[int, frozenset[str]]:
    """Load the secrets of the session that is found by its id alone."""
    missing = set(pks).difference(passage.session_id for passage in found.passages)
    return session_secrets_from_call_arguments.load_known_secrets_of_sessions(missing)


def _filter_hits_by_time(times: TimeRange, by_session: dict[int, list[SearchHit]]) -> dict[int, list[SearchHit]]:
    """Return the hits of this time, and those without a time, such as titles.

    If the time filters by the start of a session, all hits of a matching session are returned.
    """
    if not times:
        return by_session
    hits_of_time = {
        pk: [hit for hit in hits if hit.at is None or times.contains_moment(hit.at)] for pk, hits in by_session.items()
    }
    return {pk: hits for pk, hits in hits_of_time.items() if hits}


def _search_or_reload_passages(
    request: MemberRequest,
    query: SearchQuery,
    before: int | None,
    session_pk: int | None,
    filtered_sessions: Collection[int] | None,
) -> SearchPage:
    workspace = request.membership.workspace_id
    if displayed_keys := _parse_displayed_passage_keys(request):
        page = passage_search.reload_search_page(workspace, query, displayed_keys)
        return replace(page, before=_parse_passage_key(request.GET.get("then", "")))
    return passage_search.search_passages(
        workspace, query, before=before, session=session_pk, sessions=filtered_sessions
    )


def _parse_displayed_passage_keys(request: HttpRequest) -> tuple[int, ...]:
    keys = map(_parse_passage_key, request.GET.get("hits", "").split(",")[: passage_search.PAGE])
    return tuple(key for key in keys if key is not None)


def _parse_passage_key(text: str) -> int | None:
    """Parse the key of a passage; keys of older texts are negative."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _is_new_search_without_results(request: HttpRequest, found: SearchPage, before: int | None) -> bool:
    """Return whether a new search over all sessions found nothing."""
    is_new = before is None and not any(request.GET.get(name) for name in ("within", "hits", "instead"))
    return is_new and not found.passages and not found.slow


def _build_suggestion_url(request: HttpRequest, near: SearchQuery) -> str:
    """Return the URL of this search with a query of known words; `instead` is the one that finds nothing."""
    parameters = request.GET.copy()
    parameters["instead"], parameters["q"] = request.GET.get("q", ""), str(near)
    return f"{request.path}?{parameters.urlencode()}"


def _build_result_group(
    row: SessionLine | UnreadableRecord,
    hits: list[SearchHit],
    limit: int | None,
    query: SearchQuery,
    found: SearchPage,
) -> SessionResultGroup:
    """Build the results of a session: all in their order, or the best up to `limit`."""
    title = row.name if isinstance(row, SessionLine) else ""
    passages = [hit for hit in hits if hit.kind != Kind.SESSION and not _repeats_title(hit, title)]
    if limit is None:
        return SessionResultGroup(row, tuple(passages), 0)
    best = sorted(passages, key=lambda hit: -_count_query_words_in_excerpt(hit, query))[:limit]
    return SessionResultGroup(row, tuple(best), max(0, len(passages) - limit), row.pk in found.cut_sessions)


def _repeats_title(hit: SearchHit, title: str) -> bool:
    """Return whether a hit is a message that says no more than the title, such as the prompt it was made of."""
    return hit.kind == Kind.MESSAGE and " ".join(_join_excerpt(hit).split()) == " ".join(title.split())


def _count_query_words_in_excerpt(hit: SearchHit, query: SearchQuery) -> int:
    """Count the words of a query that are whole words of a hit: it rates the hit."""
    excerpt = _join_excerpt(hit)
    return sum(bool(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", excerpt, re.IGNORECASE)) for word in query.words)


def _join_excerpt(hit: SearchHit) -> str:
    return "".join(part.text for part in hit.stretches)
