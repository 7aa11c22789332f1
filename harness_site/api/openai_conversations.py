"""Conversations of OpenAI's API, stored as sessions: unmodified clients use them through their `base_url`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import InvalidFields, NotFound, SessionNotFound, VersionConflict
from checkpoints.formats import parse_message_parts
from checkpoints.models import Session
from checkpoints.sessions import append_without_lease
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK, OPENAI_AGENTS_SDK, NewSessionFields
from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import VersionChange
from harness_site.api import session_read_audit
from harness_site.api.idempotent_writes import mark_response_as_storable
from harness_site.api.json_request_bodies import parse_json_body
from harness_site.api.json_responses import JSON, build_json_response
from harness_site.api.problem_details import convert_error_to_problem_response
from harness_site.api.request_pipeline import (
    AGENT,
    READER,
    RouteOperation,
    get_client_checkpointer,
    wrap_route_view,
)
from harness_site.core.masking.masker import mask_json_value

#: Largest number of items of one request, as in OpenAI's API.
MOST_ITEMS: Final = 20
#: Number of items of a page, where the client names none, and its largest number.
PAGE_ITEMS: Final = 100
#: Number of attempts to append while others append too.
_APPEND_ATTEMPTS: Final = 10
_LIST_PARAMETERS: Final = frozenset({"limit", "order", "after", "include"})
#: Beginnings of the identifiers of items, by their type.
_PREFIXES: Final = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}

Item = dict[str, Any]


class ItemNotFound(NotFound):
    """The conversation has no item with this identifier."""

    code = "item_not_found"

    def __init__(self, session_id: str, item_id: str) -> None:
        self.session_id, self.item_id = session_id, item_id
        super().__init__(f"Conversation {session_id!r} has no item {item_id!r}.")


def _convert_error_to_openai_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Build the answer for an error as a client of OpenAI's API reads it."""
    problem = convert_error_to_problem_response(request, error)
    facts = json.loads(problem.content)
    message = f"{facts['detail']} {facts['hint']}".strip()
    body = {"error": {"message": message, "type": facts["type"], "code": facts["type"], "param": None}}
    problem.content = json.dumps(body).encode()
    problem["Content-Type"] = JSON
    return problem


def _build_view_of_methods(**views: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Build the view of an address from the views of its methods."""

    def call_view_of_method(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        view = views.get(request.method or "")
        if view is None:
            return HttpResponseNotAllowed(list(views))
        return view(request, *args, **kwargs)

    def find_operation(method: str) -> RouteOperation | None:
        if method not in views:
            return None
        return RouteOperation(_LIST_PARAMETERS if method == "GET" else frozenset())

    return wrap_route_view(call_view_of_method, find_operation, _convert_error_to_openai_response)


def create_conversation(request: HttpRequest) -> HttpResponse:
    """Create a session. Its agent and its title are those of the metadata, or the token's name."""
    AGENT(request)
    body = _parse_body_rejecting_unknown_fields(request, "items", "metadata")
    items = _parse_items_and_complete_fields(body.get("items") or [])
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidFields({"metadata": "It is not an object of texts."})
    session_id = f"conv_{secrets.token_hex(20)}"
    agent = metadata.get("agent") or request.token.name  # type: ignore[attr-defined]
    title = metadata.get("title") or _derive_title_from_items(items)
    described = {**metadata, FRAMEWORK_MARK: OPENAI_AGENTS_SDK}
    handle = get_client_checkpointer(request).session(session_id, agent=agent, title=title, metadata=described)
    with handle as session:
        if items:
            session.append(items)
    return mark_response_as_storable(
        build_json_response(_encode_conversation(_get_open_conversation(request, session_id)))
    )


def read_conversation(request: HttpRequest, session_id: str) -> HttpResponse:
    """Describe a conversation."""
    READER(request)
    return build_json_response(mask_json_value(_encode_conversation(_get_open_conversation(request, session_id))))


def end_conversation_session(request: HttpRequest, session_id: str) -> HttpResponse:
    """End the session. Its transcript stays, and is no conversation any more."""
    AGENT(request)
    _get_open_conversation(request, session_id)
    with get_client_checkpointer(request).session(session_id) as session:
        session.finish("completed")
    return mark_response_as_storable(
        build_json_response({"id": session_id, "object": "conversation.deleted", "deleted": True})
    )


def list_items(request: HttpRequest, session_id: str) -> HttpResponse:
    """List a page of items, newest first unless `order` is `asc`."""
    READER(request)
    session = _get_open_conversation(request, session_id)
    session_read_audit.record_session_read_unless_recent_or_agent(request, session)
    order, after = request.GET.get("order", "desc"), request.GET.get("after")
    limit = _parse_page_limit(request.GET.get("limit"))
    if order not in {"asc", "desc"}:
        raise InvalidFields({"order": "It is neither 'asc' nor 'desc'."})
    items = _load_masked_items(get_client_checkpointer(request), session_id)
    if order == "desc":
        items.reverse()
    first = 0 if after is None else _get_item_position(session_id, items, after) + 1
    page = items[first : first + limit]
    return build_json_response(_build_list_object(page, has_more=first + limit < len(items)))


def append_items(request: HttpRequest, session_id: str) -> HttpResponse:
    """Append items as one version that belongs to no run."""
    AGENT(request)
    items = _parse_items_and_complete_fields(_parse_body_rejecting_unknown_fields(request, "items").get("items"))
    session = _get_open_conversation(request, session_id)
    store = get_client_checkpointer(request).store
    reader = Store(workspace=store.workspace, remote_process=store.remote_process)  # it owns nothing
    for attempt in range(_APPEND_ATTEMPTS):
        try:
            append_without_lease.append_version_with_or_without_run(
                reader, session_id, items, VersionChange(), expected_version=session.latest_version
            )
            break
        except VersionConflict:
            if attempt == _APPEND_ATTEMPTS - 1:
                raise
            session = _get_open_conversation(request, session_id)
    if not session.title:  # it was created without a first message
        Session.objects.filter(pk=session.pk, title="").update(title=_derive_title_from_items(items))
    return build_json_response(_build_list_object(items, has_more=False))


def read_item(request: HttpRequest, session_id: str, item_id: str) -> HttpResponse:
    """Read one item; the newest one of several with the same identifier."""
    READER(request)
    session_read_audit.record_session_read_unless_recent_or_agent(request, _get_open_conversation(request, session_id))
    items = _load_masked_items(get_client_checkpointer(request), session_id)[::-1]
    return build_json_response(items[_get_item_position(session_id, items, item_id)])


def save_version_without_item(request: HttpRequest, session_id: str, item_id: str) -> HttpResponse:
    """Save a version without an item; earlier versions keep it."""
    AGENT(request)
    _get_open_conversation(request, session_id)
    with get_client_checkpointer(request).session(session_id) as session:
        transcript = [dict(message) for message in session.point.transcript]
        identified = _add_missing_item_ids(transcript)
        position = len(identified) - 1 - _get_item_position(session_id, identified[::-1], item_id)
        session.save(transcript[:position] + transcript[position + 1 :])
    return mark_response_as_storable(
        build_json_response(_encode_conversation(_get_open_conversation(request, session_id)))
    )


serve_conversations = _build_view_of_methods(POST=create_conversation)
serve_one_conversation = _build_view_of_methods(GET=read_conversation, DELETE=end_conversation_session)
serve_items = _build_view_of_methods(GET=list_items, POST=append_items)
serve_item = _build_view_of_methods(GET=read_item, DELETE=save_version_without_item)


def _get_open_conversation(request: HttpRequest, session_id: str) -> Session:
    """Return the session of a conversation. Raises `SessionNotFound`, also for one that has ended."""
    session = look_up_and_lock_rows.get_session(get_client_checkpointer(request).store, session_id)
    if session.finished:
        raise SessionNotFound(session_id)
    return session


def _encode_conversation(session: Session) -> dict[str, Any]:
    metadata = json.loads(session.metadata or "{}")
    return {
        "id": session.session_id,
        "object": "conversation",
        "created_at": int(session.created_at.timestamp()),
        "metadata": {name: value for name, value in metadata.items() if name != FRAMEWORK_MARK},
    }


def _parse_body_rejecting_unknown_fields(request: HttpRequest, *fields: str) -> dict[str, Any]:
    body = parse_json_body(request.content)  # type: ignore[attr-defined]
    if unknown := body.keys() - set(fields):
        raise InvalidFields(dict.fromkeys(sorted(unknown), "There is no such field."))
    return body


def _parse_page_limit(text: str | None) -> int:
    if text is None:
        return PAGE_ITEMS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:4]) <= PAGE_ITEMS:
        raise InvalidFields({"limit": f"It is no number from 1 to {PAGE_ITEMS}."})
    return int(text[:4])


