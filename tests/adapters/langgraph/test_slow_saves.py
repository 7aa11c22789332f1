"""Saves that take longer than the model and its tools: a guarded call waits for the state with its message."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver
from checkpoints.adapters.langgraph.saver import _STATE_POLLS
from checkpoints.models import ToolCall
from examples.langgraph_refunds.agent import POLICIES, ScriptedModel, build_tools
from tests.adapters.langgraph.agents import QUESTION, config


class SlowSaver(HarnessSaver):
    """Saver whose database is slow, above all for subgraphs, which make calls before their first state is stored."""

    def put(self, config: RunnableConfig, *args: Any) -> Any:
        time.sleep(0.3 if config["configurable"].get("checkpoint_ns") else 0.1)
        return super().put(config, *args)


class CountingSaver(SlowSaver):
    """Slow saver that counts the pauses in which a call waits for a state."""

    pauses = 0

    def iterate_pauses_until_states_are_stored(self, config: RunnableConfig) -> Iterator[float]:
        for seconds in super().iterate_pauses_until_states_are_stored(config):
            self.pauses += 1
            yield seconds


class ModelWithOneId(ScriptedModel):
    """Model that refunds the orders one after another, and gives each call the same id, as some models do."""

    def _build_next_message(self, place: int, results: Sequence[BaseMessage]) -> AIMessage:
        if len(results) < len(self.orders):
            args = {"order": self.orders[len(results)], "amount": 40}
            return AIMessage("", tool_calls=[{"name": "refund", "args": args, "id": "call_0"}])
        return AIMessage("; ".join(str(result.content) for result in results))


def build_agent(saver: HarnessSaver, effects: Path, orders: list[int], place: str) -> Any:
    def build(checkpointer: Any) -> Any:
        return create_agent(
            ModelWithOneId(orders=orders),
            build_tools(effects, lambda moment: None),
            checkpointer=checkpointer,
            middleware=[HarnessMiddleware(saver, POLICIES)],
        )

    if place == "root":
        return build(saver)
    graph = StateGraph(MessagesState).add_node("team", build(None if place == "subgraph" else False))
    return graph.add_edge(START, "team").compile(checkpointer=saver)


@pytest.mark.parametrize("orders", [[17, 18], [17, 17]])
@pytest.mark.parametrize("place", ["root", "subgraph"])
def test_calls_with_one_id_have_one_effect_each(
    cp: SyncCheckpointer, effects: Path, place: str, orders: list[int]
) -> None:
    state = build_agent(SlowSaver(cp), effects, orders, place).invoke(QUESTION, config(), durability="async")
    assert state["messages"][-1].content == "; ".join(f"refunded 40 for order {order}" for order in orders)
    assert effects.read_text().split() == [str(order) for order in orders]


def test_calls_of_an_async_agent_name_the_version_with_their_message(cp: SyncCheckpointer, effects: Path) -> None:
    async def run() -> None:
        async with Checkpointer() as client:
            await build_agent(SlowSaver(client), effects, [17, 17], "root").ainvoke(QUESTION, config())

    asyncio.run(run())
    assert effects.read_text().split() == ["17", "17"]
    steps = ToolCall.objects.order_by("pk").values_list("step", flat=True)
    transcripts = [cp.load("s", step)["transcript"] for step in steps]
    assert [[message["role"] for message in each] for each in transcripts] == [
        ["user", "assistant"],
        ["user", "assistant", "tool", "assistant"],
    ]


def test_a_call_of_a_subgraph_without_saved_states_does_not_wait(cp: SyncCheckpointer, effects: Path) -> None:
    saver = CountingSaver(cp)
    state = build_agent(saver, effects, [17], "subgraph that saves nothing").invoke(QUESTION, config())
    assert [type(message) for message in state["messages"][-2:]] == [ToolMessage, AIMessage]
    assert saver.pauses < _STATE_POLLS  # it waited for the state of the root graph only, and not until the last poll
