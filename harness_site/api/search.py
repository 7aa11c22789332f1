"""Route of the search."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router

from checkpoints.enums import AuditKind
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Session
from harness_site.api import response_schemas, session_read_audit
from harness_site.api.json_responses import build_json_response
from harness_site.api.request_pipeline import READER, get_client_checkpointer
from harness_site.core.masking.masker import mask_json_value
from harness_site.search.passage_search import SearchCursor, search_sessions
from harness_site.search.query_terms import SearchQuery

router = Router(tags=["reading"])


@router.get("/search", auth=READER, response=response_schemas.PassagePage, summary="Search messages, calls and titles")
def search(request: HttpRequest, q: str, before: str | None = None) -> HttpResponse:
    query = SearchQuery.parse(q)
    if not query:
        raise InvalidInput("q has no word to search for.")
    cursor = None if before is None else SearchCursor.parse(before)
    if before is not None and cursor is None:
        raise InvalidInput("before is not the `next` of a page.")
    store = get_client_checkpointer(request).store
    page = search_sessions(store.workspace_id, query, cursor=cursor)
    sessions = Session.objects.in_bulk({passage.session_id for passage in page.passages})
    found = []
    for passage in page.passages:
        session = sessions.get(passage.session_id)
        if session is None:
            continue
        session_read_audit.record_session_read_unless_recent_or_agent(
            request, session, AuditKind.EXCERPTED, page="search"
        )
        found.append({"session_id": session.session_id, "title": session.title, "text": passage.text[:1000]})
    return build_json_response(
        {
            "passages": mask_json_value(found),
            "next": page.next and str(page.next),
            "partial": page.partly,
            "timed_out": page.slow,
        }
    )
