"""Heartbeats of agents: all that wait are answered together, and one statement renews their leases.

A lease must not run out because its server has much to do, so a heartbeat takes neither a thread nor a statement of its
own. A request that Django's middleware would refuse or redirect is left to it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, Final
from uuid import UUID

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest

from checkpoints.constants import LEASE_SECONDS
from checkpoints.exceptions import RateLimited
from checkpoints.server_or_database_url import API_PATH
from checkpoints.sessions.heartbeat import renew_leases_of_runs
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api import client_checkpointer_cache, in_process_rate_limit
from harness_site.api.in_process_rate_limit import Allowance
from harness_site.api.ninja_api import EscapedConverter
from harness_site.serving.asgi_types import Application, Receive, Scope, Send
from harness_site.serving.request_body_buffering_middleware import BODY

logger = logging.getLogger(__name__)

_PATH: Final = re.compile(rf"{API_PATH}/sessions/([^/]+)/heartbeat")
#: Headers with which a request is answered as any other.
_OTHER_HEADERS: Final = ("Idempotency-Key", "Content-Encoding")
_LEASE: Final = timedelta(seconds=LEASE_SECONDS)
_ANSWER: Final = b'{"alive":true}'
_HEADERS: Final = {
    "Content-Type": "application/json",
    "Content-Length": str(len(_ANSWER)),
    "Cache-Control": "private, no-store",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Heartbeat:
    """Heartbeat of one run, as it was received."""

    authorization: str
    client: str
    address: str
    session_id: str
    fence: int


class Heartbeats:
    """ASGI application that answers heartbeats; `application` answers those that renew nothing, with their errors."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="heartbeats")
        self._waiting: list[tuple[Heartbeat, asyncio.Future[Allowance | None]]] = []
        self._renewal: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        heartbeat = parse_plain_heartbeat_or_none(scope)
        allowance = None if heartbeat is None else await self._queue_and_await_renewal(heartbeat)
        if allowance is None:
            await self._application(scope, receive, send)
            return
        headers = [
            (name.lower().encode(), value.encode()) for name, value in {**_HEADERS, **allowance.get_headers()}.items()
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _ANSWER})

    async def _queue_and_await_renewal(self, heartbeat: Heartbeat) -> Allowance | None:
        answer: asyncio.Future[Allowance | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((heartbeat, answer))
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew_queued_heartbeats())
        return await answer

    async def _renew_queued_heartbeats(self) -> None:
        """Renew the leases of those that wait, and of those that arrive in the meantime, until none waits."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                allowances = await asyncio.get_running_loop().run_in_executor(
                    self._executor, renew_heartbeat_leases_and_charge_rate_limits, [heartbeat for heartbeat, _ in batch]
                )
                for (_, answer), allowance in zip(batch, allowances, strict=True):
                    if not answer.done():  # the client has left, and its request was cancelled
                        answer.set_result(allowance)
        finally:
            self._renewal = None


def parse_plain_heartbeat_or_none(scope: Scope) -> Heartbeat | None:
    """Read a plain heartbeat; None for a request with anything else in it, and one that the site does not accept."""
    path = _PATH.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
    body: IO[bytes] | None = scope.get(BODY)
    if scope["method"] != "POST" or path is None or scope["query_string"] or body is None:
        return None
    request = ASGIRequest(scope, body)
    if any(name in request.headers for name in _OTHER_HEADERS) or not _is_request_to_this_site(request):
        return None
    fence = _parse_fence_or_none(body.read())
    body.seek(0)
    if fence is None:
        return None
    return Heartbeat(
        request.headers.get("Authorization", ""),
        request.headers.get("Harness-Client", "")[:255],
        request.META.get("REMOTE_ADDR", ""),
        EscapedConverter().to_python(path[1]),
        fence,
    )


def _is_request_to_this_site(request: HttpRequest) -> bool:
    """Return True if the request names a host of this site, and came over HTTPS where that is required."""
    try:
        request.get_host()
    except DisallowedHost:
        return False
    return request.is_secure() or not settings.SECURE_SSL_REDIRECT


def _parse_fence_or_none(body: bytes) -> int | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    is_plain = isinstance(value, dict) and value.keys() == {"fence"} and type(value["fence"]) is int
    return int(value["fence"]) if is_plain else None


def renew_heartbeat_leases_and_charge_rate_limits(heartbeats: Sequence[Heartbeat]) -> list[Allowance | None]:
    """Renew the leases of those runs that this process holds. Returns None for the others."""
    close_old_connections()
    try:
        tokens = {heartbeat.authorization: heartbeat.address for heartbeat in heartbeats}
        found = {header: _find_valid_agent_token(header, address) for header, address in tokens.items()}
        runs = [_find_run_id_owned_by_client(found[heartbeat.authorization], heartbeat) for heartbeat in heartbeats]
        renewed = renew_leases_of_runs(
            "default", {run for run in runs if run is not None}, timedelta(seconds=LEASE_SECONDS)
        )
        return [
            _count_request_or_get_none_if_rate_limited(found[heartbeat.authorization])
            if run is not None and run in renewed
            else None
            for heartbeat, run in zip(heartbeats, runs, strict=True)
        ]
    except Exception as error:  # each is then answered by itself, with its own error
        logger.warning("Could not renew %d leases together: %s", len(heartbeats), error)
        return [None] * len(heartbeats)
    finally:
        close_old_connections()


def _find_valid_agent_token(header: str, address: str) -> ApiToken | None:
    try:
        token = api_tokens.authenticate_bearer_header_or_raise(header, find_address=lambda: address)
    except api_tokens.TokenRefused:
        return None
    return token if token.role == TokenRole.AGENT else None


def _find_run_id_owned_by_client(token: ApiToken | None, heartbeat: Heartbeat) -> UUID | None:
    if token is None:
        return None
    store = client_checkpointer_cache.get_or_create_checkpointer(token, heartbeat.client).store
    owned_session = store.find_owned_session(heartbeat.session_id)
    return None if owned_session is None or owned_session.fence != heartbeat.fence else owned_session.run_id


def _count_request_or_get_none_if_rate_limited(token: ApiToken | None) -> Allowance | None:
    if token is None:
        return None
    try:
        return in_process_rate_limit.count_request_or_raise_rate_limited(token.pk)
    except RateLimited:
        return None
