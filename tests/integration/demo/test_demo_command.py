"""`python -m examples.demo --decide` plays the story without a person, for each decision, on the current database."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.enums import RunStatus
from checkpoints.models import Run
from examples.demo.demo_processes import describe_port_problem_or_empty
from tests.support.exhaustive_mode import mark_all_but_each, only_exhaustive
from tests.support.processes import ROOT, database_url
from tests.support.site_process import free_port

ANOTHER = "Name another one: PORT=8765 make demo"


def _demo(*arguments: str, port: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", *arguments],
        cwd=ROOT,
        env={**os.environ, "HARNESS_DATABASE_URL": database_url(), "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(("decision", "refunds"), mark_all_but_each(2, [("failed", 1), ("rerun", 2)]))
def test_ledger_and_session_agree(cp: SyncCheckpointer, tmp_path: Path, decision: str, refunds: int) -> None:
    """The demo uses the next order number: 17 has a session already, and 18 a folder."""
    cp.start_session("order-17")
    (tmp_path / "18").mkdir()
    with _demo(f"--decide={decision}", f"--state={tmp_path}") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert "killed by SIGKILL inside refund_card" in said
    assert "killed by SIGKILL inside send_email" in said
    assert said.endswith("Ledger and session agree.\n")
    assert len((tmp_path / "19" / "ledger.jsonl").read_text().splitlines()) == refunds
    assert cp.resume("order-19").finished


@only_exhaustive
def test_demo_interrupted_at_the_gate_leaves_no_process(cp: SyncCheckpointer, tmp_path: Path) -> None:
    port = free_port()
    with _demo(f"--state={tmp_path}", port=port) as demo:
        while not (run := Run.objects.filter(status=RunStatus.WAITING).first()):
            assert demo.poll() is None
            time.sleep(0.1)
        demo.terminate()
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    _assert_that_nothing_is_left(port, [run])


def test_interrupted_demo_continues_and_leaves_no_process(cp: SyncCheckpointer, tmp_path: Path) -> None:
    cp.start_session("order-17", agent="refund-desk")
    cp.close()
    (tmp_path / "17").mkdir()
    port = free_port()
    with _demo(f"--state={tmp_path}", port=port) as demo:
        while len(runs := _list_driven()) < 2:
            assert demo.poll() is None
            time.sleep(0.1)
        demo.send_signal(signal.SIGINT)
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert "order-17 was left unfinished by an earlier demo" in said
    assert {run.session.session_id for run in runs} == {"order-17", "order-18"}
    _assert_that_nothing_is_left(port, runs)


def _list_driven() -> list[Run]:
    return list(Run.objects.filter(status=RunStatus.RUNNING).select_related("session"))


def _assert_that_nothing_is_left(port: int, runs: list[Run]) -> None:
    """Check that the site and the agents have ended, and that no run owns its session."""
    assert describe_port_problem_or_empty(port) == ""
    for run in runs:
        with pytest.raises(ProcessLookupError):
            os.kill(run.pid, 0)
        run.refresh_from_db()
        assert run.status == RunStatus.RELEASED


def test_used_port_is_named(cp: SyncCheckpointer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with _demo(f"--state={tmp_path}", port=port) as demo:
            said, _ = demo.communicate()
    assert demo.returncode == 1
    assert list(tmp_path.iterdir()) == []
    assert said == f"CommandError: Port {port} cannot be used: address already in use. {ANOTHER}\n"


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_invalid_port_has_a_problem(port: int) -> None:
    assert describe_port_problem_or_empty(port) == "it is not between 1 and 65535"
