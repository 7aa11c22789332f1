"""Requests with a token: what is left out for them, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.models import ToolCall
from harness_site.accounts.models import TokenRole
from tests.support.api_client import API, ApiClient, make_token
from tests.support.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)


def test_answer_of_a_token_has_the_headers_of_an_api() -> None:
    response = ApiClient(make_token(TokenRole.AGENT)).get("/sessions")
    assert response.status_code == 200
    assert response["Content-Length"] == str(len(response.content))
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Cache-Control"] == "private, no-store"
    assert "Vary" not in response


def test_cookie_of_a_page_is_not_read() -> None:
    client = Client(headers={"Authorization": f"Bearer {make_token(TokenRole.AGENT)}"})
    client.force_login(make_user())
    with CaptureQueriesContext(connection) as queries:
        response = client.get(f"{API}/sessions")
    assert response.status_code == 200
    assert not any("django_session" in query["sql"] for query in queries)


@pytest.mark.parametrize("host", ["elsewhere.example", "a b"])
def test_host_of_a_token_request_is_checked(host: str) -> None:
    client = Client(headers={"Authorization": f"Bearer {make_token(TokenRole.AGENT)}", "Host": host})
    assert client.get(f"{API}/sessions").status_code == 400


def test_page_needs_a_login_in_spite_of_a_token() -> None:
    client = Client(headers={"Authorization": f"Bearer {make_token(TokenRole.APPROVER)}"})
    assert client.get("/review/").status_code == 302
    assert client.get("/nowhere/").status_code == 404


@pytest.mark.parametrize("named", [{"step": 0, "attempt": 1}, {}])
def test_outcome_of_a_call(named: dict[str, Any]) -> None:
    """The call of a named attempt that this process issued is not read; any other one is, with the same outcome."""
    client = ApiClient(make_token(TokenRole.AGENT))
    fence = client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
    issued = client.post("/sessions/s/calls", {"fence": fence, "call_id": "c", "tool": "pay", "args": {}}).json()
    assert (issued["step"], issued["attempt"]) == (0, 1)
    outcome = {"fence": fence, "status": "completed", "result": "paid", **named}
    with CaptureQueriesContext(connection) as queries:
        assert client.send("PATCH", "/sessions/s/calls/c", json.dumps(outcome)).status_code == 200
    is_read = any(query["sql"].startswith("SELECT") and ToolCall._meta.db_table in query["sql"] for query in queries)
    assert is_read is not bool(named)
    assert ToolCall.objects.get().result == '"paid"'
    assert client.send("PATCH", "/sessions/s/calls/c", json.dumps(outcome)).status_code == 409
