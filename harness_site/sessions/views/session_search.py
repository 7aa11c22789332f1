"""Full-text search: hits grouped by session."""

from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from checkpoints.sessions.list_filters import SessionFilter, Sort
from harness_site.accounts import call_secrets
from harness_site.accounts.permissions import MemberRequest
from harness_site.accounts.read_records import note_excerpts_shown
from harness_site.core.date_parameters import DateRange
from harness_site.core.unreadable_rows import UnreadableRecord
from harness_site.search import search_query
from harness_site.search.index_problems import list_index_problems
from harness_site.search.index_status import load_index_status
from harness_site.search.models import Kind
from harness_site.search.query_terms import SearchQuery
from harness_site.search.result_excerpts import SearchHit, load_search_hits
from harness_site.search.search_query import SearchPage
from harness_site.sessions.selectors import session_rows
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.sessions.session_lookup import parse_number_parameter

#: Hits displayed for each session before the link to all of them.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class SessionResultGroup:
    row: SessionRow | UnreadableRecord
    places: tuple[SearchHit, ...]
    more: int


def show_search_results(
    request: MemberRequest, query: SearchQuery, wanted: SessionFilter, context: dict[str, Any]
) -> HttpResponse:
    """Show search results.

    `before` is the cursor of the next page, `within` limits the search to one session, `hits` reloads the hits of an
    open page.
    """
    workspace = request.membership.workspace_id
    before, session_pk = _parse_passage_key(request.GET.get("before", "")), parse_number_parameter(request, "within")
    found = _search_sessions(request, query, before, session_pk)
    by_session = load_search_hits(found.passages, query)
    if wanted.sort is not Sort.STARTED:
        by_session = _load_places_of_days(DateRange.of(request.GET), by_session)
    pks = tuple(by_session)
    if (
        before is None
        and (exact_match := session_rows.find_session_pk(workspace, request.GET.get("q", "").strip())) is not None
    ):
        pks = (exact_match, *(pk for pk in pks if pk != exact_match))
    rows = session_rows.load_sessions_by_pk(workspace, pks, wanted)
    limit = None if session_pk is not None else SHOWN
    groups = [_build_result_group(row, by_session.get(row.pk, []), limit) for row in rows]
    # Secrets of a session are needed only for hits in its texts; ids and titles are in every list anyway.
    excerpt_pks = (group.row.pk for group in groups if any(place.kind != Kind.SESSION for place in group.places))
    note_excerpts_shown(request, "search", excerpt_pks)
    context |= {
        "query": query,
        "groups": groups,
        "secrets": call_secrets.load_secrets_of_sessions([group.row.pk for group in groups]),
        "number": sum(len(group.places) + group.more for group in groups),
        "found": found,
        "standing": load_index_status(),
        "problems": list_index_problems(workspace),
        "within": session_pk,
        "before": before,
        "hits": ",".join(str(passage.pk) for passage in found.passages),
    }
    return render(request, "sessions/search_results.html", context)


def _load_places_of_days(days: DateRange, by_session: dict[int, list[SearchHit]]) -> dict[int, list[SearchHit]]:
    """Return the hits of these days, and those without a time, such as titles.

    If the days filter by the start of a session, all hits of a matching session are returned.
    """
    if not days:
        return by_session
    hits_of_days = {pk: [hit for hit in hits if hit.at is None or days.hold(hit.at)] for pk, hits in by_session.items()}
    return {pk: hits for pk, hits in hits_of_days.items() if hits}


def _search_sessions(
    request: MemberRequest, query: SearchQuery, before: int | None, session_pk: int | None
) -> SearchPage:
    workspace = request.membership.workspace_id
    if displayed_keys := _parse_displayed_sessions(request):
        page = search_query.reload_passages(workspace, query, displayed_keys)
        return replace(page, before=_parse_passage_key(request.GET.get("then", "")))
    return search_query.search_passages(workspace, query, before=before, session=session_pk)


def _parse_displayed_sessions(request: HttpRequest) -> tuple[int, ...]:
    keys = map(_parse_passage_key, request.GET.get("hits", "").split(",")[: search_query.PAGE])
    return tuple(key for key in keys if key is not None)


def _parse_passage_key(text: str) -> int | None:
    """Parse the key of a passage; keys of older texts are negative."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _build_result_group(
    row: SessionRow | UnreadableRecord, hits: list[SearchHit], limit: int | None
) -> SessionResultGroup:
    return SessionResultGroup(row, tuple(hits[:limit]), 0 if limit is None else max(0, len(hits) - limit))
