"""ASGI middleware that serves MCP as streamable HTTP at `/mcp`.

Each request stands for itself: there are no MCP sessions, so every process of the site can answer it. The requests of
the tools stay inside this process; they pass the same token, masking, audit and rate limit as those of other clients.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any, Final

from channels.db import database_sync_to_async

from checkpoints.exceptions import CheckpointsError, RouteNotFound, ServerFailed, TokenInvalid
from harness_site.accounts import api_tokens
from harness_site.api.problem_details import build_problem_response
from harness_site.serving.asgi_types import Application, Receive, Scope, Send

PATH: Final = "/mcp"
#: Headers of the request that those of the tools have too.
_PASSED_HEADERS: Final = frozenset({"authorization", "host", "x-forwarded-for", "x-forwarded-proto"})
IS_INSTALLED: Final = find_spec("mcp") is not None and find_spec("httpx") is not None
_MISSING: Final = "The site has no MCP server: its packages are missing; pip install 'harness-checkpoints[mcp]'."


class McpEndpoint:
    """ASGI middleware that answers `/mcp`, and passes all other requests on.

    Args:
        application: Application that answers all other requests, among them those to the API.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", "")) if scope["type"] == "http" else ""
        if path.rstrip("/") != PATH:
            await self._application(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        authorization, (address, _) = headers.get("authorization", ""), scope.get("client") or ("", 0)
        try:
            await database_sync_to_async(api_tokens.authenticate_bearer_header_or_raise)(
                authorization, find_address=lambda: address
            )
        except api_tokens.TokenRefused:
            await _send_problem_response(TokenInvalid(), send)
            return
        if not IS_INSTALLED:
            await _send_problem_response(
                ServerFailed(_MISSING, may_have_happened=False), send, status=HTTPStatus.NOT_IMPLEMENTED
            )
            return
        if scope["method"] != "POST":
            await _send_problem_response(
                RouteNotFound(scope["method"], PATH), send, status=HTTPStatus.METHOD_NOT_ALLOWED
            )
            return
        await self._serve_mcp_request(headers, scope, receive, send)

    async def _serve_mcp_request(self, headers: dict[str, str], scope: Scope, receive: Receive, send: Send) -> None:
        import httpx
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from harness_site.mcp_server.api_requests import ApiRequests
        from harness_site.mcp_server.server import build_mcp_server

        root = scope.get("root_path", "")
        address = f"{scope['scheme']}://{headers.get('host', 'localhost')}{root}"
        passed = {name: value for name, value in headers.items() if name in _PASSED_HEADERS}

        @asynccontextmanager
        async def open_api_client() -> AsyncIterator[ApiRequests]:
            application: Any = self._application
            client = tuple(scope.get("client") or ("", 0))
            transport = httpx.ASGITransport(application, root_path=root, client=client)
            api = ApiRequests(address, passed, transport)
            try:
                yield api
            finally:
                await api.close()

        manager = StreamableHTTPSessionManager(build_mcp_server(open_api_client), stateless=True, json_response=True)
        send_message: Any = send
        async with manager.run():
            await manager.handle_request(scope, receive, send_message)


async def _send_problem_response(error: CheckpointsError, send: Send, *, status: int | None = None) -> None:
    response = build_problem_response(error, status)
    headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
