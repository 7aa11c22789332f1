"""The commands of docs/http-api.md, on a live server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoints.models import Session, ToolCall
from harness_site.accounts.models import TokenRole
from tests.support.api_client import make_token
from tests.support.http_server import HttpServer

PAGE = Path(__file__).parents[4] / "docs" / "http-api.md"


def run_commands(page: Path, environment: dict[str, str]) -> None:
    """Run the commands of a page. The comment after each is a part of its answer."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
        for command, expected in re.findall(r"(.*?)\n# ([^\n]*)\n", block, re.DOTALL):
            answer = subprocess.run(
                ["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=60
            )
            assert expected in answer.stdout, (command, answer.stdout, answer.stderr)


@pytest.mark.parametrize("name", ["openai-conversations.md", "opentelemetry.md"])
def test_commands_of_another_page(server: HttpServer, token: str, name: str) -> None:
    run_commands(PAGE.with_name(name), {**os.environ, "ADDRESS": server.address, "AGENT": token})


def test_commands_of_the_page_answer_what_it_says(server: HttpServer, token: str) -> None:
    approver = make_token(TokenRole.APPROVER, name="approver")
    environment = {**os.environ, "ADDRESS": server.address, "AGENT": token, "APPROVER": approver}
    run_commands(PAGE, environment)
    assert Session.objects.get(session_id="order-16").status == "completed"
    assert sorted(ToolCall.objects.values_list("tool", "status")) == [
        ("refund", "completed"),
        ("reserve", "completed"),
        ("send_mail", "completed"),
    ]


def test_agent_of_the_page_runs_without_settings(server: HttpServer, token: str, tmp_path: Path) -> None:
    (source,) = re.findall(r"```py\n# agent.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "agent.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO", "HARNESS"))}
    environment |= {"ADDRESS": server.address, "AGENT": token, "PYTHONPATH": str(PAGE.parents[1])}
    agent = subprocess.run(
        [sys.executable, "-W", "error", "agent.py"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (agent.stdout, agent.stderr) == ("refunded order 18\n", "")
    assert Session.objects.get().status == "completed"
