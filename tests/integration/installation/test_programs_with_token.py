"""Programs of the page Connect an agent that reach the site with a token."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkpoints.models import Session, ToolCall, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.installation import example_agent_sources
from tests.support.api_client import make_token
from tests.support.http_server import HttpServer
from tests.support.processes import ROOT


@pytest.mark.django_db(transaction=True)
def test_programs_of_mcp_and_opentelemetry_are_recorded(workspace: Workspace, settings: Any, tmp_path: Path) -> None:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    token = make_token(TokenRole.AGENT)
    command = tmp_path / "harness"
    command.write_text(f"#!{sys.executable}\nfrom harness_site.command_line import main; main()\n")
    command.chmod(0o700)
    (tmp_path / "first_agent.py").write_text(example_agent_sources.MCP)
    (tmp_path / "first_agent.sh").write_text(example_agent_sources.OPENTELEMETRY)
    site = HttpServer()
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HARNESS_URL": site.address,
        "HARNESS_TOKEN": token,
    }
    try:
        programs = [[sys.executable, "first_agent.py"]]
        if shutil.which("curl"):
            programs.append(["bash", "first_agent.sh"])
        printed = [
            subprocess.run(program, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
            for program in programs
        ]
    finally:
        site.stop()
    assert printed[0] == "The session is recorded. Open Sessions in the browser.\n"
    assert list(ToolCall.objects.values_list("session__session_id", "tool", "status")) == [
        ("first-mcp-session", "send_note", "completed")
    ]
    assert all(text == '{"partialSuccess":{}}' for text in printed[1:])
    assert Session.objects.filter(session_id="first-opentelemetry-session").count() == len(printed) - 1