def _parse_items_and_complete_fields(given: Any) -> list[Item]:
    """Read the items of a request, and give each an identifier. Raises `InvalidFields`."""
    if not isinstance(given, list) or len(given) > MOST_ITEMS:
        raise InvalidFields({"items": f"It is no list of at most {MOST_ITEMS} items."})
    for position, item in enumerate(given):
        if not isinstance(item, dict) or not isinstance(item.get("type", item.get("role")), str):
            raise InvalidFields({f"items.{position}": "It is no object with a type or a role."})
    return [_complete_item_fields(item) for item in given]


def _complete_item_fields(given: Item) -> Item:
    """Write an item in full: with its type, an identifier, and content as a list."""
    kind = given.get("type", "message")
    given_id = given.get("id")
    has_id = isinstance(given_id, str) and 0 < len(given_id) <= 255
    item = {
        **given,
        "type": kind,
        "id": given_id if has_id else f"{_PREFIXES.get(kind, 'item')}_{secrets.token_hex(20)}",
    }
    if kind == "message":
        item["status"] = given.get("status") or "completed"
        if isinstance(given.get("content"), str):
            is_output = given.get("role") == "assistant"
            text = {"type": "output_text", "annotations": []} if is_output else {"type": "input_text"}
            item["content"] = [{**text, "text": given["content"]}]
    return item


def _derive_title_from_items(items: list[Item]) -> str:
    """Find the first text of the user, as a title of one line."""
    text = parse_message_parts.find_first_user_text_or_empty(items)
    return NewSessionFields(text).build_columns()["title"] if text else ""


def _load_masked_items(checkpointer: SyncCheckpointer, session_id: str) -> list[Item]:
    newest = checkpointer.load_latest(session_id)
    items = [] if newest is None else _add_missing_item_ids(newest["transcript"])
    return [mask_json_value(item) for item in items]


def _add_missing_item_ids(messages: list[Any]) -> list[Item]:
    """Give an identifier, by its position, to each message that another way in has stored without one."""
    return [
        message
        if "id" in message and "type" in message
        else {**_complete_item_fields(message), "id": f"msg_at_{position}"}
        for position, message in enumerate(messages)
    ]


def _get_item_position(session_id: str, items: list[Item], item_id: str) -> int:
    position = next((position for position, item in enumerate(items) if item["id"] == item_id), None)
    if position is None:
        raise ItemNotFound(session_id, item_id)
    return position


def _build_list_object(items: list[Item], *, has_more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
