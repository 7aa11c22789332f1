"""Server-sent events on the event loop: an open stream occupies a thread only while it looks into the database."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from channels.db import database_sync_to_async

from checkpoints.db import clock
from checkpoints.exceptions import InvalidInput, RateLimited, TokenInvalid
from checkpoints.models import Session
from checkpoints.server_or_database_url import API_PATH
from harness_site.accounts import api_tokens, load_masking_rules
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api import in_process_rate_limit
from harness_site.api.json_responses import encode_json
from harness_site.api.problem_details import PROBLEM, build_problem_response
from harness_site.api.workspace_events import list_events_as_masked_json, load_last_event_number
from harness_site.core.masking import masker
from harness_site.live.changed_sessions import ChangeCursor
from harness_site.serving.asgi_types import Application, Receive, Scope, Send

LOOK_SECONDS: Final = 1.0
#: Numbers before the newest one in which an event may still become visible.
OVERLAP: Final = 200
#: Looks without an event after which a comment keeps the connection open.
_QUIET_LOOKS: Final = 15
#: Streams that one process serves at the same time.
MAX_STREAMS: Final = 200


class EventStreams:
    """ASGI middleware that streams `GET /api/v1/events` to clients that accept server-sent events."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if (
            scope["method"] != "GET"
            or not scope["path"].endswith(f"{API_PATH}/events")
            or "text/event-stream" not in headers.get(b"accept", "")
        ):
            await self._application(scope, receive, send)
            return
        authorization = headers.get(b"authorization", "")
        try:
            token = await database_sync_to_async(_authenticate_and_get_token)(authorization)
            if self._open >= MAX_STREAMS:
                raise RateLimited(30.0)
            in_process_rate_limit.count_request_or_raise_rate_limited(token.pk)
            after = _parse_last_event_id(headers.get(b"last-event-id", ""))
        except (TokenInvalid, RateLimited, InvalidInput) as error:
            await _send_problem_response(error, send)
            return
        self._open += 1
        try:
            await _stream_events(token, authorization, after, receive, send)
        finally:
            self._open -= 1


def _authenticate_and_get_token(authorization: str) -> ApiToken:
    try:
        return api_tokens.authenticate_bearer_header_or_raise(authorization)
    except api_tokens.TokenRefused:
        raise TokenInvalid from None


def _parse_last_event_id(text: str) -> int | None:
    """Return the number of the last event that a client has; None if it has none. Raises `InvalidInput`.

    A stream that began with the newest event instead would leave out events without a word.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidInput(f"Last-Event-ID is {text[:40]!r}; it is the number of an event, its id in the stream.")
    return int(text)


async def _send_problem_response(error: TokenInvalid | RateLimited | InvalidInput, send: Send) -> None:
    response = build_problem_response(error)
    headers = [(b"content-type", PROBLEM.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})


async def _stream_events(token: ApiToken, authorization: str, after: int | None, receive: Receive, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    disconnect_task = asyncio.ensure_future(_wait_for_disconnect(receive))
    reader = _EventReader(token, authorization, after)
    await send({"type": "http.response.start", "status": int(HTTPStatus.OK), "headers": headers})
    quiet = _QUIET_LOOKS  # the first look is answered at once, so that the client knows that it is connected
    try:
        while not disconnect_task.done():
            try:
                text = await database_sync_to_async(reader.poll_new_events_as_sse)()
            except TokenInvalid:
                return
            quiet = 0 if text else quiet + 1
            if text or quiet > _QUIET_LOOKS:
                quiet = 0
                await send({"type": "http.response.body", "body": (text or ": \n\n").encode(), "more_body": True})
            await asyncio.wait({disconnect_task}, timeout=LOOK_SECONDS)
    finally:
        disconnect_task.cancel()
        if not disconnect_task.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _EventReader:
    """Position of one stream."""

    def __init__(self, token: ApiToken, authorization: str, after: int | None) -> None:
        self._token, self._authorization, self._after = token, authorization, after
        self._changes: ChangeCursor | None = None
        #: Number after which the stream began, and those that were sent lately.
        self._first = -1
        self._told: set[int] = set()

    def poll_new_events_as_sse(self) -> str:
        """Return the events since the last look. Raises `TokenInvalid` once the token has ended."""
        _authenticate_and_get_token(self._authorization)
        workspace = self._token.workspace_id
        if self._after is None:
            self._after = load_last_event_number(workspace)
        if self._first < 0:
            self._first = self._after
        if self._changes is None:
            self._changes = _build_change_cursor_from_now()
        rules = load_masking_rules.load_workspace_masking_rules(self._token.workspace)
        with masker.use_masking_rules(None if self._token.role == TokenRole.AGENT else rules):
            # An event becomes visible at its commit, perhaps after one with a larger number.
            recent = list_events_as_masked_json(workspace, max(self._after - OVERLAP, self._first))
            events = [event for event in recent if event["id"] not in self._told]
            self._told = {event["id"] for event in recent}
            self._after = max([self._after, *self._told])
            return _format_server_sent_events(events) + _format_session_changes(
                _fetch_new_session_changes(self._changes, workspace)
            )


def _build_change_cursor_from_now() -> ChangeCursor:
    cursor = ChangeCursor(clock.now())
    cursor.fetch_new_changes()
    return cursor


def _fetch_new_session_changes(cursor: ChangeCursor, workspace: int) -> list[dict[str, Any]]:
    changes = {change.session: change for change in cursor.fetch_new_changes() if change.workspace == workspace}
    names = dict(Session.objects.filter(pk__in=changes).values_list("pk", "session_id"))
    return [
        {"event": "session.changed", "session_id": names[pk], "revision": change.revision, "at": change.at}
        for pk, change in changes.items()
        if pk in names
    ]


def _format_server_sent_events(events: Sequence[dict[str, Any]]) -> str:
    return "".join(f"id: {event['id']}\nevent: {event['event']}\ndata: {encode_json(event)}\n\n" for event in events)


def _format_session_changes(changes: Sequence[dict[str, Any]]) -> str:
    """Changes have no id: a stream that resumes reads the newest state of what it shows."""
    return "".join(f"event: session.changed\ndata: {encode_json(change)}\n\n" for change in changes)
