"""The sweep detects lost runs without a resume."""

import pytest
from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import OwnershipLost
from checkpoints.models import Run, Session, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, start_session


def expire(session_id: str) -> None:
    Run.objects.filter(session__session_id=session_id).update(lease_expires_at=F("started_at"))


def test_lost_run_is_ended_and_its_calls_need_decisions(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    cp.record_tool_call_issued("s", "call_2", "look", {}, "key 2", side_effects={"read"})
    expire("s")

    assert open_checkpointer().sweep_lost_runs() == ["s"]
    assert call_statuses() == [("call_1", 1, "interrupted"), ("call_2", 1, "discarded")]
    assert (Session.objects.get().status, Run.objects.get().status) == ("needs_review", "lost")
    assert open_checkpointer().sweep_lost_runs() == []


def test_live_runs_are_not_swept(open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).record_tool_call_issued("s", "call_1", "pay", {}, "key")

    assert open_checkpointer().sweep_lost_runs() == []
    assert (call_statuses(), Run.objects.get().status) == ([("call_1", 1, "issued")], "running")


def test_swept_run_cannot_write(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    expire("s")
    open_checkpointer().sweep_lost_runs()

    with pytest.raises(OwnershipLost):
        cp.save_checkpoint("s", [], None, 0)
    assert cp.load_latest("s") is None


def test_sweep_is_limited_to_its_workspace(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    start_session(cp)
    expire("s")

    assert open_checkpointer(workspace="other").sweep_lost_runs() == []
    assert cp.sweep_lost_runs() == ["s"]


def test_sweep_has_a_limit(open_checkpointer: Open) -> None:
    cp = open_checkpointer()
    for number in range(3):
        start_session(cp, f"s{number}")
        expire(f"s{number}")

    assert [len(open_checkpointer().sweep_lost_runs(limit=2)) for _ in range(3)] == [2, 1, 0]
