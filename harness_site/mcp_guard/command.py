"""`harness mcp-guard`: arguments, and the two connections of the proxy."""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskGroup
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.stdio import stdio_server

from checkpoints import Checkpointer
from checkpoints.exceptions import CheckpointsError
from harness_site.mcp_guard.interruptible_standard_input import StandardInput
from harness_site.mcp_guard.log_guarded_calls_in_session import GuardedSession
from harness_site.mcp_guard.proxy import GuardProxy
from harness_site.mcp_guard.tool_policies import ToolPolicies, parse_policies
from harness_site.mcp_server.stdio import read_token_or_empty_from_environment

#: Seconds that running calls have after the client has left.
LEAVE_SECONDS: Final = 5.0
#: Start of the names of environment variables that the guarded server does not get.
_PRIVATE: Final = "HARNESS_"


@dataclass(frozen=True)
class GuardOptions:
    """Options of a guard. `address` is that of a site or of a database, `token` that of a site."""

    command: list[str]
    policies: ToolPolicies
    address: str
    token: str | None
    workspace: str
    session_id: str
    agent: str
    wait_seconds: float


def run_guard_and_exit(arguments: list[str]) -> None:
    """Run an MCP server behind a guard, over stdin and stdout, until the client closes them or the server ends.

    Args:
        arguments: Arguments of `harness mcp-guard`.

    Raises:
        SystemExit: An argument cannot be used, the log cannot be reached, or the server has ended.
    """
    options = parse_guard_options(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="harness mcp-guard: %(message)s")
    raise SystemExit(anyio.run(_serve_client, options))


def parse_guard_options(arguments: list[str]) -> GuardOptions:
    """Read the arguments of the command and the environment. Raises `SystemExit` for what cannot be used."""
    parser = _build_argument_parser()
    own, command = _split_options_and_command(arguments)
    options = parser.parse_args(own)
    if not command:
        parser.error("the command of the MCP server is missing: harness mcp-guard -- <command>")
    lines = Path(options.policies).read_text().splitlines() if options.policies else []
    try:
        policies = parse_policies([*options.policy, *lines])
    except ValueError as error:
        parser.error(str(error))
    token = read_token_or_empty_from_environment() if options.url else None
    address = options.url or os.environ.get("HARNESS_DATABASE_URL")
    if not address:
        parser.error("set HARNESS_URL and HARNESS_TOKEN, or HARNESS_DATABASE_URL: calls are logged there")
    if options.url and not token:
        parser.error("set HARNESS_TOKEN, or HARNESS_TOKEN_FILE, to a token of the role agent")
    session_id = options.session or _derive_stable_session_id(command)
    return GuardOptions(command, policies, address, token, options.workspace, session_id, options.agent, options.wait)


def _build_argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness mcp-guard",
        usage="harness mcp-guard [options] -- <command of the MCP server>",
        description="Runs an MCP server and logs the calls of its tools: a call whose outcome is unknown waits for a "
        "person and is not repeated. The log is the site at HARNESS_URL (HARNESS_TOKEN or HARNESS_TOKEN_FILE), or the "
        "database HARNESS_DATABASE_URL.",
    )
    parser.add_argument("--url", default=os.environ.get("HARNESS_URL"), help="address of the site (HARNESS_URL)")
    parser.add_argument("--workspace", default="default", help="workspace of the database (default: default)")
    parser.add_argument(
        "--session", default=os.environ.get("HARNESS_SESSION"), help="session of the calls (HARNESS_SESSION)"
    )
    parser.add_argument("--agent", default="mcp-guard", help="name of the agent in lists (default: mcp-guard)")
    parser.add_argument(
        "--policy", action="append", default=[], metavar="POLICY", help="such as 'send_*: mutate + approval'"
    )
    parser.add_argument("--policies", metavar="FILE", help="file with one policy in each line")
    parser.add_argument(
        "--wait", type=float, default=30.0, metavar="SECONDS", help="wait for a decision (default: 30 seconds)"
    )
    return parser


def _split_options_and_command(arguments: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in arguments:
        return arguments, []
    border = arguments.index("--")
    return arguments[:border], arguments[border + 1 :]


def _derive_stable_session_id(command: list[str]) -> str:
    """Make the identifier of the session of a command in this folder, the same after each start."""
    digest = hashlib.sha256(json.dumps([str(Path.cwd()), *command]).encode()).hexdigest()
    return f"mcp-{Path(command[0]).name[:100]}-{digest[:12]}"


async def _serve_client(options: GuardOptions) -> int:
    """Serve the client. Returns the exit status."""
    try:
        checkpointer = _open_checkpointer(options)
    except CheckpointsError as error:
        sys.stderr.write(f"harness mcp-guard: {error} {error.hint}\n")
        return 1
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}
    parameters = StdioServerParameters(command=options.command[0], args=options.command[1:], env=environment)
    title = f"MCP server {Path(options.command[0]).name}"
    session = GuardedSession(checkpointer, options.session_id, options.agent, title, options.wait_seconds)
    try:
        async with stdio_client(parameters) as server:
            return await _run_proxy(session, options.policies, server)
    except OSError as error:
        sys.stderr.write(f"harness mcp-guard: the server {options.command[0]!r} cannot be started: {error}\n")
        return 1
    finally:
        with anyio.CancelScope(shield=True):
            await session.close()
            await checkpointer.close()


def _open_checkpointer(options: GuardOptions) -> Checkpointer:
    if options.token:
        return Checkpointer(options.address, token=options.token)
    return Checkpointer(options.address, workspace=options.workspace)


async def _run_proxy(session: GuardedSession, policies: ToolPolicies, server: Any) -> int:
    has_server_ended = False
    has_ended = anyio.Event()
    lines = StandardInput()
    async with stdio_server(stdin=cast("Any", lines)) as (from_client, to_client):
        proxy = GuardProxy(session, policies, from_client, to_client, *server)

        async def forward_until_client_ends(tasks: TaskGroup) -> None:
            await proxy.forward_client_messages(tasks)
            has_ended.set()

        async def forward_until_server_ends() -> None:
            nonlocal has_server_ended
            await proxy.forward_server_messages()
            has_server_ended = True
            has_ended.set()

        async def set_ended_on_termination_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for _ in signals:
                    has_ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(forward_until_client_ends, tasks)
            tasks.start_soon(forward_until_server_ends)
            tasks.start_soon(set_ended_on_termination_signal)
            await has_ended.wait()
            await proxy.wait_for_calls_then_end_them(LEAVE_SECONDS)
            tasks.cancel_scope.cancel()
        lines.end_iteration()
        from_client.close()
        to_client.close()
    if has_server_ended:
        sys.stderr.write("harness mcp-guard: the server has ended.\n")
    return 1 if has_server_ended else 0
