"""Calls of a killed process can be decided at once, by another process, before the session is resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F

from checkpoints import Landed, SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    AlreadyDecided,
    LateResultRefused,
    NotUndecided,
    ReviewRequired,
    StaleRevision,
)
from checkpoints.models import AuditEvent, Decision, Run, Session
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.session_setups import call_statuses, start_session
from tests.integration.checkpoints.sessions import session_agents
from tests.support.processes import Child, database_url

HOW: dict[str, Any] = {"actor": "alice", "reason": "I looked."}
Decide = Callable[[SyncCheckpointer, int], object]
DECISIONS: dict[str, tuple[Decide, str]] = {
    "confirm_landed": (
        lambda cp, revision: cp.confirm_landed("s", "call_1", "paid", revision=revision, **HOW),
        "completed",
    ),
    "mark_failed": (lambda cp, revision: cp.mark_failed("s", "call_1", revision=revision, **HOW), "failed"),
    "approve_rerun": (
        lambda cp, revision: cp.approve_rerun("s", "call_1", revision=revision, **HOW),
        "rerun_approved",
    ),
}


@pytest.fixture
def killed(start_child: StartChild) -> Child:
    """Process that was killed inside its tool."""
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")
    child.kill()
    return child


def expire_lease_of_remote_run() -> None:
    """Move the run to another host, with an expired lease."""
    Run.objects.update(lease_expires_at=F("started_at"), host_identity="elsewhere")


def pending_revision(cp: SyncCheckpointer) -> dict[str, Any]:
    (call,) = cp.pending_tool_calls("s")
    return call


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.usefixtures("killed")
def test_call_of_a_killed_process_is_decided_at_once(cp: SyncCheckpointer, name: str) -> None:
    decide, status = DECISIONS[name]
    call = pending_revision(cp)
    assert (call["status"], call["alive"]) == ("issued", False)
    decide(cp, call["revision"])

    assert call_statuses() == [("call_1", 1, status)]
    assert (Run.objects.get().status, Session.objects.get().status, Session.objects.get().owner) == (
        "lost",
        "ready",
        None,
    )
    assert list(AuditEvent.objects.order_by("pk").values_list("kind", "actor"))[-4:] == [
        ("run_lost", "run 1"),
        ("call_interrupted", "gate"),
        ("decided", "alice"),
        ("session_ready", "gate"),
    ]


@pytest.mark.usefixtures("killed")
def test_decision_applies_to_the_next_run(cp: SyncCheckpointer) -> None:
    cp.confirm_landed("s", "call_1", "paid", revision=pending_revision(cp)["revision"], **HOW)
    point = cp.resume("s")

    assert {call_id: result.content for call_id, result in point.replayable.items()} == {"call_1": "paid"}


@pytest.mark.usefixtures("killed")
def test_verify_hook_is_called_at_once(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", verify=lambda args: Landed(f"receipt {args['order']}"))(lambda order: "paid")

    assert cp.verify_call("s", "call_1", actor="alice") == "landed"
    assert call_statuses() == [("call_1", 1, "completed")]


@pytest.mark.usefixtures("killed")
def test_verification_without_a_hook_is_left_to_the_next_run(cp: SyncCheckpointer) -> None:
    assert cp.verify_call("s", "call_1", actor="alice") == "requested"
    assert pending_revision(cp)["status"] == "interrupted"


@pytest.mark.usefixtures("killed")
def test_second_decision_on_the_same_revision_names_the_first(cp: SyncCheckpointer) -> None:
    revision = pending_revision(cp)["revision"]
    cp.mark_failed("s", "call_1", revision=revision, **HOW)
    with pytest.raises(AlreadyDecided, match="alice"):
        cp.confirm_landed("s", "call_1", "paid", actor="bob", reason="I looked too.", revision=revision)

    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "failed")], 1)


@pytest.mark.parametrize("revision", [0, 2, 7])
@pytest.mark.usefixtures("killed")
def test_decision_on_another_revision_changes_nothing(cp: SyncCheckpointer, revision: int) -> None:
    with pytest.raises(StaleRevision):
        cp.mark_failed("s", "call_1", revision=revision, **HOW)

    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "issued")], 0)


def expect_review_required(cp: SyncCheckpointer) -> None:
    with pytest.raises(ReviewRequired):
        cp.resume("s")


@pytest.mark.parametrize("notice", [SyncCheckpointer.sweep_lost_runs, expect_review_required], ids=["sweep", "resume"])
@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.usefixtures("killed")
def test_decision_succeeds_after_the_run_was_declared_lost(
    cp: SyncCheckpointer, name: str, notice: Callable[[SyncCheckpointer], object]
) -> None:
    decide, status = DECISIONS[name]
    call = pending_revision(cp)
    notice(cp)
    decide(cp, call["revision"])

    assert (call["status"], call_statuses()) == ("issued", [("call_1", 1, status)])


def test_decision_on_a_superseded_revision_is_stale(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    start_session(cp)
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", approvals=2)(lambda order: Session.objects.update(fence=F("fence") + 1))
    with pytest.raises(LateResultRefused):
        registry.dispatch("pay", {"order": 17}, "call_1")
    expire_lease_of_remote_run()
    other = open_checkpointer()
    other.sweep_lost_runs()
    at = pending_revision(other)["revision"]
    other.mark_failed("s", "call_1", revision=at, **HOW)

    for revision in (at - 1, at):
        with pytest.raises(StaleRevision):
            other.confirm_landed("s", "call_1", "paid", actor="bob", reason="I looked too.", revision=revision)
    assert call_statuses() == [("call_1", 1, "interrupted")]


@pytest.mark.usefixtures("killed")
def test_call_of_a_killed_process_is_listed_as_pending_at_once(cp: SyncCheckpointer) -> None:
    (waits,) = cp.pending_decisions()
    (call,) = cp.pending_tool_calls("s")

    assert {name: waits[name] for name in call} == call
    assert (waits["session_id"], waits["waits_since"]) == ("s", call["started_at"])
    assert cp.pending_decisions(after=waits["cursor"]) == cp.pending_decisions(agent="nobody") == []
    cp.sweep_lost_runs()
    assert [each["status"] for each in cp.pending_decisions()] == ["interrupted"]


def test_call_of_a_live_run_is_not_listed_as_pending(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    first.record_tool_call_issued("s", "call_2", "look_up", {"order": 17}, "other", side_effects=("read",))
    other = open_checkpointer()

    assert other.pending_decisions() == []
    expire_lease_of_remote_run()
    assert [each["call_id"] for each in other.pending_decisions()] == ["call_1"]


def test_call_with_an_expired_lease_is_decided_at_once(open_checkpointer: Open) -> None:
    first, second = start_session(open_checkpointer()), open_checkpointer()
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    expire_lease_of_remote_run()
    second.mark_failed("s", "call_1", revision=pending_revision(second)["revision"], **HOW)

    assert call_statuses() == [("call_1", 1, "failed")]


def test_call_of_a_released_run_is_decided_at_once(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    Session.objects.update(owner=None)
    Run.objects.update(status="released")
    cp.mark_failed("s", "call_1", revision=pending_revision(cp)["revision"], **HOW)

    assert call_statuses() == [("call_1", 1, "failed")]


def test_call_of_a_live_run_is_not_decided(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    other = open_checkpointer()

    for decide, _ in DECISIONS.values():
        with pytest.raises(NotUndecided):
            decide(other, pending_revision(other)["revision"])
    with pytest.raises(NotUndecided):
        other.verify_call("s", "call_1", actor="alice")
    assert (call_statuses(), Run.objects.get().status) == ([("call_1", 1, "issued")], "running")


@pytest.mark.usefixtures("killed")
def test_sweep_detects_a_dead_process_on_this_host_before_its_lease_ends(cp: SyncCheckpointer) -> None:
    assert cp.sweep_lost_runs() == ["s"]
    assert (call_statuses(), pending_revision(cp)["reason"]) == ([("call_1", 1, "interrupted")], "run_lost")
    assert cp.sweep_lost_runs() == []


def test_sweep_keeps_a_live_process_on_this_host(cp: SyncCheckpointer, start_child: StartChild) -> None:
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")

    assert cp.sweep_lost_runs() == []
    assert pending_revision(cp)["alive"] is True


@pytest.mark.usefixtures("killed")
def test_sweep_keeps_a_process_of_another_host_until_its_lease_ends(cp: SyncCheckpointer) -> None:
    Run.objects.update(host_identity="elsewhere")

    assert cp.sweep_lost_runs() == []
