"""Forks of a thread around its questions: a question names the version whose messages the graph had when it asked."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.models import ToolCall
from tests.adapters.langgraph.agents import config
from tests.adapters.langgraph.reviewed_agents import NAMES, QUESTION, build_agent
from tests.support.exhaustive_mode import mark_all_but_combinations

DURABILITIES = ["sync", "async", "exit"]


def say(text: str) -> dict[str, Any]:
    return {"messages": [AIMessage(text, id=text)]}


def build_interview(saver: Any, place: str) -> Any:
    """Build a graph that says something, asks, says more without a message, and asks again; in a subgraph or not."""
    graph = StateGraph(MessagesState).add_node("first", lambda state: say("First question."))
    graph.add_node("ask", lambda state: say(f"You say {interrupt('Which one?')}."))
    graph.add_node("think", lambda state: {"messages": []})
    graph.add_node("ask again", lambda state: say(f"Then you say {interrupt('Are you sure?')}."))
    graph.add_edge(START, "first").add_edge("first", "ask").add_edge("ask", "think").add_edge("think", "ask again")
    if place == "root":
        return graph.compile(checkpointer=saver)
    inner = graph.compile()
    outer = StateGraph(MessagesState).add_node("greet", lambda state: say("Hello."))
    outer.add_node("team", inner if place == "subgraph" else lambda state: inner.invoke(state))
    return outer.add_edge(START, "greet").add_edge("greet", "team").compile(checkpointer=saver)


def list_texts(cp: SyncCheckpointer, session_id: str, version: int) -> list[str]:
    transcript = cp.load(session_id, version)["transcript"] if version else []
    return [message["content"] for message in transcript]


def list_texts_of_forks(cp: SyncCheckpointer, name: str) -> dict[int, list[str]]:
    """Fork the session at each version. Returns what the forks say, by version."""
    found = {}
    for version in [each["version"] for each in cp.list_checkpoints("s")]:
        cp.fork_session("s", f"{name}-{version}", version=version)
        found[version] = list_texts(cp, f"{name}-{version}", 1)
    return found


def get_waiting_texts(graph: Any, place: Any) -> list[str]:
    """Return the messages of the root state that waits for an answer."""
    return [message.content for message in graph.get_state(place).values["messages"]]


@pytest.mark.parametrize(
    ("place", "durability"), mark_all_but_combinations(["root", "subgraph", "call of a subgraph"], DURABILITIES)
)
def test_the_fork_at_the_version_of_a_question_has_what_the_graph_had_when_it_asked(
    cp: SyncCheckpointer, place: str, durability: Any
) -> None:
    saver = HarnessSaver(cp)
    graph = build_interview(saver, place)
    value: Any = {"messages": [HumanMessage("hi", id="hi")]}
    for number in (1, 2):
        graph.invoke(value, config(), durability=durability)
        waiting = get_waiting_texts(graph, config())
        assert "Hello." in waiting or "First question." in waiting
        (call,) = ToolCall.objects.filter(status="awaiting_approval")
        texts = list_texts_of_forks(cp, f"fork-{number}")
        assert texts[call.step] == waiting
        assert [version for version, said in texts.items() if said == waiting] == [call.step]
        cp.respond_call("s", call.call_id, "this", actor="alice", revision=call.revision)
        value = saver.build_resume(config())
        assert (value is not None, ToolCall.objects.filter(session__session_id="s").count()) == (True, number)


@pytest.mark.parametrize("place", ["root", "subgraph"])
def test_an_async_graph_asks_at_the_version_with_its_messages(cp: SyncCheckpointer, place: str) -> None:
    async def run() -> None:
        async with Checkpointer() as client:
            await build_interview(HarnessSaver(client), place).ainvoke(QUESTION, config())

    asyncio.run(run())
    assert list_texts(cp, "s", ToolCall.objects.get().step) == get_waiting_texts(
        build_interview(HarnessSaver(cp), place), config()
    )


@pytest.mark.parametrize(("mode", "durability"), mark_all_but_combinations(["batched", "per_call"], DURABILITIES))
def test_calls_of_one_message_are_asked_about_at_the_version_with_that_message(
    cp: SyncCheckpointer, mode: str, durability: Any
) -> None:
    build_agent(HarnessSaver(cp), [], mode).invoke(QUESTION, config(), durability=durability)
    latest = max(each["version"] for each in cp.list_checkpoints("s"))
    assert dict(ToolCall.objects.values_list("call_id", "step")) == {f"call_{name}": latest for name in NAMES}
    assert len(cp.load("s", latest)["transcript"]) == 2


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_question_that_is_asked_again_in_an_older_state_names_the_older_version(
    cp: SyncCheckpointer, durability: Any
) -> None:
    saver = HarnessSaver(cp)
    graph = build_interview(saver, "root")
    graph.invoke(QUESTION, config(), durability="sync")
    first = ToolCall.objects.get()
    graph.invoke(Command(resume="that"), config(), durability="sync")
    graph.invoke(Command(resume="yes"), config(), durability="sync")
    asked = {
        state.next: state.config
        for state in graph.get_state_history(config())
        if state.next and state.values.get("messages")
    }
    for node, texts in ((("ask",), 2), (("ask again",), 3)):
        graph.invoke(None, asked[node], durability=durability)
        (call,) = ToolCall.objects.filter(status="awaiting_approval")
        assert len(list_texts(cp, "s", call.step)) == texts == len(get_waiting_texts(graph, config()))
        assert (call.step == first.step) == (node == ("ask",))
