"""History of delta channels: the same as of LangGraph's own saver, for random trees of checkpoints and for graphs."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import END, START, StateGraph

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver

CHANNELS = ["a", "b"]
tasks = st.tuples(st.sampled_from(["1", "2", "3"]), st.sampled_from(["", "~pull, 01", "~pull, 02"]))
steps = st.lists(
    st.fixed_dictionaries(
        {
            "parent": st.integers(0, 5),
            "stored": st.dictionaries(st.sampled_from(CHANNELS), st.sampled_from(["snapshot", "plain"]), max_size=2),
            "writes": st.dictionaries(tasks, st.lists(st.sampled_from(CHANNELS), max_size=2), max_size=3),
        }
    ),
    min_size=1,
    max_size=6,
)


async def _read_histories(saver: Any, program: list[dict[str, Any]]) -> list[Any]:
    """Store a tree of checkpoints, and return the histories of the channels at each of them."""
    configs: list[Any] = []
    for number, step in enumerate(program):
        parent = configs[step["parent"] % number] if number else _build_config()
        values = {
            name: _DeltaSnapshot([number]) if kind == "snapshot" else [number] for name, kind in step["stored"].items()
        }
        versions = dict.fromkeys(values, number + 1)
        checkpoint: Any = {
            **empty_checkpoint(),
            "id": f"1f0c0000-0000-6000-8000-{number:012}",
            "channel_values": values,
            "channel_versions": versions,
        }
        configs.append(await saver.aput(parent, checkpoint, {"step": number}, versions))
        for (task_id, path), channels in step["writes"].items():
            await saver.aput_writes(configs[-1], [(name, f"{number} {task_id}") for name in channels], task_id, path)
    found = []
    for config in configs:
        histories = await saver.aget_delta_channel_history(config=config, channels=CHANNELS)
        found.append(
            {
                name: ([write[1:] for write in history["writes"]], repr(history.get("seed", "none")))
                for name, history in histories.items()
            }
        )
    return found


def _build_config() -> Any:
    return {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}


@given(steps)
@settings(max_examples=15)
def test_random_trees_have_the_histories_of_langgraphs_own_saver(
    cp: SyncCheckpointer, program: list[dict[str, Any]]
) -> None:
    async def play() -> tuple[list[Any], list[Any]]:
        ours = HarnessSaver(cp)
        await ours.adelete_thread("s")
        return await _read_histories(ours, program), await _read_histories(InMemorySaver(), program)

    ours, theirs = asyncio.run(play())
    assert ours == theirs


def _append(state: list[str], writes: Any) -> list[str]:
    return [*state, *(item for write in writes for item in write)]


class _State(TypedDict):
    log: Annotated[list[str], DeltaChannel(_append, snapshot_frequency=3)]
    count: Annotated[int, operator.add]


def _build_graph(saver: Any) -> Any:
    graph = StateGraph(_State)
    graph.add_node("work", lambda state: {"log": [f"after {len(state['log'])}"], "count": 1})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: END if state["count"] % 4 == 0 else "work")
    return graph.compile(checkpointer=saver)


def test_graph_with_a_delta_channel_is_rebuilt_in_another_process_and_after_pruning(workspace: object) -> None:
    async def play(open_saver: Any) -> list[Any]:
        read = []
        for turn in range(3):
            async with open_saver() as saver:
                graph = _build_graph(saver)
                state = await graph.ainvoke({"log": [f"turn {turn}"], "count": 0}, _build_config())
                history = [snapshot.values async for snapshot in graph.aget_state_history(_build_config())]
                read.append((state, history))
        async with open_saver() as saver:
            if isinstance(saver, HarnessSaver):
                await saver.aprune(["s"])
            read.append((await _build_graph(saver).aget_state(_build_config())).values)
        return read

    class _Own:
        saver = InMemorySaver()

        async def __aenter__(self) -> InMemorySaver:
            return self.saver

        async def __aexit__(self, *exception: object) -> None:
            """Keep the saver, which has no database."""

    class _Ours:
        async def __aenter__(self) -> HarnessSaver:
            self.client = Checkpointer()
            return HarnessSaver(self.client)

        async def __aexit__(self, *exception: object) -> None:
            await self.client.close()

    assert asyncio.run(play(_Ours)) == asyncio.run(play(_Own))
