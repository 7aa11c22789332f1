"""Agents of LangChain with the guard: transcripts, replays, approvals, branches, subgraphs."""

import asyncio
import json
import random
import threading
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import PrivateAttr

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies
from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver, ToolGuard
from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.exceptions import InvalidInput, SessionBusy
from checkpoints.framework_states import state_store
from checkpoints.models import Blob, Checkpoint, Run, Session, ToolCall
from checkpoints.versions.framework_value_blobs import convert_value_to_json
from examples.kill_and_decision_helpers import make_kill_at_moment_function
from examples.langgraph_refunds.agent import POLICIES, ScriptedModel, build_agent, build_tools
from tests.adapters.langgraph.agents import QUESTION, config
from tests.support.processes import database_url, wait_until

Open = Callable[..., SyncCheckpointer]


def _ask(call_id: str, name: str = "send", **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": call_id}])


def _build_tool_graph(saver: HarnessSaver, run: Any, policies: ToolPolicies | None = None) -> Any:
    """Build a graph that makes the calls of its input."""
    guarded = ToolGuard(saver, policies)
    node = ToolNode([run], wrap_tool_call=guarded.wrap_tool_call, awrap_tool_call=guarded.awrap_tool_call)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools")
    return graph.compile(checkpointer=saver)


def _roles(cp: SyncCheckpointer, session_id: str = "s") -> list[str]:
    latest = cp.load_latest(session_id)
    assert latest is not None
    return [message["role"] for message in latest["transcript"]]


def test_a_thread_is_a_session_that_reads_like_any_other(cp: SyncCheckpointer, effects: Path) -> None:
    agent = build_agent(HarnessSaver(cp), effects)
    agent.invoke(QUESTION, config())
    turn = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert _roles(cp) == turn
    latest = cp.load_latest("s")
    assert latest is not None
    call, result = latest["transcript"][3]["content"], latest["transcript"][4]
    assert [(part["type"], part["name"], part["input"]) for part in call] == [
        ("tool_use", "refund", {"order": 17, "amount": 40})
    ]
    assert (result["tool_call_id"], result["content"]) == (call[0]["id"], "refunded 40 for order 17")
    session = Session.objects.get()
    assert (session.agent, session.title, session.owner) == ("langgraph", "Please refund my orders.", None)
    assert [(call.tool, call.status, call.sentence) for call in ToolCall.objects.all()] == [
        ("refund", "completed", "Refund 40 for order 17")
    ]
    agent.invoke(QUESTION, config())  # the customer asks for another one: that is no repetition
    assert effects.read_text() == "17\n17\n"
    assert _roles(cp) == [*turn, *turn]
    assert Run.objects.count() == 2


def test_transcript_is_whole_after_its_newest_version_was_deleted(cp: SyncCheckpointer) -> None:
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    agent = graph.compile(checkpointer=HarnessSaver(cp))
    agent.invoke({"messages": [HumanMessage("one")]}, config())
    cp.delete_checkpoint("s", cp.list_checkpoints("s")[0]["version"])
    agent.invoke({"messages": [HumanMessage("two")]}, config())
    latest = cp.load_latest("s")
    assert latest is not None
    said = [message["content"] for message in latest["transcript"]]
    assert said == ["one", "answer to one", "two", "answer to two"]


def test_an_async_agent_is_the_same(workspace: object, effects: Path) -> None:
    async def run() -> Any:
        async with Checkpointer() as client:
            agent = build_agent(HarnessSaver(client), effects)
            return await agent.ainvoke(QUESTION, config())

    state = asyncio.run(run())
    assert (state["messages"][-1].content, effects.read_text()) == ("refunded 40 for order 17", "17\n")


def test_a_replayed_value_is_equal_under_another_call_id(cp: SyncCheckpointer) -> None:
    sent: list[str] = []

    @tool(response_format="content_and_artifact")
    def send(to: str) -> tuple[str, dict[str, str]]:
        """Send a mail."""
        sent.append(to)
        return f"sent to {to}", {"receipt": "r-1"}

    saver = HarnessSaver(cp)
    policies = ToolPolicies(idempotency="once")
    results = [
        _build_tool_graph(saver, send, policies).invoke({"messages": [_ask(call_id, to="bob")]}, config())["messages"][
            -1
        ]
        for call_id in ("call_1", "call_2")
    ]
    assert sent == ["bob"]
    assert [(result.content, result.artifact, result.tool_call_id) for result in results] == [
        ("sent to bob", {"receipt": "r-1"}, "call_1"),
        ("sent to bob", {"receipt": "r-1"}, "call_2"),
    ]


def test_a_command_is_replayed_as_a_command(cp: SyncCheckpointer) -> None:
    sent: list[str] = []

    @tool
    def send(to: str) -> Command[Any]:
        """Send a mail."""
        sent.append(to)
        return Command(update={"messages": [ToolMessage("sent", tool_call_id="call_1")]})

    graph = _build_tool_graph(HarnessSaver(cp), send, ToolPolicies(idempotency="once"))
    graph.invoke({"messages": [_ask("call_1", to="bob")]}, config())
    state = graph.invoke({"messages": [_ask("call_2", to="bob")]}, config())
    assert (sent, state["messages"][-1].tool_call_id) == (["bob"], "call_2")


def test_an_approval_is_an_interrupt(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    sent: list[str] = []

    @tool
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return f"sent to {to}"

    policies = ToolPolicies({"send": {"requires_approval": True}})
    graph = _build_tool_graph(HarnessSaver(cp), send, policies)
    state = graph.invoke({"messages": [_ask("call_1", to="bob")]}, config())
    (gate,) = state["__interrupt__"]
    assert (gate.value["type"], gate.value["calls"][0]["tool_name"]) == ("approval_required", "send")
    state = graph.invoke(Command(resume=True), config())  # nobody has decided yet
    assert state["__interrupt__"]
    assert sent == []
    call = ToolCall.objects.get()
    cp.edit_call("s", "call_1", {"to": "carol"}, actor="alice", reason="Moved.", revision=call.revision)
    call.refresh_from_db()
    cp.approve_call("s", "call_1", actor="alice", reason="Read.", revision=call.revision)
    elsewhere = _build_tool_graph(HarnessSaver(open_checkpointer()), send, policies)
    state = elsewhere.invoke(Command(resume=True), config())
    assert (sent, state["messages"][-1].content) == (["carol"], "sent to carol")
    graph.invoke({"messages": [_ask("call_2", to="dave")]}, config())
    call = ToolCall.objects.get(call_id="call_2")
    cp.reject_call("s", "call_2", "Not today.", actor="alice", revision=call.revision)
    state = graph.invoke(Command(resume=True), config())
    last = state["messages"][-1]
    assert (last.content, last.status, sent) == ("Not today.", "error", ["carol"])


def test_an_error_of_a_tool_stops_the_graph_and_frees_the_session(cp: SyncCheckpointer) -> None:
    answers = iter([ValueError("no such address"), None])

    @tool
    def send(to: str) -> str:
        """Send a mail."""
        error = next(answers)
        if error is not None:
            raise error
        return "sent"

    saver = HarnessSaver(cp)
    calls = AIMessage("", tool_calls=[{"name": "send", "args": {"to": "bob"}, "id": "call_1"}])

    class Model(ScriptedModel):
        def _build_next_message(self, place: int, results: Any) -> AIMessage:
            return AIMessage("done") if results else calls

    agent = create_agent(Model(), [send], checkpointer=saver, middleware=[HarnessMiddleware(saver)])
    with pytest.raises(ValueError, match="no such address"):
        agent.invoke(QUESTION, config())
    assert not cp.store.list_owned_sessions()
    state = agent.invoke(None, config())
    assert state["messages"][-1].content == "done"
    assert [call.status for call in ToolCall.objects.order_by("pk")] == ["failed", "completed"]


class _FailOnce(AgentMiddleware[Any, Any]):
    """Middleware that fails once, after a refund."""

    def __init__(self) -> None:
        super().__init__()
        self._errors = [ValueError("no policy for this")]

    def before_model(self, state: Any, runtime: Any) -> None:
        if self._errors and any(message.name == "refund" for message in state["messages"]):
            raise self._errors.pop()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_error_of_another_node_frees_the_session(
    cp: SyncCheckpointer, open_checkpointer: Open, effects: Path, durability: Any
) -> None:
    saver = HarnessSaver(cp)
    guard = HarnessMiddleware(saver, POLICIES)
    tools = build_tools(effects, make_kill_at_moment_function(None))
    agent = create_agent(ScriptedModel(), tools, checkpointer=saver, middleware=[guard, _FailOnce()])
    with pytest.raises(ValueError, match="no policy for this"):
        agent.invoke(QUESTION, config(), durability=durability)
    assert not cp.store.list_owned_sessions()
    other = HarnessSaver(open_checkpointer())
    state = build_agent(other, effects).invoke(None, config(), durability=durability)
    assert state["messages"][-1].content == "refunded 40 for order 17"
    assert effects.read_text().split() == ["17"]


def test_a_stream_that_nobody_reads_to_its_end_frees_the_session_when_it_is_idle(
    workspace: object, effects: Path
) -> None:
    with SyncCheckpointer.open(database_url(), idle_release_seconds=3) as client:
        saver = HarnessSaver(client)
        for update in build_agent(saver, effects).stream(QUESTION, config(), stream_mode="updates"):
            if "tools" in update and effects.read_text():
                break
        wait_until(lambda: not client.store.list_owned_sessions())
        assert build_agent(saver, effects).invoke(None, config())["messages"][-1].content == "refunded 40 for order 17"
    assert effects.read_text().split() == ["17"]


def test_session_is_not_idle_when_a_call_begins(workspace: object) -> None:
    with SyncCheckpointer.open(database_url(), idle_release_seconds=600) as client:
        claims = SessionClaims.get_for_client(client)
        with claims.claim_session_for_block("s"):
            pass
        (owned_session,) = client.store.list_owned_sessions()
        owned_session.last_used -= 601
        assert client.store.list_idle_sessions() == [owned_session]
        with claims.claim_session_for_block("s"):
            assert client.store.list_idle_sessions() == []


def _build_pausing_agent(client: SyncCheckpointer | Checkpointer) -> Any:
    """Build an agent that makes two calls: one pauses the graph while the other is running."""
    slow = threading.Event()

    @tool
    def send(to: str) -> str:
        """Send a mail."""
        if to == "bob":
            assert slow.wait(30)
            return "sent"
        slow.set()
        return str(interrupt("Which carol?"))

    saver = HarnessSaver(client)
    calls = [{"name": "send", "args": {"to": to}, "id": f"call_{to}"} for to in ("bob", "carol")]

    class Model(ScriptedModel):
        def _build_next_message(self, place: int, results: Any) -> AIMessage:
            return AIMessage("done") if results else AIMessage("", tool_calls=calls)

    return create_agent(Model(), [send], checkpointer=saver, middleware=[HarnessMiddleware(saver)])


def test_the_last_call_releases_what_another_one_paused(cp: SyncCheckpointer) -> None:
    agent = _build_pausing_agent(cp)
    state = agent.invoke(QUESTION, config())
    assert [gate.value for gate in state["__interrupt__"]] == ["Which carol?"]
    assert not cp.store.list_owned_sessions()
    state = agent.invoke(Command(resume="the tall one"), config())
    assert [message.content for message in state["messages"][-3:]] == ["sent", "the tall one", "done"]


def test_the_last_async_call_releases_what_another_one_paused(workspace: object) -> None:
    async def run() -> list[Any]:
        async with Checkpointer() as client:
            agent = _build_pausing_agent(client)
            await agent.ainvoke(QUESTION, config())
            owned = client.store.list_owned_sessions()
            state = await agent.ainvoke(Command(resume="the tall one"), config())
            return [*owned, *(message.content for message in state["messages"][-3:])]

    assert asyncio.run(run()) == ["sent", "the tall one", "done"]


def test_a_cancelled_agent_frees_the_session(workspace: object) -> None:
    started = asyncio.Event()

    @tool
    async def look(to: str) -> str:
        """Look for somebody."""
        started.set()
        await asyncio.sleep(30)
        return "found"

    async def run() -> list[Any]:
        async with Checkpointer() as client:
            graph = _build_tool_graph(HarnessSaver(client), look)
            task = asyncio.create_task(graph.ainvoke({"messages": [_ask("call_1", "look", to="bob")]}, config()))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            owned = client.store.list_owned_sessions()
            state = await graph.ainvoke(None, config())
            return [owned, state["__interrupt__"][0].value["type"]]

    assert asyncio.run(run()) == [[], "review_required"]


def test_a_server_over_http_is_refused() -> None:
    with pytest.raises(InvalidInput, match="needs a database"):
        HarnessSaver(SyncCheckpointer("https://harness.example", token="t"))


def test_removed_messages_branch_the_transcript(cp: SyncCheckpointer, effects: Path) -> None:
    agent = build_agent(HarnessSaver(cp), effects)
    state = agent.invoke(QUESTION, config())
    agent.update_state(config(), {"messages": [RemoveMessage(id=state["messages"][-1].id)]})
    before = next(past for past in agent.get_state_history(config()) if len(past.values.get("messages", [])) == 2)
    agent.update_state(before.config, {"messages": [HumanMessage("Stop.", id="stop")]})
    assert _roles(cp) == ["user", "assistant", "user"]
    assert len(agent.get_state(config()).values["messages"]) == 3
    assert effects.read_text() == "17\n"


def test_calls_of_a_subgraph_are_closed_by_its_results(cp: SyncCheckpointer) -> None:
    sent: list[str] = []

    @tool
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    saver = HarnessSaver(cp)
    guarded = ToolGuard(saver)
    inner = StateGraph(MessagesState)
    inner.add_node("ask", lambda state: {"messages": [_ask(f"call_{len(sent)}", to="bob")]})
    inner.add_node("tools", ToolNode([send], wrap_tool_call=guarded.wrap_tool_call))
    inner.add_node("end", lambda state: {"messages": [AIMessage("done")]})
    inner.add_edge(START, "ask").add_edge("ask", "tools").add_edge("tools", "end")
    subgraph = inner.compile()
    outer = StateGraph(MessagesState)
    outer.add_node("team", lambda state: {"messages": [subgraph.invoke({"messages": []})["messages"][-1]]})
    outer.add_edge(START, "team")
    graph = outer.compile(checkpointer=saver)
    for _ in range(2):
        graph.invoke(QUESTION, config())
    assert sent == ["bob", "bob"]
    assert not ToolCall.objects.filter(answered_version=None).exists()
    assert _roles(cp) == ["user", "assistant", "user", "assistant"]


def test_another_client_waits_for_the_owner(cp: SyncCheckpointer, open_checkpointer: Open, effects: Path) -> None:
    build_agent(HarnessSaver(cp), effects).invoke(QUESTION, config())
    other = open_checkpointer()
    other.start_session("s")
    with pytest.raises(SessionBusy):
        build_agent(HarnessSaver(cp), effects).invoke(QUESTION, config())
    other.close()
    build_agent(HarnessSaver(cp), effects).invoke(QUESTION, config())


def test_states_have_a_readable_form_without_the_types(cp: SyncCheckpointer, effects: Path) -> None:
    saver = HarnessSaver(cp)
    build_agent(saver, effects).invoke(QUESTION, config())
    loaded = state_store.load_state(cp.store, "s", "", None)
    assert loaded is not None
    first: Any = convert_value_to_json(loaded.values["messages"])[0]  # type: ignore[index]
    assert first["type"] == "langchain_core.messages.human.HumanMessage"
    assert first["value"]["content"] == "Please refund my orders."
    saver.prune(["s"])
    blobs = Blob.objects.count()
    saver.prune(["s"])
    assert (len(list(saver.list(config()))), Blob.objects.count()) == (1, blobs)
    saver.delete_thread("s")
    assert not Session.objects.exists()


def test_versions_carry_the_tokens_of_the_answers(cp: SyncCheckpointer) -> None:
    usage: Any = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12, "input_token_details": {"cache_read": 4}}

    def answer(state: Any) -> Any:
        metadata = {"model_name": "sonnet"}
        return {"messages": [AIMessage("yes", usage_metadata=usage, response_metadata=metadata)]}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(HarnessSaver(cp))
    for question in ("one", "two"):
        graph.invoke({"messages": [HumanMessage(question)]}, config())
    sums = {"input_tokens": 10, "output_tokens": 6, "cache_read_input_tokens": 8, "total_tokens": 24}
    assert json.loads(Checkpoint.objects.latest("version").usage or "") == {**sums, "by_model": {"sonnet": sums}}


def test_a_message_that_was_changed_in_place_is_saved_as_it_is_now(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    said = [HumanMessage(f"{number}", id=f"m{number}", additional_kwargs={"seen": []}) for number in range(40)]

    def look(state: Any) -> Any:
        state["messages"][3].additional_kwargs["seen"].append("once")
        return {"messages": [AIMessage("looked", id=f"a{len(state['messages'])}")]}

    graph = StateGraph(MessagesState).add_node("look", look).add_edge(START, "look").compile(checkpointer=saver)
    graph.invoke({"messages": said}, config())
    graph.invoke({"messages": [HumanMessage("more", id="more")]}, config())
    stored = graph.get_state(config()).values["messages"]
    assert stored[3].additional_kwargs == {"seen": ["once", "once"]}
    assert [message.content for message in stored] == [*map(str, range(40)), "looked", "more", "looked"]
    assert _roles(cp) == [*["user"] * 40, "assistant", "user", "assistant"]


@pytest.mark.parametrize("is_other_saver", [False, True], ids=["remembered", "read"])
def test_a_loaded_message_that_is_changed_in_place_changes_no_other_load(
    cp: SyncCheckpointer, is_other_saver: bool
) -> None:
    call: Any = {"name": "send", "args": {"to": ["ada"]}, "id": "c1", "type": "tool_call"}
    said = [
        HumanMessage([{"type": "text", "text": "Send it."}], id="m1", more={"of": ["it"]}),
        AIMessage("", id="m2", tool_calls=[call]),
        ToolMessage("sent", id="m3", tool_call_id="c1", artifact={"receipt", "copy"}),
    ]
    expected = [message.model_copy(deep=True) for message in said]
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": said}).add_edge(START, "say")
    saver = HarnessSaver(cp)
    agent = graph.compile(checkpointer=saver)
    agent.invoke({"messages": []}, config())
    if is_other_saver:
        saver = HarnessSaver(cp)
    for _ in range(3):
        loaded = saver.get_tuple(config())
        assert loaded is not None
        human, answer, result = loaded.checkpoint["channel_values"]["messages"]
        assert [human, answer, result] == expected
        assert "seen" not in result.model_fields_set
        human.content[0]["text"] = "Send nothing."
        human.more["of"].append("everything")
        human.response_metadata["seen"] = True
        answer.tool_calls[0]["args"]["to"].append("grace")
        answer.invalid_tool_calls.append(call)
        answer.name = "another name"
        result.artifact.add("forged")
        result.seen = True


class MessageWithLock(AIMessage):
    """Message of a program, with a private attribute that cannot be copied."""

    _lock: Any = PrivateAttr(default_factory=threading.Lock)


def test_a_message_with_a_private_attribute_that_cannot_be_copied_is_saved_and_loaded(cp: SyncCheckpointer) -> None:
    said = [MessageWithLock("Hello", id="m1")]
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": said}).add_edge(START, "say")
    saver = HarnessSaver(cp)
    graph.compile(checkpointer=saver).invoke({"messages": []}, config())
    for each in (saver, saver, HarnessSaver(cp)):
        loaded = each.get_tuple(config())
        assert loaded is not None
        messages = loaded.checkpoint["channel_values"]["messages"]
        assert [(type(message), message.content) for message in messages] == [(MessageWithLock, "Hello")]


class SerializerBesideAnotherThread(JsonPlusSerializer):
    """Serializer during whose work another thread of the program changes a message, twice."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        encoded = super().dumps_typed(obj)
        if isinstance(obj, HumanMessage) and len(obj.additional_kwargs.get("seen", "..")) < 2:
            obj.additional_kwargs["seen"].append("meanwhile")
        return encoded


def test_a_message_that_was_changed_while_it_was_saved_is_saved_again(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp, serde=SerializerBesideAnotherThread())
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage("yes")]})
    agent = graph.add_edge(START, "say").compile(checkpointer=saver)
    said = [HumanMessage("first", id="m1"), HumanMessage("second", id="m2", additional_kwargs={"seen": []})]
    agent.invoke({"messages": said}, config(), durability="sync")
    stored = agent.get_state(config()).values["messages"]
    assert stored[1].additional_kwargs == {"seen": ["meanwhile", "meanwhile"]}


def test_a_list_grows_from_a_state_that_another_process_removed(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    saver = HarnessSaver(cp)
    graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage("yes")]})
    agent = graph.add_edge(START, "say").compile(checkpointer=saver)
    agent.invoke(QUESTION, config())

    def remove(state: Any) -> Any:
        HarnessSaver(open_checkpointer()).delete_thread("s")
        return {"messages": [AIMessage("gone")]}

    removing = StateGraph(MessagesState).add_node("say", remove).add_edge(START, "say").compile(checkpointer=saver)
    removing.invoke(QUESTION, config(), durability="sync")
    stored = agent.get_state(config()).values["messages"]
    assert [message.content for message in stored][-1] == "gone"
    assert len(stored) == 4


def test_a_message_is_stored_once(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    letters = random.Random(1)
    text = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz ", k=4000))
    expected: list[str] = []
    sizes: list[int] = []
    for client in (cp, cp, open_checkpointer()):
        graph = StateGraph(MessagesState).add_node("say", lambda state: {"messages": [AIMessage("yes")]})
        agent = graph.add_edge(START, "say").compile(checkpointer=HarnessSaver(client))
        for _ in range(3):
            expected += [f"{text}{len(expected)}", "yes"]
            agent.invoke({"messages": [HumanMessage(expected[-2])]}, config(), durability="sync")
            sizes.append(sum(len(blob.content) for blob in Blob.objects.all()))
        assert [message.content for message in agent.get_state(config()).values["messages"]] == expected
        assert len(list(agent.get_state_history(config()))) == 3 * len(sizes)
    growth = [after - before for before, after in pairwise(sizes)]
    once = len(zlib.compress(text.encode()))
    assert max(growth) < 1.5 * once


def test_a_loaded_message_is_the_programs_own(cp: SyncCheckpointer, effects: Path) -> None:
    saver = HarnessSaver(cp)
    agent = build_agent(saver, effects)
    agent.invoke(QUESTION, config())
    changed = agent.get_state(config()).values["messages"]
    changed[1].tool_calls[0]["args"]["changed"] = True
    changed[0].content = "changed"
    again, cold = (build_agent(each, effects).get_state(config()).values for each in (saver, HarnessSaver(cp)))
    assert again == cold
    assert again["messages"][0].content == "Please refund my orders."


def test_a_load_does_not_read_the_messages_that_the_process_has_saved(cp: SyncCheckpointer, effects: Path) -> None:
    saver = HarnessSaver(cp)
    agent = build_agent(saver, effects)
    agent.invoke(QUESTION, config())
    using = cp.store.using
    with CaptureQueriesContext(connections[using]) as warm:
        agent.get_state(config())
    with CaptureQueriesContext(connections[using]) as cold:
        build_agent(HarnessSaver(cp), effects).get_state(config())
    table = Blob._meta.db_table
    read = [sum(table in query["sql"] for query in queries.captured_queries) for queries in (warm, cold)]
    assert read[0] < read[1]
