"""SIGKILL at each write of `update_state` and `bulk_update_state`: what is stored is what LangGraph's own saver has
after the same writes, and the same update again leaves what one that is not killed leaves."""

import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.db import connection
from langgraph.checkpoint.memory import InMemorySaver

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from tests.adapters.langgraph import updated_graphs
from tests.adapters.langgraph.agents import config
from tests.conftest import StartChild
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.processes import Child, database_url


class _WriteNotMade(Exception):
    pass


class _StoppedSaver(InMemorySaver):
    """LangGraph's own saver, which stops before a write."""

    writes_left: float = float("inf")

    def _count_write(self) -> None:
        if self.writes_left < 1:
            raise _WriteNotMade
        self.writes_left -= 1

    def put(self, *args: Any) -> Any:
        self._count_write()
        return super().put(*args)

    def put_writes(self, *args: Any) -> None:
        self._count_write()
        super().put_writes(*args)


def _describe_values(values: Any) -> dict[str, Any]:
    """Describe values. LangGraph orders the writes of a step to a delta channel by the tasks' identifiers, which are
    random."""
    described = {name: [getattr(item, "content", item) for item in value] for name, value in values.items()}
    return {**described, "steps": sorted(described.get("steps", []))}


def _describe_history(saver: Any, thread_id: str) -> list[Any]:
    """Describe the states of a thread, newest first, each with the number of its parent."""
    states = list(updated_graphs.build_graph(saver).get_state_history(config(thread_id)))
    numbers = {state.config["configurable"]["checkpoint_id"]: number for number, state in enumerate(states)}
    return [
        (
            _describe_values(state.values),
            state.next,
            state.metadata["source"],
            state.metadata["step"],
            state.parent_config and numbers[state.parent_config["configurable"]["checkpoint_id"]],
            [
                (task.name, task.error, [each.value for each in task.interrupts], bool(task.result))
                for task in state.tasks
            ],
        )
        for state in states
    ]


def _count_open_questions(saver: Any, thread_id: str) -> int:
    """Count the interrupts of tasks of the newest state that neither a person nor an update has answered."""
    state = updated_graphs.build_graph(saver).get_state(config(thread_id))
    return sum(len(task.interrupts) for task in state.tasks if not task.result)


def _go_on(saver: Any, name: str, place: Any, thread_id: str) -> list[Any]:
    """Update again from the same state, as a program that was started again, and let the graph go on."""
    updated_graphs.update(saver, name, place)
    updated_graphs.build_graph(saver).invoke(None, config(thread_id))
    return _describe_history(saver, thread_id)


def _list_stopped_histories(name: str) -> Iterator[tuple[list[Any], list[Any]]]:
    """Iterate over what LangGraph's own saver has after each number of writes, and after the same update again."""
    for number in count():
        saver = _StoppedSaver()
        place = updated_graphs.start(saver, name, "s")
        saver.writes_left, is_complete = number, True
        try:
            updated_graphs.update(saver, name, place)
        except _WriteNotMade:
            is_complete = False
        saver.writes_left = float("inf")
        stopped = _describe_history(saver, "s")
        yield stopped, _go_on(saver, name, place, "s")
        if is_complete:
            return


@pytest.mark.parametrize(
    ("name", "is_async"),
    mark_all_but_each(
        3,
        [(name, bool(number % 2)) for number, name in enumerate(updated_graphs.UPDATES)],
        first=int(connection.vendor == "postgresql"),
    ),
)
def test_an_update_that_is_killed_and_repeated_leaves_what_langgraphs_saver_has(
    cp: SyncCheckpointer, start_child: StartChild, name: str, is_async: bool
) -> None:
    expected, seen = list(_list_stopped_histories(name)), 0

    def start_update(thread_id: str, number: int) -> tuple[Any, Child]:
        place = updated_graphs.start(HarnessSaver(cp), name, thread_id)
        about = {"url": database_url(), "name": name, "place": place, "number": number, "is_async": is_async}
        return place, start_child(updated_graphs.update_in_child, **about)

    _, complete = start_update("complete", 0)
    boundaries = complete.result()
    assert _describe_history(HarnessSaver(cp), "complete") == expected[-1][0]
    assert boundaries >= 2
    for number in range(1, boundaries + 1):
        thread_id = f"killed-{number}"
        place, child = start_update(thread_id, number)
        assert child.died_by() == signal.SIGKILL
        saver = HarnessSaver(cp)
        stored = _describe_history(saver, thread_id)
        found = [position for position, (stopped, _) in enumerate(expected) if stopped == stored]
        assert found, stored
        assert found[-1] >= seen
        seen = found[-1]
        assert len(cp.pending_tool_calls(thread_id)) == _count_open_questions(saver, thread_id)
        assert _go_on(saver, name, place, thread_id) in [expected[position][1] for position in found]
        waiting = updated_graphs.build_graph(saver).get_state(config(thread_id)).interrupts
        assert len(cp.pending_tool_calls(thread_id)) == len(waiting)
    assert seen == len(expected) - 1
