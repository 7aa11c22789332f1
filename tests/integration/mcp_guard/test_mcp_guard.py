"""`harness mcp-guard` before a real MCP server: logging, replays, decisions and crashes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.exceptions import StorageBusy, StorageError, StorageUnavailable
from checkpoints.models import ToolCall, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.api.reattach_run_of_request import get_or_reattach_owned_session_at_newest_version
from harness_site.mcp_guard.command import parse_guard_options
from harness_site.mcp_guard.log_guarded_calls_in_session import GuardedSession
from harness_site.mcp_guard.proxy import CALL_ID_META, GuardProxy
from harness_site.mcp_guard.tool_policies import UNKNOWN_TOOL, ToolPolicy, parse_policies
from tests.support.api_client import make_token
from tests.support.async_database import run_in_thread
from tests.support.http_server import HttpServer
from tests.support.processes import ROOT, database_url, wait_until

SERVER = Path(__file__).with_name("mail_server.py")
POLICIES = parse_policies(["get_*: read", "pay: mutate + approval"])


@dataclass
class GuardedClient:
    """Client of a proxy in this process."""

    proxy: GuardProxy
    to_proxy: Any
    from_proxy: Any
    _last_id: int = 0

    async def send(self, method: str, **params: Any) -> int:
        self._last_id += 1
        message = types.JSONRPCRequest(jsonrpc="2.0", id=self._last_id, method=method, params=params)
        await self.to_proxy.send(SessionMessage(message))
        return self._last_id

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a request, and return the reply as the client gets it: its result, or its error code."""
        request_id = await self.send(method, **params)
        with anyio.fail_after(30):
            reply = (await self.from_proxy.receive()).message
        assert reply.id == request_id
        return reply.error.code if isinstance(reply, types.JSONRPCError) else reply.result

    async def call(self, name: str, **options: Any) -> Any:
        """Call a tool; return the text of its result, an error as `error: …`, and what is no result as it is."""
        meta = {"_meta": {CALL_ID_META: options.pop("call_id")}} if "call_id" in options else {}
        result = await self.ask("tools/call", name=name, arguments={"to": options.pop("to", "b")}, **meta, **options)
        if not isinstance(result, dict) or "content" not in result:
            return result
        text = result["content"][0]["text"]
        return f"error: {text}" if result.get("isError") else text


@asynccontextmanager
async def guarded(effects: Path, wait_seconds: float = 0, **log: Any) -> AsyncIterator[GuardedClient]:
    """Guard the mail server. `log` are the address and the token of a site; without them the database has the log."""
    parameters = StdioServerParameters(command=sys.executable, args=["-S", str(SERVER), str(effects)])
    async with (
        Checkpointer(**log) as checkpointer,
        stdio_client(parameters) as server,
        anyio.create_task_group() as tasks,
    ):
        to_proxy, from_client = anyio.create_memory_object_stream[Any](0)
        to_client, from_proxy = anyio.create_memory_object_stream[Any](0)
        session = GuardedSession(checkpointer, "mail", "desk", "MCP server mail", wait_seconds)
        proxy = GuardProxy(session, POLICIES, from_client, to_client, *server)
        tasks.start_soon(proxy.forward_client_messages, tasks)
        tasks.start_soon(proxy.forward_server_messages)
        with to_proxy, from_client, to_client, from_proxy:
            yield GuardedClient(proxy, to_proxy, from_proxy)
            await proxy.wait_for_calls_then_end_them(0)
            await session.close()
            tasks.cancel_scope.cancel()


def list_effects(effects: Path) -> list[str]:
    return [line.split()[0] for line in effects.read_text().splitlines()]


def list_statuses(tool: str) -> list[tuple[str, int]]:
    return list(ToolCall.objects.filter(tool=tool).order_by("pk").values_list("status", "attempt"))


def decide(kind: str, *values: Any, actor: str = "alex") -> None:
    """Decide about the only pending call."""
    with SyncCheckpointer() as cp:
        (call,) = cp.pending_decisions()
        decision = getattr(cp, kind)
        decision(call["session_id"], call["call_id"], *values, actor=actor, reason="r", revision=call["revision"])


