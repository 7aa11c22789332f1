"""`python -m examples.demo --decide` plays the story without a person, for each decision, on the current database."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db.models import QuerySet

from checkpoints import SyncCheckpointer
from checkpoints.enums import RunStatus
from checkpoints.models import Run
from examples.demo.demo_processes import describe_port_problem
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


@pytest.mark.parametrize(("decision", "refunds"), [("landed", 1), ("failed", 1), ("rerun", 2)])
def test_ledger_and_session_agree(cp: SyncCheckpointer, tmp_path: Path, decision: str, refunds: int) -> None:
    with _demo(f"--decide={decision}", f"--state={tmp_path}") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert "killed by SIGKILL inside refund_card" in said
    assert "killed by SIGKILL inside send_email" in said
    assert said.endswith("Ledger and session agree.\n")
    assert len((tmp_path / "17" / "ledger.jsonl").read_text().splitlines()) == refunds
    assert cp.resume("order-17").finished


def test_next_demo_uses_the_next_order_number(cp: SyncCheckpointer, tmp_path: Path) -> None:
    cp.start_session("order-17")
    (tmp_path / "18").mkdir()
    with _demo("--decide=landed", f"--state={tmp_path}") as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert cp.resume("order-19").finished


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, RunStatus.WAITING),  # at the gate
        (signal.SIGINT, RunStatus.RUNNING),
    ],
)
def test_interrupted_demo_leaves_no_process(
    cp: SyncCheckpointer, tmp_path: Path, number: signal.Signals, moment: RunStatus
) -> None:
    """After a stop, demo, agent and site have ended, and no run owns the session."""
    port = free_port()
    with _demo(f"--state={tmp_path}", port=port) as demo:
        while not (run := Run.objects.filter(status=moment).first()):
            assert demo.poll() is None
            time.sleep(0.1)
        demo.send_signal(number)
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert describe_port_problem(port) == ""
    with pytest.raises(ProcessLookupError):
        os.kill(run.pid, 0)
    run.refresh_from_db()
    assert run.status == RunStatus.RELEASED


def test_interrupted_demo_continues(cp: SyncCheckpointer, tmp_path: Path) -> None:
    cp.start_session("order-17", agent="refund-desk")
    cp.close()
    (tmp_path / "17").mkdir()
    with _demo(f"--state={tmp_path}", port=free_port()) as demo:
        while not {"order-17", "order-18"} <= {run.session.session_id for run in _driven()}:
            assert demo.poll() is None
            time.sleep(0.1)
        demo.terminate()
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert "order-17 was left unfinished by an earlier demo" in said


def _driven() -> QuerySet[Run]:
    return Run.objects.filter(status=RunStatus.RUNNING).select_related("session")


def test_used_port_is_named(cp: SyncCheckpointer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = _refused(tmp_path, port)
    assert said == f"CommandError: Port {port} cannot be used: address already in use. {ANOTHER}\n"


def test_invalid_port_is_named(cp: SyncCheckpointer, tmp_path: Path) -> None:
    said = _refused(tmp_path, 65536)
    assert said == f"CommandError: Port 65536 cannot be used: it is not between 1 and 65535. {ANOTHER}\n"


def _refused(state: Path, port: int) -> str:
    with _demo(f"--state={state}", port=port) as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 1
    assert list(state.iterdir()) == []
    return said
