"""The TypeScript client: its own tests on a live server, and its types from the OpenAPI document."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints.enums import SessionStatus
from checkpoints.models import Session, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.installation import example_agent_sources
from tests.support.api_client import make_token
from tests.support.http_server import HttpServer
from tests.support.processes import ROOT
from tests.support.typescript_types import CLIENT, TYPES, generate_types

PAGE = ROOT / "docs" / "typescript.md"
pytestmark = pytest.mark.skipif(
    not (os.environ.get("CI") or (CLIENT / "node_modules" / ".bin" / "tsc").exists()),
    reason="`make typescript` has not run",
)


@pytest.fixture
def server(workspace: Workspace, settings: Any) -> Iterator[HttpServer]:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    started = HttpServer()
    yield started
    started.stop()


def run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=CLIENT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return done.stdout


def test_typescript_client_works_with_a_live_server(server: HttpServer, tmp_path: Path) -> None:
    run("node_modules/.bin/tsc", "--project", "tsconfig.json")
    tokens = {
        "AGENT": make_token(TokenRole.AGENT, name="agent"),
        "APPROVER": make_token(TokenRole.APPROVER, name="approver"),
    }
    output = run("node", "--test", "test/client.test.mjs", HARNESS_URL=server.address, **tokens)
    assert "# fail 0" in output
    assert "# skipped 0" in output

    (agent,) = re.findall(r"```js\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "agent.mjs").write_text(agent.replace('"harness-client"', json.dumps(f"{CLIENT}/dist/index.js")))
    environment = {"HARNESS_URL": server.address, "HARNESS_TOKEN": tokens["AGENT"]}
    assert run("node", str(tmp_path / "agent.mjs"), **environment) == "refunded order 21\n"

    # The program of the page Connect an agent; somebody who is unsure whether it worked runs it again.
    program = example_agent_sources.TYPESCRIPT.replace('"harness-client"', json.dumps(f"{CLIENT}/dist/index.js"))
    (tmp_path / "first_agent.mjs").write_text(program)
    for _ in range(2):
        printed = run("node", str(tmp_path / "first_agent.mjs"), **environment)
        assert printed == "The session is recorded. Open Sessions in the browser.\n"
    assert Session.objects.get(session_id="first-typescript-session").status == SessionStatus.COMPLETED


def test_types_match_the_openapi_document(tmp_path: Path) -> None:
    generated = tmp_path / "api.ts"
    generate_types(generated)
    assert TYPES.read_text() == generated.read_text(), "run `make typescript-types`"