def test_calls_are_logged_before_they_are_forwarded(workspace: Workspace, effects: Path) -> None:
    async def talk() -> None:
        async with guarded(effects) as client:
            listed = await client.ask("tools/list")
            promising = [tool["name"] for tool in listed["tools"] if "outputSchema" in tool]
            assert promising == ["get_mail"]  # a person may answer the others with a text
            assert await client.call("get_mail") == "sent to b"
            assert [await client.call("send_mail") for _ in range(2)] == ["sent to b"] * 2
            given = [await client.call("send_mail", call_id="m-1") for _ in range(2)]
            assert given == ["sent to b"] * 2  # one operation
            assert [await client.call("fail") for _ in range(2)] == ["error: The mailbox is full."] * 2
            assert (await client.call("ask"))["resultType"] == "input_required"
            assert await client.call("ask", inputResponses={}) == "done"
            assert await client.call("nothing") == types.INVALID_PARAMS
            assert await client.call("send_mail", task={}) == types.INVALID_PARAMS
            assert await client.ask("tools/call", name=["send_mail"]) == types.INVALID_PARAMS

    asyncio.run(talk())
    assert list_effects(effects) == ["get_mail", *["send_mail"] * 3, "fail", "fail", "ask", "ask"]
    assert list_statuses("get_mail") == []
    assert list_statuses("send_mail") == [("completed", 1)] * 3
    assert list_statuses("fail") == [("failed", 1)] * 2
    # The answer before it is saved beside it, so that it is the second attempt of one step or the first of the next.
    assert [status for status, _ in list_statuses("ask")] == ["failed", "completed"]
    assert list_statuses("nothing") == [("failed", 1)]


def test_calls_wait_for_decisions(workspace: Workspace, effects: Path) -> None:
    async def talk() -> None:
        async with guarded(effects) as client:
            assert (await client.call("pay")).startswith("error: ApprovalRequired: In session 'mail' this waits")
            assert (await client.call("pay")).startswith("error: ApprovalRequired")
            await run_in_thread(lambda: decide("approve_call"))
            assert await client.call("pay") == "sent to b"
            assert (await client.call("pay")).startswith("error: ApprovalRequired")  # another payment
            await run_in_thread(lambda: decide("edit_call", {"to": "c"}))
            await run_in_thread(lambda: decide("approve_call", actor="kim"))
            assert await client.call("pay") == "sent to c"
            # An error of the server that does not say that nothing ran, and a call that the client gives up.
            assert (await client.call("unheard_of")).startswith(
                "error: ReviewRequired: In session 'mail' it is unknown"
            )
            await run_in_thread(lambda: decide("confirm_landed", "It was done."))
            assert await client.call("unheard_of") == "It was done."
            request_id = await client.send("tools/call", name="hang", arguments={})
            await run_in_thread(lambda: wait_until(lambda: "hang" in effects.read_text()))
            cancelled = types.JSONRPCNotification(
                jsonrpc="2.0", method="notifications/cancelled", params={"requestId": request_id}
            )
            await client.to_proxy.send(SessionMessage(cancelled))
        async with guarded(effects) as client:
            assert (await client.call("send_mail")).startswith("error: ReviewRequired")
            assert (await client.call("hang")).startswith("error: ReviewRequired")

    asyncio.run(talk())
    assert list_effects(effects) == ["pay", "pay", "hang"]
    assert list_statuses("pay") == [("completed", 1)] * 2
    assert list_statuses("hang") == [("interrupted", 1)]


