"""The MCP server, asked by the client of the MCP SDK: over HTTP in both eras of the protocol, and over stdio."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from checkpoints import SyncCheckpointer, ToolRegistry, exceptions
from checkpoints.enums import AuditKind
from checkpoints.models import AuditEvent, ToolCall, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.mcp_server import stdio
from tests.support.api_client import make_token
from tests.support.factories import make_workspace
from tests.support.http_server import HttpServer
from tests.support.processes import ROOT

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    started = HttpServer()
    yield started
    started.stop()


@pytest.fixture
def tokens(workspace: Workspace, settings: Any) -> dict[str, str]:
    """A session with two pending calls, and a token of each kind."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    with SyncCheckpointer() as cp:
        cp.start_session("order/17", "Where is my refund?", agent="refund-desk")
        cp.append_checkpoint("order/17", [{"role": "user", "content": f"My key is {SECRET}\u202e"}], expected_version=0)
        registry = ToolRegistry(checkpointer=cp, session_id="order/17")
        registry.tool(name="pay", requires_approval=True)(_pay)
        for order in (17, 18):
            with pytest.raises(exceptions.ApprovalRequired):
                registry.dispatch("pay", {"order": order, "key": SECRET}, f"call_{order}")
    return {
        "auditor": make_token(TokenRole.AUDITOR, name="reader"),
        "approver": make_token(TokenRole.APPROVER, name="assistant"),
        "foreign": make_token(TokenRole.APPROVER, name="foreign", workspace=make_workspace(slug="elsewhere")),
    }


def _pay(order: int, key: str) -> str:
    return "paid"


