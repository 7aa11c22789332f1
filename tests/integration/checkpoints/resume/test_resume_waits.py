"""A waiting resume continues when a decision is recorded in another process."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Decision, Run, Session, ToolCall
from checkpoints.resume import resume_gate
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.session_setups import call_statuses, interrupt_call, lose_run, start_session
from tests.integration.checkpoints.sessions import session_agents
from tests.support.async_database import run_in_thread
from tests.support.processes import database_url, wait_until


@pytest.fixture
def died(open_checkpointer: Open) -> dict[str, Any]:
    """Interrupted call of session `s`, whose run is lost."""
    cp, call = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    cp.close()
    return call


def run_waits() -> bool:
    return Run.objects.filter(status="waiting").exists()


@pytest.mark.parametrize("wait", [session_agents.wait_blocking, session_agents.wait_async], ids=["blocking", "async"])
def test_waiting_run_continues_after_the_decision(
    died: dict[str, Any], open_checkpointer: Open, start_child: StartChild, wait: Callable[..., Any]
) -> None:
    child = start_child(wait, url=database_url())
    child.expect("waiting")
    wait_until(run_waits)
    assert Session.objects.get().status == "needs_review"
    open_checkpointer().confirm_landed(
        "s", "call_1", "receipt 5", actor="alice", reason="In the ledger.", revision=died["revision"]
    )

    assert child.result() == {"call_1": ["receipt 5", False]}
    assert Session.objects.get().status == "completed"


def test_waiting_run_calls_its_hook_when_a_person_requests_it(
    died: dict[str, Any], open_checkpointer: Open, start_child: StartChild
) -> None:
    child = start_child(session_agents.wait_with_a_hook, url=database_url())
    child.expect("asked")
    wait_until(run_waits)

    assert open_checkpointer().verify_call("s", "call_1", actor="alice") == "requested"
    assert child.result() == [17, 17]
    assert list(Decision.objects.order_by("pk").values_list("kind", flat=True)) == ["probe_unknown", "probe_landed"]


def test_waiting_times_out(died: dict[str, Any], cp: SyncCheckpointer) -> None:
    with pytest.raises(ReviewRequired) as caught:
        cp.resume("s", wait=True, timeout=0)
    assert [call["call_id"] for call in caught.value.calls] == ["call_1"]
    assert Run.objects.latest("number").status == "released"


def test_run_that_waits_for_an_old_call_checks_less_often(
    died: dict[str, Any], cp: SyncCheckpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def compute_pause_and_stop_waiting(seconds: float) -> float:
        waited.append(seconds)
        raise KeyboardInterrupt

    monkeypatch.setattr(resume_gate, "compute_decision_poll_interval", compute_pause_and_stop_waiting)
    ToolCall.objects.update(interrupted_at=timezone.now() - timedelta(hours=1))
    with pytest.raises(KeyboardInterrupt):
        cp.resume("s", wait=True)
    assert min(waited) >= 3600


def test_waiting_run_says_once_that_it_waits(
    died: dict[str, Any], cp: SyncCheckpointer, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ReviewRequired):
        cp.resume("s", wait=True, timeout=0.6)  # it looks for decisions three times
    (tool,) = ToolCall.objects.values_list("tool", flat=True)
    assert caplog.messages == [f"Session 's' waits until a person decides about: {tool} (call_1)."]


def test_waiting_run_that_is_replaced_raises_ownership_lost(
    died: dict[str, Any], open_checkpointer: Open, start_child: StartChild
) -> None:
    child = start_child(session_agents.wait_and_lose, url=database_url())
    child.expect("waiting")
    wait_until(run_waits)
    lose_run(open_checkpointer)

    assert child.result() == "OwnershipLost"


@pytest.mark.asyncio
async def test_cancelled_wait_releases_the_session(died: dict[str, Any]) -> None:
    async with Checkpointer() as cp:
        task = asyncio.ensure_future(cp.resume("s", wait=True))
        await run_in_thread(lambda: wait_until(run_waits))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await run_in_thread(lambda: Run.objects.latest("number"))).status == "released"


def test_one_of_several_concurrent_decisions_counts(died: dict[str, Any], start_child: StartChild) -> None:
    names = ["alice", "bob", "carol", "dave"]
    people = [
        start_child(session_agents.decide, url=database_url(), name=name, revision=died["revision"]) for name in names
    ]
    for person in people:
        person.expect("ready")
    for person in people:
        person.tell()
    answers = dict(zip(names, [person.result() for person in people], strict=True))

    winner = Decision.objects.get().actor
    assert answers == {name: "first" if name == winner else f"after {winner}" for name in names}
    assert (call_statuses(), Session.objects.get().status) == ([("call_1", 1, "failed")], "ready")
