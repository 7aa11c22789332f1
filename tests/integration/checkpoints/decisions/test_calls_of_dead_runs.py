"""What a process that was killed left behind can be decided at once, by another process, before anybody resumes."""

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
    """A process that was killed inside its tool."""
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")
    child.kill()
    return child


def lease_is_over() -> None:
    """The process is on another machine, and its lease has run out."""
    Run.objects.update(lease_expires_at=F("started_at"), host_identity="elsewhere")


def seen(cp: SyncCheckpointer) -> dict[str, Any]:
    (call,) = cp.pending_tool_calls("s")
    return call


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.usefixtures("killed")
def test_call_of_a_killed_process_is_decided_at_once(cp: SyncCheckpointer, name: str) -> None:
    decide, status = DECISIONS[name]
    call = seen(cp)
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
def test_decision_holds_for_the_run_that_comes_next(cp: SyncCheckpointer) -> None:
    cp.confirm_landed("s", "call_1", "paid", revision=seen(cp)["revision"], **HOW)
    point = cp.resume("s")

    assert {call_id: result.content for call_id, result in point.replayable.items()} == {"call_1": "paid"}


@pytest.mark.usefixtures("killed")
def test_hook_may_be_asked_at_once(cp: SyncCheckpointer) -> None:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", verify=lambda args: Landed(f"receipt {args['order']}"))(lambda order: "paid")

    assert cp.verify_call("s", "call_1", actor="alice") == "landed"
    assert call_statuses() == [("call_1", 1, "completed")]


@pytest.mark.usefixtures("killed")
def test_question_without_a_hook_is_kept_for_the_next_run(cp: SyncCheckpointer) -> None:
    assert cp.verify_call("s", "call_1", actor="alice") == "requested"
    assert seen(cp)["status"] == "interrupted"


@pytest.mark.usefixtures("killed")
def test_second_person_who_saw_the_same_is_told_who_was_first(cp: SyncCheckpointer) -> None:
    revision = seen(cp)["revision"]
    cp.mark_failed("s", "call_1", revision=revision, **HOW)
    with pytest.raises(AlreadyDecided, match="alice"):
        cp.confirm_landed("s", "call_1", "paid", actor="bob", reason="I looked too.", revision=revision)

    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "failed")], 1)


@pytest.mark.parametrize("revision", [0, 2, 7])
@pytest.mark.usefixtures("killed")
def test_other_revision_than_the_one_there_is_changes_nothing(cp: SyncCheckpointer, revision: int) -> None:
    with pytest.raises(StaleRevision):
        cp.mark_failed("s", "call_1", revision=revision, **HOW)

    assert (call_statuses(), Decision.objects.count()) == ([("call_1", 1, "issued")], 0)


def resume_in_vain(cp: SyncCheckpointer) -> None:
    with pytest.raises(ReviewRequired):
        cp.resume("s")


@pytest.mark.parametrize("notice", [SyncCheckpointer.sweep_lost_runs, resume_in_vain], ids=["sweep", "resume"])
@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.usefixtures("killed")
def test_decision_counts_when_the_lost_run_was_detected_meanwhile(
    cp: SyncCheckpointer, name: str, notice: Callable[[SyncCheckpointer], object]
) -> None:
    decide, status = DECISIONS[name]
    call = seen(cp)
    notice(cp)
    decide(cp, call["revision"])

    assert (call["status"], call_statuses()) == ("issued", [("call_1", 1, status)])


def test_decision_on_what_was_seen_before_somebody_else_s_is_stale(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    start_session(cp)
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay", approvals=2)(lambda order: Session.objects.update(fence=F("fence") + 1))
    with pytest.raises(LateResultRefused):
        registry.dispatch("pay", {"order": 17}, "call_1")
    lease_is_over()
    other = open_checkpointer()
    other.sweep_lost_runs()
    at = seen(other)["revision"]
    other.mark_failed("s", "call_1", revision=at, **HOW)

    for revision in (at - 1, at):
        with pytest.raises(StaleRevision):
            other.mark_failed("s", "call_1", actor="bob", reason="I looked too.", revision=revision)
    assert call_statuses() == [("call_1", 1, "interrupted")]


@pytest.mark.usefixtures("killed")
def test_call_of_a_killed_process_is_among_the_pending_decisions_at_once(cp: SyncCheckpointer) -> None:
    (waits,) = cp.pending_decisions()
    (call,) = cp.pending_tool_calls("s")

    assert {name: waits[name] for name in call} == call
    assert (waits["session_id"], waits["waits_since"]) == ("s", call["started_at"])
    assert cp.pending_decisions(after=waits["cursor"]) == cp.pending_decisions(agent="nobody") == []
    cp.sweep_lost_runs()
    assert [each["status"] for each in cp.pending_decisions()] == ["interrupted"]


def test_call_of_a_live_run_is_not_among_the_pending_decisions(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    first.record_tool_call_issued("s", "call_2", "look_up", {"order": 17}, "other", side_effects=("read",))
    other = open_checkpointer()

    assert other.pending_decisions() == []
    lease_is_over()
    assert [each["call_id"] for each in other.pending_decisions()] == ["call_1"]


def test_call_of_a_lease_that_is_over_is_decided_at_once(open_checkpointer: Open) -> None:
    first, second = start_session(open_checkpointer()), open_checkpointer()
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    lease_is_over()
    second.mark_failed("s", "call_1", revision=seen(second)["revision"], **HOW)

    assert call_statuses() == [("call_1", 1, "failed")]


def test_call_of_a_run_that_was_released_is_decided_at_once(cp: SyncCheckpointer) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    Session.objects.update(owner=None)
    Run.objects.update(status="released")
    cp.mark_failed("s", "call_1", revision=seen(cp)["revision"], **HOW)

    assert call_statuses() == [("call_1", 1, "failed")]


def test_call_of_a_live_run_is_not_decided(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    other = open_checkpointer()

    for decide, _ in DECISIONS.values():
        with pytest.raises(NotUndecided):
            decide(other, seen(other)["revision"])
    with pytest.raises(NotUndecided):
        other.verify_call("s", "call_1", actor="alice")
    assert (call_statuses(), Run.objects.get().status) == ([("call_1", 1, "issued")], "running")


@pytest.mark.usefixtures("killed")
def test_sweep_does_not_wait_for_the_lease_of_a_process_on_this_machine(cp: SyncCheckpointer) -> None:
    assert cp.sweep_lost_runs() == ["s"]
    assert (call_statuses(), seen(cp)["reason"]) == ([("call_1", 1, "interrupted")], "run_lost")
    assert cp.sweep_lost_runs() == []


def test_sweep_leaves_a_live_process_on_this_machine_alone(cp: SyncCheckpointer, start_child: StartChild) -> None:
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")

    assert cp.sweep_lost_runs() == []
    assert seen(cp)["alive"] is True


@pytest.mark.usefixtures("killed")
def test_sweep_leaves_a_process_of_another_machine_its_lease(cp: SyncCheckpointer) -> None:
    Run.objects.update(host_identity="elsewhere")

    assert cp.sweep_lost_runs() == []
