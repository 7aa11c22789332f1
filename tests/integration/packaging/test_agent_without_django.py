"""An agent of a server in an environment that has the wheel and `httpx`, and no Django."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from checkpoints import SyncCheckpointer
from checkpoints.models import Session, ToolCall, Workspace
from harness_site.accounts.models import TokenRole
from tests.integration.packaging.clean_environment import (
    clean_environment,
    create_environment,
    list_installed,
    pip_install,
    run,
)
from tests.support.api_client import make_token
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.http_server import HttpServer

AGENT = Path(__file__).with_name("agent_of_a_server.py")
Stage = Callable[[str], Any]


@pytest.fixture
def server(workspace: Workspace) -> Iterator[HttpServer]:
    settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, "127.0.0.1"]
    started = HttpServer()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of programs of an environment, installed as docs/http-api.md says for agents without Django."""
    folder = tmp_path_factory.mktemp("agent")
    programs = create_environment(folder)
    pip_install(programs, "--no-deps", f"harness-checkpoints @ {wheel.as_uri()}", folder=folder)
    pip_install(programs, "httpx", folder=folder)
    return programs


@pytest.fixture
def stage(server: HttpServer, programs: Path, tmp_path: Path) -> Stage:
    """Run one stage of the agent in a process; return what it prints, or the signal that ended it."""
    environment = clean_environment(tmp_path) | {
        "ADDRESS": server.address,
        "AGENT": make_token(TokenRole.AGENT, name="agent"),
    }

    def run_stage(name: str) -> Any:
        done = subprocess.run(
            [programs / "python", "-W", "error", AGENT, name, tmp_path],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode < 0:
            return signal.Signals(-done.returncode).name
        assert (done.returncode, done.stderr) == (0, "")
        said = json.loads(done.stdout)
        assert (said["loaded"], said["django"]) == ([], False)
        return said["value"]

    return run_stage


def test_agent_is_killed_resumed_and_finished_without_django(
    stage: Stage, server: HttpServer, programs: Path, tmp_path: Path
) -> None:
    assert not {"asgiref", "django", "sqlparse"} & list_installed(programs, tmp_path)

    assert stage("reserve_and_die") == "SIGKILL"
    assert stage("refund_and_die") == "SIGKILL"
    assert stage("meet_the_gate") == "review_required"
    approver = make_token(TokenRole.APPROVER, name="alice")
    with SyncCheckpointer(server.address, token=approver) as people:
        (call,) = people.pending_decisions()
        decision = {"actor": "alice", "reason": "The bank shows it.", "revision": call["revision"]}
        people.confirm_landed("order-17", "call_2", "refunded", **decision)
        assert stage("ask_for_approval") == "approval_required"
        (call,) = people.pending_decisions()
        people.approve_call("order-17", "call_3", actor="alice", reason="It is polite.", revision=call["revision"])
    assert stage("finish") == ["told the customer of 17", "stamped", ["FILED", 1], 2]

    assert (tmp_path / "effects").read_text().splitlines() == ["reserve 17", "refund 17", "mail 17", "stamp 17"]
    assert Session.objects.get(session_id="order-17").status == "completed"
    calls = ToolCall.objects.filter(session__session_id="order-17").order_by("pk")
    assert [(call.tool, call.status, call.attempt) for call in calls] == [
        ("reserve", "completed", 1),
        ("refund", "completed", 1),
        ("send_mail", "completed", 1),
        ("stamp", "completed", 1),
        ("str.upper", "completed", 1),
    ]
    assert stage("wait_for_another_agent") == [{"left": 2}, {"asked": 3}]
    assert stage("open_a_database") == "django_missing"


@only_exhaustive
def test_types_of_a_client_are_known_without_django(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        "from checkpoints import SyncCheckpointer\n"
        "cp = SyncCheckpointer('https://harness.example.org', token='t')\n"
        "reveal_type(cp.start_session('order-17').number)\n"
        "reveal_type(cp.load('order-17', 1))\n"
        "cp.load('order-17', 'one')\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", programs / "python", "typed.py"],
        cwd=tmp_path,
        env=clean_environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert 'typed.py:5: error: Argument 2 to "load" of "SyncCheckpointer" has incompatible type "str"' in checked.stdout
    assert 'Revealed type is "int"' in checked.stdout
    assert 'Revealed type is "dict[str, Any]"' in checked.stdout
    assert run(programs / "python", "-c", "import checkpoints.sync_client", cwd=tmp_path) == ""
