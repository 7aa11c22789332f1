"""Tokens that are unknown, revoked or expired open no route, whatever routes there are."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Session
from harness_site.accounts import api_tokens
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api.openapi_document import build_openapi_document
from harness_site.mcp_server.streamable_http_endpoint import McpEndpoint
from tests.support.api_client import API, BY, ApiClient, make_token
from tests.support.factories import make_workspace

pytestmark = pytest.mark.django_db(transaction=True)

#: Routes that the OpenAPI document does not describe.
OTHER_ROUTES = [
    ("POST", "/v1/conversations"),
    *((method, "/v1/conversations/s") for method in ("GET", "POST", "DELETE")),
    *((method, "/v1/conversations/s/items") for method in ("GET", "POST")),
    *((method, "/v1/conversations/s/items/m") for method in ("GET", "DELETE")),
    ("POST", "/v1/traces"),
]


def list_routes() -> list[tuple[str, str]]:
    """List every route with its parameters filled in."""
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda part: "1" if part[1] == "version" else "s", path))
        for path, operations in build_openapi_document(f"{API}/")["paths"].items()
        for method in operations
    ] + OTHER_ROUTES


@pytest.fixture
def dead_tokens() -> dict[str, str]:
    workspace = make_workspace()
    ApiClient(make_token(TokenRole.AGENT)).post("/sessions", {"session_id": "s"})
    secrets = {"unknown": "harness_unknown"}
    for name, role in (("revoked", TokenRole.APPROVER), ("expired", TokenRole.AGENT)):
        token, secrets[name] = api_tokens.create_token_with_secret(
            workspace, name=name, role=role, lifetime=timedelta(days=1), by=BY
        )
        if name == "revoked":
            api_tokens.revoke_token(token, by=BY)
        else:
            ApiToken.objects.filter(pk=token.pk).update(expires_at=token.created_at - timedelta(seconds=1))
    return secrets


def test_no_route_answers(dead_tokens: dict[str, str]) -> None:
    before = list(Session.objects.values())
    answered = []
    for method, path in list_routes():
        for name, secret in dead_tokens.items():
            headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": f"{method} {path}"}
            response = Client().generic(method, path, "{}", content_type="application/json", headers=headers)
            if response.status_code != 401 or b"TokenInvalid" not in response.content:
                answered.append((method, path, name, response.status_code))
    assert answered == []
    assert list(Session.objects.values()) == before


def test_mcp_does_not_answer(dead_tokens: dict[str, str]) -> None:
    async def fail(*message: Any) -> Any:
        raise AssertionError("The request came to the tools.")

    async def send(secret: str) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def keep(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"authorization", f"Bearer {secret}".encode())]
        await McpEndpoint(fail)({"type": "http", "path": "/mcp", "method": "POST", "headers": headers}, fail, keep)
        return sent

    for secret in dead_tokens.values():
        start, body = asyncio.run(send(secret))
        assert (start["status"], json.loads(body["body"])["type"]) == (401, "TokenInvalid")
