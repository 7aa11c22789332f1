"""The sweep thread of the web process."""

import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async
from django.db import OperationalError
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.models import Join as JoinRow
from checkpoints.models import PeerCall, Run, Workspace
from checkpoints.peers import sweep_lost_runs_and_deadlines as peers_sweep
from harness_site.asgi import application
from harness_site.live import lost_run_and_deadline_sweep_task
from tests.integration.checkpoints.peers.paused_agents import accepted, expire_deadlines, join, pause
from tests.support.processes import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_run_and_deadline_sweep_task, "SWEEP_SECONDS", 0.01)


async def served_until(condition: Callable[[], bool]) -> None:
    """Start the server, wait for `condition`, and stop it."""
    messages = iter(["lifespan.startup"])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        if (message := next(messages, None)) is not None:
            return {"type": message}
        deadline = time.monotonic() + PATIENCE
        while not await database_sync_to_async(condition)():
            assert time.monotonic() < deadline
        return {"type": "lifespan.shutdown"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    await application({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def situation(workspace: str) -> None:
    """Create a peer that does not answer and a lost run."""
    Workspace.objects.get_or_create(slug=workspace)
    cp = SyncCheckpointer(workspace=workspace)
    pause(cp, join("j", f"{workspace} c1"))
    expire_deadlines(f"{workspace} c1")
    cp.start_session("lost")
    Run.objects.filter(session__session_id="lost").update(lease_expires_at=F("started_at"), host_identity="")


def expired() -> list[str]:
    return list(PeerCall.objects.filter(status="expired").order_by("pk").values_list("call_id", flat=True))


async def test_silent_peers_and_lost_runs_are_swept_in_all_workspaces() -> None:
    for workspace in ("default", "other"):
        await database_sync_to_async(situation)(workspace)

    await served_until(lambda: Run.objects.filter(status="lost").count() == 2)
    await served_until(lambda: JoinRow.objects.filter(status="complete").count() == 2)
    assert await database_sync_to_async(expired)() == ["default c1", "other c1"]


async def test_thread_continues_after_a_database_outage(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await database_sync_to_async(situation)("default")
    failures = iter([OperationalError("the server is gone")])

    def sweep(using: str) -> peers_sweep.SweepRound:
        for failure in failures:
            raise failure
        return peers_sweep.sweep_lost_runs_and_deadlines_of_workspaces(using)

    monkeypatch.setattr(lost_run_and_deadline_sweep_task, "sweep_lost_runs_and_deadlines_of_workspaces", sweep)
    with caplog.at_level(logging.ERROR):
        await served_until(lambda: PeerCall.objects.get().status == "expired")
    assert "tries again" in caplog.text


async def test_running_call_is_not_swept() -> None:
    await database_sync_to_async(situation)("default")
    cp = SyncCheckpointer()
    await database_sync_to_async(pause)(cp, join("k", "c2"), session_id="t")

    await served_until(lambda: PeerCall.objects.filter(status="expired").count() == 1)
    assert await database_sync_to_async(accepted)(cp, "c2") == (True, 1, 1)
