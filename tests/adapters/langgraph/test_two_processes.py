"""Two processes with an agent on one thread at the same time, and one that dies: each effect happens once."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.models import Run, ToolCall
from tests.adapters.langgraph.agents import config
from tests.adapters.langgraph.two_processes import run_agent
from tests.conftest import StartChild
from tests.support.exhaustive_mode import mark_all_but_combinations, mark_all_but_each
from tests.support.processes import Child, database_url


def wait_until_in_tool(hold: Path, child: Child) -> None:
    deadline = time.monotonic() + 60
    while not Path(f"{hold} reached").exists():
        assert time.monotonic() < deadline
        assert child.code is None
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("durability", "continues"), mark_all_but_combinations(["sync", "async", "exit"], [False, True])
)
def test_the_second_process_on_a_thread_makes_no_call_and_nothing_of_the_first_is_lost(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, tmp_path: Path, durability: str, continues: bool
) -> None:
    about: Any = {"url": database_url(), "effects": str(effects), "durability": durability}
    hold = tmp_path / "hold"
    hold.touch()
    first = start_child(run_agent, **about, hold=str(hold))
    wait_until_in_tool(hold, first)
    second = start_child(run_agent, **about, continues=continues and durability != "exit")
    assert second.result() == "SessionBusy"
    hold.unlink()
    assert first.result() == "refunded 40 for order 17"
    assert effects.read_text().splitlines() == ["17"]
    assert ToolCall.objects.get().status == "completed"
    latest = HarnessSaver(cp).get_tuple(config())
    assert latest is not None
    messages = latest.checkpoint["channel_values"]["messages"]
    assert [each.content for each in messages if isinstance(each, ToolMessage)][-1] == "refunded 40 for order 17"
    transcript = (cp.load_latest("s") or {})["transcript"]
    assert len(transcript) == len(messages)
    assert not Run.objects.filter(status="running").exists()


@pytest.mark.parametrize("durability", mark_all_but_each(2, ["sync", "async"]))
def test_two_processes_that_continue_a_thread_after_a_decision_have_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, durability: str
) -> None:
    about: Any = {"url": database_url(), "effects": str(effects), "durability": durability}
    assert start_child(run_agent, **about, dies=True).died_by() == signal.SIGKILL
    asking = [start_child(run_agent, **about, continues=True) for _ in range(2)]
    said = {child.result() for child in asking}
    assert said <= {"review_required", "SessionBusy", "OwnershipLost"}
    (call,) = cp.pending_tool_calls("s")
    decide: Any = {"actor": "alice", "reason": "The bank has none.", "revision": call["revision"]}
    cp.mark_failed("s", call["call_id"], **decide)
    resumed = [start_child(run_agent, **about, continues=True) for _ in range(2)]
    said = {child.result() for child in resumed}
    assert said <= {"refunded 40 for order 17", "SessionBusy", "OwnershipLost"}
    assert start_child(run_agent, **about, continues=True).result() == "refunded 40 for order 17"
    assert effects.read_text().splitlines() == ["17"] * 2
    assert not Run.objects.filter(status="running").exists()
