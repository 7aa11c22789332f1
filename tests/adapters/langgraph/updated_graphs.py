"""Graphs that a program resumes, or whose state it changes itself, in processes that are killed at a write."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import StateUpdate, interrupt

from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.testing import Fault, fault_at
from tests.adapters.langgraph.agents import config


def _add_all(before: list[str], writes: list[list[str]]) -> list[str]:
    return [*before, *(item for write in writes for item in write)]


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    log: Annotated[list[str], operator.add]
    steps: Annotated[list[str], DeltaChannel(_add_all)]


def write(name: str, text: str = "") -> Any:
    return {"messages": [AIMessage(text or name, id=f"{name} {text}")], "log": [name], "steps": [name]}


def build_graph(saver: Any) -> Any:
    """Build a graph that drafts, asks, and sends what the answer is."""
    graph = StateGraph(State).add_node("draft", lambda _: write("draft"))
    graph.add_node("ask", lambda _: write("ask", interrupt("Send it?")))
    graph.add_node("send", lambda _: write("send")).add_edge(START, "draft")
    return graph.add_edge("draft", "ask").add_edge("ask", "send").compile(checkpointer=saver)


QUESTION: Any = {"messages": [HumanMessage("Write.", id="question")], "log": ["input"], "steps": ["input"]}
ANSWER = StateUpdate(write("ask", "by hand"), "ask")
#: Supersteps of each update of a thread that waits for an answer; the one of a new thread is the last.
UPDATES: dict[str, list[list[StateUpdate]]] = {
    "answer": [[ANSWER]],
    "end": [[StateUpdate(None, "__end__")]],
    "two tasks": [[StateUpdate(write("draft", "again"), "draft"), ANSWER]],
    "two steps": [[ANSWER], [StateUpdate(QUESTION, "__input__")]],
    "copy": [[StateUpdate(None, "__copy__")]],
    "new": [[StateUpdate(QUESTION, "__input__")], [StateUpdate(write("draft"), "draft")]],
}


def update(saver: Any, name: str, place: Any) -> None:
    """Update a state with the method that suits the update."""
    graph, (first, *more) = build_graph(saver), UPDATES[name]
    if more or len(first) > 1 or name == "end":
        graph.bulk_update_state(place, UPDATES[name])
    else:
        graph.update_state(place, first[0].values, first[0].as_node)


async def aupdate(saver: Any, name: str, place: Any) -> None:
    """Update a state with the async method that suits the update."""
    graph, (first, *more) = build_graph(saver), UPDATES[name]
    if more or len(first) > 1 or name == "end":
        await graph.abulk_update_state(place, UPDATES[name])
    else:
        await graph.aupdate_state(place, first[0].values, first[0].as_node)


def update_in_child(url: str, name: str, place: Any, number: int, is_async: bool) -> int:
    """Update a state, and die at a write boundary. Returns the number of boundaries if there is no such one."""

    async def run() -> None:
        async with HarnessSaver.aopen(url) as saver:
            await aupdate(saver, name, place)

    with fault_at(number, Fault.KILL) as boundaries:
        if is_async:
            asyncio.run(run())
        else:
            with HarnessSaver.open(url) as saver:
                update(saver, name, place)
    return len(boundaries)


def resume_in_child(url: str, thread_id: str, number: int, durability: Any) -> int:
    """Resume a thread as a person has decided, and die at a write boundary. Returns what `update_in_child` returns."""
    with HarnessSaver.open(url) as saver:
        command = saver.build_resume(config(thread_id))
        with fault_at(number, Fault.KILL) as boundaries:
            build_graph(saver).invoke(command, config(thread_id), durability=durability)
    return len(boundaries)


def start(saver: Any, name: str, thread_id: str) -> Any:
    """Start a thread that waits for an answer, or none, and return the config of its newest state."""
    if name == "new":
        return config(thread_id)
    graph = build_graph(saver)
    graph.invoke(QUESTION, config(thread_id))
    return graph.get_state(config(thread_id)).config
