"""`harness mcp`: the MCP server of one machine, which an assistant starts and talks to over stdin and stdout."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from harness_site.mcp_server.api_requests import ApiRequests
from harness_site.mcp_server.server import build_mcp_server


def run_stdio_server(arguments: list[str]) -> None:
    """Serve MCP over stdin and stdout until the client closes them.

    Args:
        arguments: Arguments of `harness mcp`.

    Raises:
        SystemExit: There is no token, or an argument is unknown.
    """
    parser = argparse.ArgumentParser(
        prog="harness mcp",
        description="Serves MCP over stdin and stdout: an assistant reads sessions and decides about calls, through "
        "the HTTP API of the site. The token is read from HARNESS_TOKEN, or from the file HARNESS_TOKEN_FILE.",
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("HARNESS_URL") or "http://127.0.0.1:8000",
        help="address of the site (default: HARNESS_URL, or http://127.0.0.1:8000)",
    )
    url = parser.parse_args(arguments).url
    token = read_token_or_empty_from_environment()
    if not token:
        raise SystemExit(
            "harness mcp: set HARNESS_TOKEN, or HARNESS_TOKEN_FILE. `harness create_token assistant auditor` makes a "
            "token that reads; the role approver may also decide."
        )
    anyio.run(_serve_over_stdio, build_mcp_server_for_api(url, token))


def read_token_or_empty_from_environment() -> str:
    """Read the token from the environment, or from the file that it names."""
    file = os.environ.get("HARNESS_TOKEN_FILE")
    token = os.environ.get("HARNESS_TOKEN") or (Path(file).read_text() if file else "")
    return token.strip()


def build_mcp_server_for_api(url: str, token: str) -> Server[Any]:
    """Build the MCP server whose tools send their requests to the site at `url`."""

    @asynccontextmanager
    async def open_api_client() -> AsyncIterator[ApiRequests]:
        api = ApiRequests(url, {"Authorization": f"Bearer {token}"})
        try:
            yield api
        finally:
            await api.close()

    return build_mcp_server(open_api_client)


async def _serve_over_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
    sys.stdout.flush()
