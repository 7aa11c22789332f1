"""Forks of a thread that waits inside a subgraph: each of them ends as with LangGraph's own saver in memory."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from tests.adapters.langgraph.agents import config
from tests.conftest import Open


def build_graph(saver: Any, *, keeps_states: bool) -> Any:
    """Build a graph whose subgraph says something, and then asks. `keeps_states` is whether that has its own memory."""

    def say(text: str, messages: list[Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(text, id=f"{text}-{len(messages)}")]}

    def ask(state: MessagesState) -> dict[str, Any]:
        return say(f"chose {interrupt('Which one?')}", state["messages"])

    inner = StateGraph(MessagesState).add_node("look", lambda state: say("looked", state["messages"]))
    inner.add_node("ask", ask).add_edge(START, "look").add_edge("look", "ask")
    outer = StateGraph(MessagesState).add_node("inner", inner.compile(checkpointer=keeps_states or None))
    outer.add_node("end", lambda state: say("ended", state["messages"]))
    return outer.add_edge(START, "inner").add_edge("inner", "end").compile(checkpointer=saver)


def list_texts(values: Any) -> list[str]:
    return [message.content for message in values["messages"]]


def play(saver: Any, durability: Any, *, keeps_states: bool) -> list[Any]:
    """Answer a question, fork before the answer, fork inside of the subgraph, and go on. Returns what was said."""
    graph, seen = build_graph(saver, keeps_states=keeps_states), list[Any]()

    def invoke(value: Any, place: Any) -> None:
        seen.append(list_texts(graph.invoke(value, place, durability=durability)))

    invoke({"messages": [HumanMessage("hi", id="hi")]}, config())
    asked = graph.get_state(config()).config
    invoke(Command(resume="A"), config())
    invoke(Command(resume="B"), asked)
    (task,) = graph.get_state(asked, subgraphs=True).tasks
    seen.append((list_texts(task.state.values), task.state.next))
    edited = graph.update_state(task.state.config, {"messages": [AIMessage("edited", id="edited")]})
    invoke(None, edited)
    invoke(Command(resume="C"), config())
    invoke({"messages": [HumanMessage("again", id="again")]}, config())
    history = [(state.metadata["source"], state.next, len(state.tasks)) for state in graph.get_state_history(config())]
    return [*seen, history]


@pytest.mark.parametrize(("durability", "keeps_states"), [("sync", False), ("exit", True)])
def test_forks_of_a_subgraph_end_as_in_memory(
    cp: SyncCheckpointer, open_checkpointer: Open, durability: str, keeps_states: bool
) -> None:
    expected = play(InMemorySaver(), durability, keeps_states=keeps_states)
    saver = HarnessSaver(cp)
    assert play(saver, durability, keeps_states=keeps_states) == expected
    latest = cp.load_latest("s")
    assert latest is not None
    said = list_texts(saver.get_tuple(config()).checkpoint["channel_values"])  # type: ignore[union-attr]
    assert [message["content"] for message in latest["transcript"]] == said

    saver.copy_thread("s", "copy")
    graph = build_graph(HarnessSaver(open_checkpointer()), keeps_states=keeps_states)
    place: Any = {"configurable": {"thread_id": "copy"}}
    (task,) = graph.get_state(place, subgraphs=True).tasks
    assert list_texts(task.state.values)[-2:] == ["again", "looked"]
    assert list_texts(graph.invoke(Command(resume="E"), place))[-3:] == ["looked", "chose E", "ended"]
