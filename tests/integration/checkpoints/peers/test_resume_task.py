"""Taking a paused task: exactly one run continues, and the task stays available until it has saved a version."""

import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    CheckpointCorrupted,
    NotPaused,
    OwnershipLost,
    PausedForPeers,
    ReviewRequired,
    SessionBusy,
    SessionFinished,
    SessionNotFound,
    StillNeeded,
    StillWaiting,
)
from checkpoints.models import PausedTask, PeerCall, Run, Session
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import accepted, expire_deadlines, join, lose_run, pause
from tests.integration.checkpoints.session_setups import start_session, text_message


def ready(cp: SyncCheckpointer) -> SyncCheckpointer:
    """Session whose only join is complete."""
    pause(cp, join("j", "c1", "c2"), state={"step": 3})
    accepted(cp, "c1", 1)
    accepted(cp, "c2", 2)
    return cp


def test_another_process_takes_the_complete_task(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).close()
    other = open_checkpointer()
    task = other.take_paused("s")

    assert (task.state, task.paused_version, task.times_taken, task.open) == ({"step": 3}, 1, 1, ())
    assert (task.point.transcript, task.point.plan, task.point.budget_spent_usd) == (
        [text_message("question")],
        {"goal": 1},
        0.5,
    )
    assert [(taken.id, taken.pause) for taken in task.joins] == [("j", 1)]
    assert {call_id: (result.peer, result.result) for call_id, result in task.results.items()} == {
        "c1": ("stock", 1),
        "c2": ("stock", 2),
    }
    assert other.append_checkpoint("s", [text_message("go on")], expected_version=1) == 2
    other.finish_session("s", "completed", "done")


