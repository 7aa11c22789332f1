"""Taking: exactly one run goes on, and what it took is there for another one until it has saved something."""

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
    """A session whose only join is complete."""
    pause(cp, join("j", "c1", "c2"), state={"step": 3})
    accepted(cp, "c1", 1)
    accepted(cp, "c2", 2)
    return cp


def test_another_instance_goes_on_with_all_it_needs(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
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


def test_nothing_is_taken_before_a_join_is_complete(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1", "c2"), join("k", "c3", "c4"))
    accepted(cp, "c1")
    accepted(cp, "c3")

    with pytest.raises(StillWaiting) as caught:
        cp.take_paused("s")
    assert (caught.value.completed, caught.value.total) == (2, 4)
    assert (Session.objects.get().status, Run.objects.count()) == ("paused", 1)


def test_session_that_waits_for_nobody(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    with pytest.raises(SessionNotFound):
        cp.take_paused("s")
    start_session(cp)
    with pytest.raises(NotPaused):
        cp.take_paused("s")
    cp.finish_session("s", "completed")
    with pytest.raises(SessionFinished):
        cp.take_paused("s")


def test_one_run_takes_it_at_a_time(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).take_paused("s")

    with pytest.raises(SessionBusy):
        open_checkpointer().take_paused("s")
    assert cp.append_checkpoint("s", [], expected_version=1) == 2


def test_task_that_is_taken_and_lost_is_taken_by_another(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """It stays in the database until the run that took it has saved its next version, through any number of losses."""
    ready(cp)
    first = cp.take_paused("s")
    for times in (2, 3):
        lose_run()
        again = open_checkpointer().take_paused("s")
        assert (again.state, again.results, again.times_taken) == (first.state, first.results, times)

    with pytest.raises(OwnershipLost):
        cp.append_checkpoint("s", [], expected_version=1)


def test_task_that_is_taken_and_lost_is_listed_and_protected(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
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


def test_after_the_next_version_the_task_is_over(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    ready(cp).take_paused("s")
    cp.append_checkpoint("s", [text_message("used")], expected_version=1)
    lose_run()
    other = open_checkpointer()

    assert other.list_paused() == []
    with pytest.raises(NotPaused):
        other.take_paused("s")
    assert other.resume("s").transcript == [text_message("question"), text_message("used")]
    cp.close()


def test_pruning_the_version_that_used_it_does_not_bring_it_back(cp: SyncCheckpointer) -> None:
    ready(cp).take_paused("s")
    for version in (1, 2, 3):
        cp.append_checkpoint("s", [text_message(f"{version}")], expected_version=version)
    cp.prune("s", keep_last=1)
    cp.close()

    assert cp.list_paused() == []
    assert cp.resume("s").version == 4


def test_lost_run_that_had_used_one_join_leaves_the_next_one_to_be_taken(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.append_checkpoint("s", [text_message("used c1")], expected_version=1)
    accepted(cp, "c2")
    lose_run()
    task = open_checkpointer().take_paused("s")

    assert (list(task.results), task.paused_version, task.point.version) == (["c2"], 1, 2)


def test_owner_gets_what_has_become_complete_while_it_worked(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.append_checkpoint("s", [text_message("used c1")], expected_version=1)
    accepted(cp, "c2")

    assert list(cp.take_paused("s").results) == ["c2"]
    assert cp.append_checkpoint("s", [text_message("used c2")], expected_version=2) == 3
    assert cp.list_paused() == []


def test_take_passes_the_gate(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    """A run that was lost after it took the task may have done something: that is found out first."""
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
def test_damaged_state_runs_nothing(cp: SyncCheckpointer, state: str) -> None:
    ready(cp)
    PausedTask.objects.update(state=state)

    with pytest.raises(CheckpointCorrupted, match="state"):
        cp.take_paused("s")
    assert (Session.objects.get().owner, Run.objects.count()) == (None, 1)


def test_damaged_result_leaves_the_task_where_it_was(cp: SyncCheckpointer) -> None:
    ready(cp)
    PeerCall.objects.filter(call_id="c2").update(result="{")

    with pytest.raises(CheckpointCorrupted, match="result of c2"):
        cp.take_paused("s")
    assert Session.objects.get().owner is None
    PeerCall.objects.filter(call_id="c2").update(result="2")
    assert cp.take_paused("s").times_taken == 1


def test_listing(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
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


def test_calls_of_a_session(cp: SyncCheckpointer) -> None:
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
