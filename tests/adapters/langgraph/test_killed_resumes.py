"""SIGKILL at each write of a graph that continues as a person has decided: the session is ready to resume until the
decision is in a state, and the graph ends the same."""

import signal
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.models import Session, ToolCall
from tests.adapters.langgraph import updated_graphs
from tests.adapters.langgraph.agents import config
from tests.conftest import StartChild
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import Child, database_url


@pytest.mark.parametrize("durability", mark_all_but_each(2, ["sync", "exit"]))
def test_a_session_is_ready_after_a_kill_exactly_while_its_graph_waits_to_be_resumed(
    cp: SyncCheckpointer, start_child: StartChild, durability: str
) -> None:
    def start_resume(thread_id: str, number: int) -> Child:
        updated_graphs.start(HarnessSaver(cp), "answer", thread_id)
        call = ToolCall.objects.get(session__session_id=thread_id)
        cp.respond_call(thread_id, call.call_id, "Yes.", actor="alice", revision=call.revision)
        about: Any = {"url": database_url(), "thread_id": thread_id, "durability": durability}
        return start_child(updated_graphs.resume_in_child, **about, number=number)

    boundaries = start_resume("complete", 0).result()
    assert Session.objects.get().status == "active"
    seen = []
    for number in range(1, boundaries + 1):
        thread_id = f"killed-{number}"
        assert start_resume(thread_id, number).died_by() == signal.SIGKILL
        saver = HarnessSaver(cp)
        status, command = Session.objects.get(session_id=thread_id).status, saver.build_resume(config(thread_id))
        assert status == ("active" if command is None else "ready")
        seen.append(status)
        state = updated_graphs.build_graph(saver).invoke(command, config(thread_id))
        assert state["log"] == ["input", "draft", "ask", "send"]
        assert (cp.list_sessions(status="ready"), saver.build_resume(config(thread_id))) == ([], None)
    assert seen == sorted(seen, reverse=True)
    assert set(seen) == {"ready", "active"}