def test_task_with_an_incomplete_join_is_not_taken(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"), join("k", "c3", "c4"))
    accepted(cp, "c1")
    accepted(cp, "c3")

    with pytest.raises(StillWaiting) as caught:
        cp.take_paused("s")
    assert (caught.value.completed, caught.value.total) == (2, 4)
    assert (Session.objects.get().status, Run.objects.count()) == ("paused", 1)


def test_session_without_a_pause_is_not_taken(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    with pytest.raises(SessionNotFound):
        cp.take_paused("s")
    start_session(cp)
    with pytest.raises(NotPaused):
        cp.take_paused("s")
    cp.finish_session("s", "completed")
    with pytest.raises(SessionFinished):
        cp.take_paused("s")


def test_task_is_taken_by_one_run_at_a_time(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).take_paused("s")

    with pytest.raises(SessionBusy):
        open_checkpointer().take_paused("s")
    assert cp.append_checkpoint("s", [], expected_version=1) == 2


def test_task_of_a_lost_run_is_taken_by_another(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """The task stays in the database until the run that took it has saved its next version."""
    ready(cp)
    first = cp.take_paused("s")
    for times in (2, 3):
        lose_run()
        again = open_checkpointer().take_paused("s")
        assert (again.state, again.results, again.times_taken) == (first.state, first.results, times)

    with pytest.raises(OwnershipLost):
        cp.append_checkpoint("s", [], expected_version=1)


def test_task_of_a_lost_run_is_listed_and_protected(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).take_paused("s")
    assert cp.list_paused(ready=True) == []
    lose_run()
    other = open_checkpointer()

    assert [row["session_id"] for row in other.list_paused(ready=True)] == ["s"]
    with pytest.raises(PausedForPeers):
        other.resume("s")
    with pytest.raises(StillNeeded):
        other.delete_session("s")
    other.sweep_lost_runs()
    assert [row["session_id"] for row in other.list_paused(ready=True)] == ["s"]
    assert other.take_paused("s").times_taken == 2


def test_task_ends_with_the_next_version(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).take_paused("s")
    cp.append_checkpoint("s", [text_message("used")], expected_version=1)
    lose_run()
    other = open_checkpointer()

    assert other.list_paused() == []
    with pytest.raises(NotPaused):
        other.take_paused("s")
    assert other.resume("s").transcript == [text_message("question"), text_message("used")]
    cp.close()


def test_pruning_the_version_does_not_restore_the_task(cp: SyncCheckpointer) -> None:
    ready(cp).take_paused("s")
    for version in (1, 2, 3):
        cp.append_checkpoint("s", [text_message(f"{version}")], expected_version=version)
    cp.prune("s", keep_last=1)
    cp.close()

    assert cp.list_paused() == []
    assert cp.resume("s").version == 4


def test_second_join_of_a_lost_run_is_taken_by_another(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.append_checkpoint("s", [text_message("used c1")], expected_version=1)
    accepted(cp, "c2")
    lose_run()
    task = open_checkpointer().take_paused("s")

    assert (list(task.results), task.paused_version, task.point.version) == (["c2"], 1, 2)


def test_owner_takes_a_join_that_was_completed_during_its_run(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.append_checkpoint("s", [text_message("used c1")], expected_version=1)
    accepted(cp, "c2")

    assert list(cp.take_paused("s").results) == ["c2"]
    assert cp.append_checkpoint("s", [text_message("used c2")], expected_version=2) == 3
    assert cp.list_paused() == []


def test_taking_a_task_passes_the_gate(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """A lost run that had taken the task may have had effects, which are verified first."""
    ready(cp).take_paused("s")
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    lose_run()
    other = open_checkpointer()
    registry = ToolRegistry()

    with pytest.raises(ReviewRequired) as caught:
        other.take_paused("s", registry)
    (call,) = caught.value.calls
    other.confirm_landed("s", "call_1", "paid", actor="alice", reason="Seen.", revision=call["revision"])
    task = other.take_paused("s", registry)
    assert list(task.results) == ["c1", "c2"]
    assert task.point.replayable["call_1"].content == "paid"


@pytest.mark.parametrize("state", ["{", "[1]"])
def test_damaged_state_is_not_taken(cp: SyncCheckpointer, state: str) -> None:
    ready(cp)
    PausedTask.objects.update(state=state)

    with pytest.raises(CheckpointCorrupted, match="state"):
        cp.take_paused("s")
    assert (Session.objects.get().owner, Run.objects.count()) == (None, 1)


def test_task_with_a_damaged_result_stays_paused(cp: SyncCheckpointer) -> None:
    ready(cp)
    PeerCall.objects.filter(call_id="c2").update(result="{")

    with pytest.raises(CheckpointCorrupted, match="result of c2"):
        cp.take_paused("s")
    assert Session.objects.get().owner is None
    PeerCall.objects.filter(call_id="c2").update(result="2")
    assert cp.take_paused("s").times_taken == 1


def test_list_paused_tasks(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    cp.start_session("a", agent="desk")
    pause(cp, join("j", "a1"), join("k", "a2"), session_id="a")
    cp.start_session("b", agent="clerk")
    pause(cp, join("j", "b1"), session_id="b")
    accepted(cp, "a1")

    row = {"session_id": "a", "agent": "desk", "ready": True, "driven": False, "complete": ["j"], "open": ["k"]}
    other = {"session_id": "b", "agent": "clerk", "ready": False, "driven": False, "complete": [], "open": ["j"]}
    assert sorted(cp.list_paused(), key=lambda each: str(each["session_id"])) == [row, other]
    assert cp.list_paused(ready=True) == cp.list_paused(agent="desk") == [row]
    assert cp.list_paused(ready=False) == [other]
    assert cp.list_paused(ready=True, agent="clerk") == []
    assert len(cp.list_paused(limit=1)) == 1


def test_list_peer_calls_of_a_session(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"))
    accepted(cp, "c1", {"a": 1})
    expire_deadlines("c2")
    cp.sweep_deadlines()

    shown = [
        [call[name] for name in ("call_id", "peer", "join_id", "pause", "status", "result_json", "to_tell")]
        for call in cp.peer_calls("s")
    ]
    assert shown == [
        ["c1", "stock", "j", 1, "answered", '{"a":1}', None],
        ["c2", "stock", "j", 1, "expired", None, "cancel"],
    ]
