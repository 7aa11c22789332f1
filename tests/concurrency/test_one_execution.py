"""One idempotency key is executed once by concurrent processes and tasks."""

from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.models import ToolCall
from tests.concurrency import agent_processes
from tests.conftest import StartChild
from tests.support.processes import Child, database_url

PROCESSES = 8


def started_together(children: list[Child]) -> None:
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()


def test_eight_processes_with_one_key(start_child: StartChild, effects: Path) -> None:
    children = [
        start_child(agent_processes.dispatch_one_key, url=database_url(), session_id=f"s{number}", effects=str(effects))
        for number in range(PROCESSES)
    ]
    started_together(children)
    results = [child.result() for child in children]

    assert effects.read_text() == "welcome bob\n"
    assert sorted(results) == [["welcomed bob", False]] + [["welcomed bob", True]] * (PROCESSES - 1)
    call = ToolCall.objects.get()
    assert (call.status, call.replay_count) == ("completed", PROCESSES - 1)


def test_four_processes_of_ten_tasks_with_one_key(start_child: StartChild, effects: Path) -> None:
    children = [
        start_child(
            agent_processes.dispatch_from_many_tasks, url=database_url(), session_id=f"s{number}", effects=str(effects)
        )
        for number in range(4)
    ]
    started_together(children)
    results = [result for child in children for result in child.result()]

    assert effects.read_text() == "welcome bob\n"
    assert sorted(results) == [["welcomed bob", False]] + [["welcomed bob", True]] * 39


def test_waiter_gets_the_result_of_the_executing_process(start_child: StartChild, effects: Path) -> None:
    shared = {"url": database_url(), "effects": str(effects)}
    first = start_child(agent_processes.stay_inside_the_tool, session_id="s0", **shared)
    first.expect("inside")
    second = start_child(agent_processes.wait_for_the_other, session_id="s1", **shared)
    second.expect("waiting")
    first.tell()

    assert second.result() == "welcomed bob"
    assert first.result() == {"dispatch": "welcomed bob", "save": 2, "finish": None}
    assert effects.read_text() == "welcome bob\n"


def test_waiter_is_notified_when_the_executing_process_is_killed(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    shared = {"url": database_url(), "effects": str(effects)}
    first = start_child(agent_processes.stay_inside_the_tool, session_id="s0", **shared)
    first.expect("inside")
    second = start_child(agent_processes.wait_for_the_other, session_id="s1", **shared)
    second.expect("waiting")
    first.kill()

    assert second.result() == "ReviewRequired"
    assert effects.read_text() == "welcome bob\n"
    (call,) = cp.pending_tool_calls("s0")
    assert call["alive"] is False
