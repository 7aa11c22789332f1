"""A process that is suspended past its lease loses its session, and changes nothing when it continues."""

from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import SessionBusy
from checkpoints.models import AuditEvent, Checkpoint, Decision, LateResult, Message, Run, Session, ToolCall
from tests.concurrency import agent_processes
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import take_session_past_gate
from tests.support.processes import database_url


def everything() -> list[Any]:
    """Return all rows that a stalled process must not change."""
    models = (Session, Run, Checkpoint, Message, ToolCall, Decision)
    return [list(model.objects.order_by("pk").values()) for model in models]


def end_leases() -> None:
    """End the leases of all runs.

    A lease that ends by itself soon is renewed often, so a process might be stopped while it holds the lock of SQLite.
    """
    Run.objects.update(lease_expires_at=F("started_at"))


def takes(cp: SyncCheckpointer) -> bool:
    """Return whether the session can be taken without a takeover."""
    try:
        take_session_past_gate(cp, takeover=False)
    except SessionBusy:
        return False
    return True


@pytest.mark.parametrize(
    ("attempt", "text_message"),
    [
        ("save", "OwnershipLost"),
        ("append", "OwnershipLost"),
        ("issue", "OwnershipLost"),
        ("dispatch", "OwnershipLost"),
        ("finish", "OwnershipLost"),
    ],
)
def test_stalled_process_changes_nothing(
    cp: SyncCheckpointer, start_child: StartChild, attempt: str, text_message: str
) -> None:
    child = start_child(agent_processes.stall, url=database_url(), session_id="s")
    child.expect("ready")
    child.pause()
    end_leases()
    assert takes(cp)
    cp.save_checkpoint("s", [{"turn": 1}, {"turn": 2}], None, 1)
    before = everything()
    child.go_on()
    child.tell(attempt)

    assert child.result() == [text_message, []]
    assert everything() == before
    assert AuditEvent.objects.filter(kind="run_lost").count() == 1


def test_late_result_of_a_stalled_process_is_stored(cp: SyncCheckpointer, start_child: StartChild) -> None:
    child = start_child(agent_processes.stall, url=database_url(), session_id="s")
    child.expect("ready")
    child.pause()
    end_leases()
    assert takes(cp)
    child.go_on()
    child.tell("settle")

    assert child.result() == ["LateResultRefused", []]
    late = LateResult.objects.get()
    assert (late.success, late.result_text, late.tool_call.status) == (True, "paid", "interrupted")


def test_process_stalled_inside_its_tool_reports_a_late_result(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(
        agent_processes.stay_inside_the_tool,
        url=database_url(),
        session_id="s",
        effects=str(effects),
        before_effect=True,
    )
    child.expect("inside")
    child.pause()
    end_leases()
    assert takes(cp)
    (call,) = cp.pending_tool_calls("s")
    assert (call["status"], call["reason"]) == ("interrupted", "run_lost")
    cp.mark_failed("s", "call_1", actor="alice", reason="Not there yet.", revision=call["revision"])
    child.go_on()
    child.tell()

    assert child.result() == {"dispatch": "LateResultRefused", "save": "OwnershipLost", "finish": "NotOwner"}
    assert ToolCall.objects.get().status == "failed"
    assert [late.result_text for late in LateResult.objects.all()] == ["welcomed bob"]
    assert (Checkpoint.objects.count(), Session.objects.get().status) == (1, "ready")


def test_suspended_process_continues_a_session_not_taken_by_others(start_child: StartChild) -> None:
    child = start_child(agent_processes.stall, url=database_url(), session_id="s")
    child.expect("ready")
    child.pause()
    end_leases()
    child.go_on()
    child.tell("save")

    assert child.result() == [2, []]