@pytest.mark.parametrize("kind", [StorageUnavailable, StorageBusy])
def test_calls_wait_while_the_database_of_the_site_gives_no_answer(
    workspace: Workspace, effects: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, kind: type[StorageError]
) -> None:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    pauses, site = cast(list[float], []), HttpServer()
    failures = [kind("It restarts.", may_have_happened=False) for _ in range(2)]

    def hold_run_later(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return get_or_reattach_owned_session_at_newest_version(*arguments)

    token = make_token(TokenRole.AGENT)

    async def talk() -> None:
        async with guarded(effects, url=site.address, token=token) as client:
            assert await client.call("send_mail") == "sent to b"

    monkeypatch.setattr("harness_site.api.calls.get_or_reattach_owned_session_at_newest_version", hold_run_later)
    monkeypatch.setattr("checkpoints.remote.transport.time", SimpleNamespace(sleep=pauses.append))
    try:
        asyncio.run(talk())
    finally:
        site.stop()
    assert (pauses, list_effects(effects)) == ([1.0, 1.0], ["send_mail"])
    assert list_statuses("send_mail") == [("completed", 1)]


def test_killed_server_is_held_at_the_gate(workspace: Workspace, effects: Path, settings: Any, tmp_path: Path) -> None:
    """The command itself, with the client of the SDK: first on the database, then on the site."""
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    site = HttpServer()

    def start(**environment: str) -> StdioServerParameters:
        program = "from harness_site.command_line import main; main()"
        options = ["mcp-guard", "--wait", "0", "--policy", "get_*: read", "--", sys.executable, "-S", str(SERVER)]
        return StdioServerParameters(
            command=sys.executable,
            args=["-c", program, *options, str(effects)],
            env={"PYTHONPATH": str(ROOT), **environment},
            cwd=tmp_path,
        )

    async def talk() -> None:
        async with Client(start(HARNESS_DATABASE_URL=database_url()), mode="legacy") as client:
            running = asyncio.create_task(client.call_tool("hang", {}))
            await run_in_thread(lambda: wait_until(lambda: "hang" in effects.read_text()))
            await run_in_thread(kill_server)
            await expect_review(await running)
        token = await run_in_thread(lambda: make_token(TokenRole.AGENT))
        async with Client(start(HARNESS_URL=site.address, HARNESS_TOKEN=token), mode="legacy") as client:
            await expect_review(await client.call_tool("hang", {}))
            await run_in_thread(lambda: decide("confirm_landed", "It was done."))
            replayed = await client.call_tool("hang", {})
            assert (replayed.content[0].text, replayed.is_error) == ("It was done.", False)  # type: ignore[union-attr]

    def kill_server() -> None:
        os.kill(int(effects.read_text().split()[1]), signal.SIGKILL)

    async def expect_review(result: Any) -> None:
        assert result.is_error
        assert result.content[0].text.startswith("ReviewRequired: In session 'mcp-python")

    try:
        asyncio.run(talk())
    finally:
        site.stop()
    assert list_effects(effects) == ["hang"]
    assert list_statuses("hang") == [("completed", 1)]


@pytest.mark.parametrize(
    ("line", "tool", "policy"),
    [
        ("send_*: mutate + approval", "send_mail", ToolPolicy("mutate", requires_approval=True)),
        ("send_*: approval+once", "send_", ToolPolicy("mutate", requires_approval=True, idempotency="once")),
        ("get_*: read", "get_mail", ToolPolicy("read")),
        ("get_*: read", "GET_MAIL", UNKNOWN_TOOL),
        ("ns:tool: write", "ns:tool", ToolPolicy("write")),
        ("# send_*: read", "send_mail", UNKNOWN_TOOL),
    ],
)
def test_policy_of_a_tool(line: str, tool: str, policy: ToolPolicy) -> None:
    assert parse_policies([line, "", "*_never: read"]).get_policy_or_default(tool) == policy


@pytest.mark.parametrize(
    "line", ["send_*", "send_*:", ": read", "x: reads", "x: read + write", "x: read + approval", "x: once + call"]
)
def test_invalid_policy_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"not a policy|two|neither"):
        parse_policies([line])


def test_page_shows_a_configuration_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "mcp-guard.md").read_text()
    server = json.loads(page.partition("```json\n")[2].partition("```")[0])["mcpServers"]["mail"]
    monkeypatch.setenv("HARNESS_TOKEN", "token")
    for name, value in server["env"].items():
        monkeypatch.setenv(name, value)
    options = parse_guard_options(server["args"][1:])
    assert (options.command, options.address) == (["python", "mail_server.py"], "https://harness.example.org")
    assert options.session_id == "mail-of-the-refund-desk"
    assert options.policies.get_policy_or_default("send_mail").requires_approval
    listed = parse_policies(page.partition("```text\n")[2].partition("```")[0].splitlines())
    assert (listed.get_policy_or_default("pay").idempotency, listed.get_policy_or_default("get_mail").is_logged) == (
        "once",
        False,
    )