@asynccontextmanager
async def connect(
    server: HttpServer, token: str, mode: str = "auto", transport: str = "http", ask_person: Any = None
) -> AsyncIterator[Client]:
    if transport == "memory":
        async with Client(
            stdio.build_mcp_server_for_api(server.address, token), mode=mode, elicitation_callback=ask_person
        ) as client:
            yield client
        return
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(
            streamable_http_client(f"{server.address}/mcp", http_client=http),
            mode=mode,
            elicitation_callback=ask_person,
        ) as client,
    ):
        yield client


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return its result; that of an error as `{"error": text}`."""
    result = await client.call_tool(name, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    if result.is_error:
        return {"error": text}
    assert json.loads(text) == result.structured_content
    return dict(result.structured_content)


async def decide_as_a_person_says(client: Client, call_id: str) -> None:
    """Read what waits, try each decision that does not count, and make one that does."""
    pending = await call(client, "list_pending")
    assert {waiting["call_id"] for waiting in pending["calls"]} >= {call_id}
    facts = await call(client, "read_call", session_id="order/17", call_id=call_id)
    assert (facts["status"], facts["tool_name"], SECRET in json.dumps(facts)) == ("awaiting_approval", "pay", False)
    decision = {
        "session_id": "order/17",
        "call_id": call_id,
        "kind": "approve",
        "revision": facts["revision"],
        "args_digest": facts["args_digest"],
        "reason": "The customer is right.",
    }

    wrong = await call(client, "decide", **{**decision, "args_digest": "0" * 64})
    assert "StaleRevision" in wrong["error"]
    assert f"at revision {facts['revision']}; the decision was made on other arguments" in wrong["error"]
    wrong = await call(client, "decide", **{**decision, "revision": 0})
    assert "StaleRevision" in wrong["error"]
    wrong = await call(client, "decide", **{**decision, "reason": ""})
    assert wrong["error"].startswith("InvalidFields: reason:")
    wrong = await call(client, "decide", **decision, colour="red")
    assert wrong["error"].startswith("InvalidFields: colour:")
    decided = await call(client, "decide", **decision)
    assert decided["call"]["status"] == "approved"
    again = await call(client, "decide", **decision)
    assert "StaleRevision" in again["error"] or "AlreadyDecided" in again["error"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_assistant_reads_and_decides_over_http(server: HttpServer, tokens: dict[str, str], mode: str) -> None:
    async def talk() -> None:
        async with connect(server, tokens["approver"], mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert [name for name, tool in tools.items() if tool.annotations and tool.annotations.destructive_hint] == [
                "decide"
            ]
            sessions = await call(client, "list_sessions", agent="refund-desk")
            assert [session["session_id"] for session in sessions["sessions"]] == ["order/17"]
            read = await call(client, "read_session", session_id="order/17")
            (message,) = read["messages"]
            assert read["session"]["agent"] == "refund-desk"
            assert message["message"]["content"].startswith("My key is ")
            assert message["message"]["content"].endswith("‹U+202E›")
            assert SECRET not in json.dumps(read)
            preview = await call(client, "preview_resume", session_id="order/17")
            assert "call_17" in json.dumps(preview)
            await decide_as_a_person_says(client, "call_17")
        async with connect(server, tokens["auditor"], mode) as client:
            call_18 = await call(client, "read_call", session_id="order/17", call_id="call_18")
            refused = await call(
                client,
                "decide",
                session_id="order/17",
                call_id="call_18",
                kind="approve",
                revision=call_18["revision"],
                args_digest=call_18["args_digest"],
                reason="Fine.",
            )
            assert "RoleInsufficient" in refused["error"]
        async with connect(server, tokens["foreign"], mode) as client:
            assert (await call(client, "list_sessions"))["sessions"] == []
            for tool in ("read_session", "preview_resume"):
                assert "SessionNotFound" in (await call(client, tool, session_id="order/17"))["error"]

    asyncio.run(talk())
    assert dict(ToolCall.objects.values_list("call_id", "status")) == {
        "call_17": "approved",
        "call_18": "awaiting_approval",
    }
    viewed = AuditEvent.objects.filter(kind=AuditKind.VIEWED).values_list("actor", flat=True)
    assert set(viewed) == {"token assistant", "token reader"}


def pending_decision(facts: dict[str, Any]) -> dict[str, Any]:
    bound = {name: facts[name] for name in ("call_id", "revision", "args_digest")}
    return {"session_id": "order/17", "kind": "approve", **bound}


@pytest.mark.parametrize("answer", ["accept", "decline"])
@pytest.mark.parametrize(("transport", "mode"), [("http", "auto"), ("memory", "auto"), ("memory", "legacy")])
def test_person_is_asked_for_a_reason_that_is_left_out(
    server: HttpServer, tokens: dict[str, str], transport: str, mode: str, answer: Literal["accept", "decline"]
) -> None:
    questions: list[str] = []

    async def ask_person(context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return types.ElicitResult(action=answer, content={"reason": "The bank agrees."} if answer == "accept" else None)

    async def talk() -> None:
        async with connect(server, tokens["approver"], mode, transport, ask_person) as client:
            (decide,) = [tool for tool in (await client.list_tools()).tools if tool.name == "decide"]
            assert "reason" not in decide.input_schema["required"]
            facts = await call(client, "read_call", session_id="order/17", call_id="call_17")
            unknown = await call(client, "decide", **pending_decision(facts), colour="red")
            assert unknown["error"].startswith("InvalidFields:")
            assert questions == []
            decided = await call(client, "decide", **pending_decision(facts))
            assert decided.get("error", "").partition(":")[0] == ("ReasonRequired" if answer == "decline" else "")

    asyncio.run(talk())
    assert questions == ["Reason for the decision approve about the call call_17 of the session order/17"]
    stored = ToolCall.objects.get(call_id="call_17")
    expected = ("approved", ["The bank agrees."]) if answer == "accept" else ("awaiting_approval", [])
    assert (stored.status, list(stored.decisions.values_list("reason", flat=True))) == expected


@pytest.mark.parametrize(("mode", "can_ask"), [("auto", False), ("legacy", True)])
def test_reason_is_required_where_the_person_cannot_be_asked(
    server: HttpServer, tokens: dict[str, str], mode: str, can_ask: bool
) -> None:
    """The endpoint cannot send requests to clients of the older protocol."""

    async def ask_person(context: Any, params: Any) -> types.ElicitResult:
        raise AssertionError("There is no way to ask.")

    async def talk() -> None:
        async with connect(server, tokens["approver"], mode, ask_person=ask_person if can_ask else None) as client:
            (decide,) = [tool for tool in (await client.list_tools()).tools if tool.name == "decide"]
            assert "reason" in decide.input_schema["required"]
            facts = await call(client, "read_call", session_id="order/17", call_id="call_17")
            refused = await call(client, "decide", **pending_decision(facts))
            assert refused["error"].startswith("InvalidFields: reason:")

    asyncio.run(talk())
    assert ToolCall.objects.get(call_id="call_17").status == "awaiting_approval"


def test_endpoint_refuses_what_is_no_request_of_a_client(
    server: HttpServer, tokens: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with httpx2.Client(base_url=server.address) as http:
        for headers in ({}, {"Authorization": "Bearer nonsense"}):
            refused = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
            assert (refused.status_code, refused.json()["type"]) == (401, "TokenInvalid")
            assert refused.headers["www-authenticate"].startswith("Bearer")
        allowed = {"Authorization": f"Bearer {tokens['auditor']}", "Accept": "application/json, text/event-stream"}
        refused = http.get("/mcp", headers=allowed)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        for body in (b"{", b"[" * 100_000, b'{"jsonrpc":"2.0"}'):
            refused = http.post("/mcp", content=body, headers={**allowed, "Content-Type": "application/json"})
            assert refused.status_code == 400
        monkeypatch.setattr("harness_site.mcp_server.streamable_http_endpoint.IS_INSTALLED", False)
        refused = http.post("/mcp", json={}, headers=allowed)
        assert (refused.status_code, refused.json()["type"]) == (501, "ServerFailed")


def test_stdio_server_of_one_machine(server: HttpServer, tokens: dict[str, str]) -> None:
    program = "from harness_site.command_line import main; main(['mcp'])"
    environment = {"HARNESS_URL": server.address, "HARNESS_TOKEN": tokens["approver"], "PYTHONPATH": str(ROOT)}
    process = StdioServerParameters(command=sys.executable, args=["-c", program], env=environment)

    async def talk() -> None:
        async with Client(process) as client:
            await decide_as_a_person_says(client, "call_18")
            assert "InvalidInput" in (await call(client, "open_session"))["error"]

    asyncio.run(talk())
    assert ToolCall.objects.get(call_id="call_18").status == "approved"
    assert os.environ.get("HARNESS_TOKEN") is None
