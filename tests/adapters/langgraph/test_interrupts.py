"""Interrupts of LangGraph in the review queue: people decide, another process resumes, as if it were in memory."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies
from checkpoints.adapters.langgraph import HarnessSaver
from checkpoints.exceptions import DecisionNotAccepted, InvalidInput
from checkpoints.models import Run, Session, ToolCall
from tests.adapters.langgraph.agents import config
from tests.adapters.langgraph.reviewed_agents import DECISIONS, NAMES, QUESTION, build_agent, run_in_memory, tell
from tests.support.exhaustive_mode import mark_all_but_combinations

Open = Callable[..., SyncCheckpointer]


def _decide(cp: SyncCheckpointer, call_id: str, decision: dict[str, Any]) -> None:
    about: Any = {"actor": "alice", "revision": ToolCall.objects.get(call_id=call_id).revision}
    match decision["type"]:
        case "approve":
            cp.approve_call("s", call_id, reason="Read.", **about)
        case "edit":
            cp.edit_call("s", call_id, decision["edited_action"]["args"], reason="Misspelt.", **about)
            _decide(cp, call_id, {"type": "approve"})
        case "reject":
            cp.reject_call("s", call_id, decision["message"], **about)
        case "respond":
            cp.respond_call("s", call_id, decision["message"], **about)


@pytest.mark.parametrize(
    ("mode", "guarded", "durability"),
    mark_all_but_combinations(["batched", "per_call"], [False, True], ["sync", "async", "exit"], together=2),
)
def test_four_decisions_end_as_in_memory(
    cp: SyncCheckpointer, open_checkpointer: Open, mode: str, guarded: bool, durability: str
) -> None:
    sent: list[str] = []
    build_agent(HarnessSaver(cp), sent, mode, guarded=guarded).invoke(QUESTION, config(), durability=durability)
    asked = {call.call_id: (call.tool, call.args, call.status) for call in ToolCall.objects.all()}
    assert asked == {f"call_{name}": ("send", f'{{"to":"{name}"}}', "awaiting_approval") for name in NAMES}
    assert (Session.objects.get().status, cp.store.list_owned_sessions(), sent) == ("needs_review", [], [])
    assert Run.objects.count() == 1

    worker = HarnessSaver(open_checkpointer())
    for name, decision in zip(NAMES, DECISIONS, strict=True):
        assert worker.build_resume(config()) is None
        _decide(cp, f"call_{name}", decision)
    state = build_agent(worker, sent, mode, guarded=guarded).invoke(
        worker.build_resume(config()), config(), durability=durability
    )
    assert (tell(state), sorted(sent)) == run_in_memory(mode)
    assert worker.build_resume(config()) is None
    assert Session.objects.get().status == "active"
    calls = {call.call_id: call for call in ToolCall.objects.all()}
    assert len(calls) == ToolCall.objects.count() == 4
    assert [calls[f"call_{name}"].status for name in NAMES] == ["completed", "completed", "rejected", "completed"]
    assert "sent to bill" in str(calls["call_bob"].result_text)
    assert not ToolCall.objects.filter(answered_version=None).exists()


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_program_that_answers_itself_withdraws_the_questions(cp: SyncCheckpointer, mode: str, guarded: bool) -> None:
    sent: list[str] = []
    agent = build_agent(HarnessSaver(cp), sent, mode, guarded=guarded)
    gates = agent.invoke(QUESTION, config())["__interrupt__"]
    approve = {"type": "approve"}
    answers = {gate.id: {"decisions": [approve] * 4} if mode == "batched" else approve for gate in gates}
    assert "__interrupt__" not in agent.invoke(Command(resume=answers), config())
    assert sorted(sent) == NAMES
    assert not ToolCall.objects.filter(status="awaiting_approval").exists()
    assert Session.objects.get().status == "active"


def test_an_async_agent_is_resumed_by_an_async_worker(cp: SyncCheckpointer) -> None:
    sent: list[str] = []

    async def run(decisions: bool) -> Any:
        async with Checkpointer() as client:
            saver = HarnessSaver(client)
            agent = build_agent(saver, sent, "batched")
            return await agent.ainvoke(await saver.abuild_resume(config()) if decisions else QUESTION, config())

    asyncio.run(run(False))
    for name, decision in zip(NAMES, DECISIONS, strict=True):
        _decide(cp, f"call_{name}", decision)
    assert (tell(asyncio.run(run(True))), sorted(sent)) == run_in_memory("batched")


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_a_decision_that_the_graph_does_not_accept_is_refused(cp: SyncCheckpointer, mode: str) -> None:
    saver = HarnessSaver(cp)
    agent = build_agent(saver, [], mode, allowed=["approve", "reject"])
    agent.invoke(QUESTION, config())
    assert {tuple(call["allowed_decisions"]) for call in cp.pending_tool_calls("s")} == {("approve", "reject")}
    for decision in (DECISIONS[1], DECISIONS[3]):
        with pytest.raises(DecisionNotAccepted, match="The agent accepts approve, reject for call 'call_ann'"):
            _decide(cp, "call_ann", decision)
    for name in NAMES:
        _decide(cp, f"call_{name}", {"type": "reject", "message": "No."})
    assert len(agent.invoke(saver.build_resume(config()), config())["messages"]) == 7


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_an_approval_of_changed_arguments_is_an_edit(cp: SyncCheckpointer, mode: str) -> None:
    saver, sent = HarnessSaver(cp), list[str]()
    agent = build_agent(saver, sent, mode, allowed=["edit"])
    agent.invoke(QUESTION, config())
    with pytest.raises(DecisionNotAccepted) as caught:
        _decide(cp, "call_ann", {"type": "approve"})
    assert (caught.value.kind, caught.value.allowed) == ("approve", ["edit"])
    for name in NAMES:
        _decide(cp, f"call_{name}", DECISIONS[1])
    agent.invoke(saver.build_resume(config()), config())
    assert sent == ["bill"] * 4


def test_a_question_that_is_asked_again_gets_the_decisions_that_are_allowed_now(cp: SyncCheckpointer) -> None:
    allowed = ["approve", "edit"]

    def ask(state: Any) -> Any:
        review = [{"action_name": "send", "allowed_decisions": list(allowed)}]
        interrupt({"action_requests": [{"name": "send", "args": {"to": "ann"}}], "review_configs": review})
        return {"messages": [AIMessage("Done.")]}

    graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=HarnessSaver(cp))
    graph.invoke(QUESTION, config())
    call = ToolCall.objects.get()
    assert (call.allowed_decisions, call.revision) == ("approve,edit", 1)
    allowed[:] = ["reject"]
    graph.invoke(None, config())
    call = ToolCall.objects.get()
    assert (call.allowed_decisions, call.revision) == ("reject", 2)
    with pytest.raises(DecisionNotAccepted):
        _decide(cp, call.call_id, {"type": "approve"})


def test_a_question_that_allows_no_known_decision_is_refused(cp: SyncCheckpointer) -> None:
    def ask(state: Any) -> None:
        review = [{"action_name": "send", "allowed_decisions": ["accept"]}]
        interrupt({"action_requests": [{"name": "send", "args": {"to": "ann"}}], "review_configs": review})

    graph = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=HarnessSaver(cp))
    with pytest.raises(InvalidInput, match="allows only the decisions \\['accept'\\]"):
        graph.invoke(QUESTION, config())
    assert not ToolCall.objects.exists()


def test_a_decision_that_a_changed_graph_does_not_accept_can_be_withdrawn(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    agent = build_agent(saver, [], "batched", allowed=["approve"])
    agent.invoke(QUESTION, config())
    ToolCall.objects.update(allowed_decisions="")
    for name in NAMES[1:]:
        _decide(cp, f"call_{name}", {"type": "approve"})
    _decide(cp, "call_ann", {"type": "reject", "message": "No."})
    with pytest.raises(InvalidInput, match="accepts approve for send, and the decision is reject"):
        saver.build_resume(config())
    revision = ToolCall.objects.get(call_id="call_ann").revision
    cp.withdraw_decision("s", "call_ann", actor="alice", reason="Not accepted.", revision=revision)
    _decide(cp, "call_ann", {"type": "approve"})
    assert len(agent.invoke(saver.build_resume(config()), config())["messages"]) == 7


def _ask_by_older_request(saver: Any, options: list[dict[str, bool]], *, alone: bool = False) -> Any:
    """Build a graph that asks about mails as programs did before `HumanInTheLoopMiddleware`, and says the answers."""
    calls = [{"name": "send", "args": {"to": name}, "id": f"call_{name}"} for name in NAMES[: len(options)]]

    def call(state: Any) -> Any:
        return {"messages": [AIMessage("", tool_calls=calls)]}

    def ask(state: Any) -> Any:
        requests = [
            {
                "action_request": {"action": each["name"], "args": each["args"]},
                "config": allowed,
                "description": "Send?",
            }
            for each, allowed in zip(calls, options, strict=True)
        ]
        return {"messages": [AIMessage(json.dumps(interrupt(requests[0] if alone else requests)))]}

    graph = StateGraph(MessagesState).add_node("call", call).add_node("ask", ask)
    return graph.add_edge(START, "call").add_edge("call", "ask").compile(checkpointer=saver)


def test_older_requests_are_calls_of_their_tools(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    everything = dict.fromkeys(["allow_accept", "allow_edit", "allow_respond", "allow_ignore"], True)
    graph = _ask_by_older_request(saver, [everything] * 4)
    graph.invoke(QUESTION, config())
    asked = {call["call_id"]: (call["tool_name"], *call["allowed_decisions"]) for call in cp.pending_tool_calls("s")}
    assert asked == {f"call_{name}": ("send", "approve", "edit", "reject", "respond") for name in NAMES}
    assert {call.sentence for call in ToolCall.objects.all()} == {"Send?"}
    for name, decision in zip(NAMES, DECISIONS, strict=True):
        _decide(cp, f"call_{name}", decision)
    state = graph.invoke(saver.build_resume(config()), config())
    assert json.loads(state["messages"][-1].content) == [
        {"type": "accept", "args": None},
        {"type": "edit", "args": {"action": "send", "args": {"to": "bill"}}},
        {"type": "ignore", "args": None},
        {"type": "response", "args": "Dave was told by phone."},
    ]


@pytest.mark.parametrize(
    ("field", "decision", "answer"),
    [
        ("allow_accept", DECISIONS[0], {"type": "accept", "args": None}),
        ("allow_edit", DECISIONS[1], {"type": "edit", "args": {"action": "send", "args": {"to": "bill"}}}),
        ("allow_ignore", DECISIONS[2], {"type": "ignore", "args": None}),
        ("allow_respond", DECISIONS[3], {"type": "response", "args": "Dave was told by phone."}),
    ],
)
def test_an_older_request_accepts_what_its_configuration_allows(
    cp: SyncCheckpointer, field: str, decision: dict[str, Any], answer: dict[str, Any]
) -> None:
    saver = HarnessSaver(cp)
    nothing = dict.fromkeys(["allow_accept", "allow_edit", "allow_respond", "allow_ignore"], False)
    graph = _ask_by_older_request(saver, [{**nothing, field: True}], alone=True)
    graph.invoke(QUESTION, config())
    for other in DECISIONS:
        if other != decision and not (field == "allow_edit" and other["type"] == "approve"):
            with pytest.raises(DecisionNotAccepted):
                _decide(cp, "call_ann", other)
    _decide(cp, "call_ann", decision)
    state = graph.invoke(saver.build_resume(config()), config())
    assert json.loads(state["messages"][-1].content) == [answer]


def test_a_value_that_only_resembles_an_older_request_is_a_plain_interrupt(cp: SyncCheckpointer) -> None:
    values: list[Any] = [[], [{"action_request": {"action": "send", "args": {}}, "config": {}}], {"config": {}}]
    for number, value in enumerate(values):
        graph = StateGraph(MessagesState).add_node("ask", lambda state, value=value: {"messages": [interrupt(value)]})
        agent = graph.add_edge(START, "ask").compile(checkpointer=HarnessSaver(cp))
        agent.invoke(QUESTION, {"configurable": {"thread_id": str(number)}})
    assert list(ToolCall.objects.values_list("tool", "allowed_decisions")) == [("interrupt", "")] * 3


def _build_interview(saver: Any) -> Any:
    def ask(state: Any) -> Any:
        name = interrupt("Who are you?")
        agreed = interrupt({"question": "May we write to you?", "name": name})
        return {"messages": [AIMessage(f"{name}: {agreed}")]}

    return StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


@pytest.mark.parametrize(
    ("kind", "answer"), [("approve", True), ("reject", False), ("edit", "anew"), ("respond", "in May")]
)
def test_two_plain_interrupts_of_one_node_are_two_questions(cp: SyncCheckpointer, kind: str, answer: object) -> None:
    saver = HarnessSaver(cp)
    graph = _build_interview(saver)
    graph.invoke(QUESTION, config())
    first = ToolCall.objects.get()
    assert (first.tool, first.args, first.risk) == ("interrupt", '{"value":"Who are you?"}', "low")
    _decide(cp, first.call_id, {"type": "respond", "message": "Eve"})
    graph.invoke(saver.build_resume(config()), config())
    assert (saver.build_resume(config()), Session.objects.get().status) == (None, "needs_review")
    second = ToolCall.objects.get(status="awaiting_approval")
    assert second.args == '{"value":{"name":"Eve","question":"May we write to you?"}}'
    assert [(call.sentence, call.is_question) for call in (first, second)] == [
        ("Who are you?", True),
        ("May we write to you?", True),
    ]
    changed = {"name": "interrupt", "args": {"value": "anew"}}
    _decide(cp, second.call_id, {"type": kind, "message": "in May", "edited_action": changed})
    state = graph.invoke(saver.build_resume(config()), config())
    assert state["messages"][-1].content == f"Eve: {answer}"
    assert Session.objects.get().status == "active"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_session_is_ready_until_the_graph_has_stored_a_state_after_its_interrupts(
    cp: SyncCheckpointer, open_checkpointer: Open, durability: Any
) -> None:
    seen: list[str] = []

    def ask(state: Any) -> Any:
        answer = interrupt("Who are you?")
        seen.append(Session.objects.get().status)
        return {"messages": [AIMessage(answer)]}

    def build(saver: Any) -> Any:
        graph = StateGraph(MessagesState).add_node("ask", ask).add_node("end", lambda state: {"messages": []})
        return graph.add_edge(START, "ask").add_edge("ask", "end").compile(checkpointer=saver)

    build(HarnessSaver(cp)).invoke(QUESTION, config(), durability=durability)
    _decide(cp, ToolCall.objects.get().call_id, {"type": "respond", "message": "Eve"})
    assert [each["session_id"] for each in cp.list_sessions(status="ready")] == ["s"]
    worker = HarnessSaver(open_checkpointer())
    build(worker).invoke(worker.build_resume(config()), config(), durability=durability)
    assert (seen, cp.list_sessions(status="ready")) == (["ready"], [])
    assert (worker.build_resume(config()), Session.objects.get().status) == (None, "active")
    worker.delete_thread("s")
    assert not Session.objects.exists()


def test_a_worker_that_owns_the_thread_continues_it_as_decided(cp: SyncCheckpointer) -> None:
    owner = HarnessSaver(cp).claim_write_ownership("s")
    graph = _build_interview(owner)
    graph.invoke(QUESTION, config())
    for status in ("needs_review", "active"):
        _decide(cp, ToolCall.objects.get(status="awaiting_approval").call_id, {"type": "respond", "message": "Eve"})
        assert Session.objects.get().status == "ready"
        graph.invoke(owner.build_resume(config()), config())
        assert Session.objects.get().status == status
    graph.invoke(QUESTION, config())
    owner.release()


def test_a_session_is_ready_until_all_of_its_interrupts_are_resumed(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    graph = StateGraph(MessagesState)
    for name in ("first", "second"):
        graph.add_node(name, lambda state, name=name: {"messages": [AIMessage(str(interrupt(name)))]})
        graph.add_edge(START, name)
    agent = graph.compile(checkpointer=saver)
    first, second = agent.invoke(QUESTION, config())["__interrupt__"]
    _decide(cp, first.id, {"type": "approve"})
    assert (Session.objects.get().status, saver.build_resume(config())) == ("needs_review", None)
    _decide(cp, second.id, {"type": "reject", "message": "No."})
    command = saver.build_resume(config())
    assert command is not None
    agent.invoke(Command(resume={first.id: command.resume[first.id]}), config())
    assert Session.objects.get().status == "ready"
    state = agent.invoke(saver.build_resume(config()), config())
    assert {message.content for message in state["messages"][1:]} == {"True", "False"}
    assert Session.objects.get().status == "active"


@pytest.mark.parametrize("leave", ["input", "update"])
def test_a_session_whose_graph_leaves_an_answered_question_is_not_ready(cp: SyncCheckpointer, leave: str) -> None:
    saver = HarnessSaver(cp)
    graph = _build_interview(saver)
    graph.invoke(QUESTION, config())
    _decide(cp, ToolCall.objects.get().call_id, {"type": "respond", "message": "Eve"})
    if leave == "update":
        graph.update_state(config(), QUESTION, "ask")
        assert Session.objects.get().status == "active"
    else:
        graph.invoke(QUESTION, config())
        assert Session.objects.get().status == "needs_review"
    assert saver.build_resume(config()) is None


@pytest.mark.parametrize("leave", ["input", "update"])
def test_a_question_that_the_graph_has_left_is_withdrawn(cp: SyncCheckpointer, leave: str) -> None:
    saver = HarnessSaver(cp)
    graph = _build_interview(saver)
    graph.invoke(QUESTION, config())
    if leave == "update":
        graph.update_state(config(), QUESTION)
    graph.invoke(QUESTION if leave == "input" else None, config())
    first, second = ToolCall.objects.order_by("pk")
    assert (first.status, second.status) == ("discarded", "awaiting_approval")
    _decide(cp, second.call_id, {"type": "respond", "message": "Eve"})
    assert saver.build_resume(config()) is not None


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_an_interrupt_of_a_subgraph_is_one_question(cp: SyncCheckpointer, durability: Any) -> None:
    saver = HarnessSaver(cp)
    inner = _build_interview(None)
    outer = StateGraph(MessagesState).add_node("team", inner).add_edge(START, "team").compile(checkpointer=saver)
    outer.invoke(QUESTION, config(), durability=durability)
    _decide(cp, ToolCall.objects.get().call_id, {"type": "respond", "message": "Eve"})
    outer.invoke(saver.build_resume(config()), config(), durability=durability)
    _decide(cp, ToolCall.objects.get(status="awaiting_approval").call_id, {"type": "approve"})
    state = outer.invoke(saver.build_resume(config()), config(), durability=durability)
    assert state["messages"][-1].content == "Eve: True"
    assert ToolCall.objects.count() == 2
    assert Session.objects.get().status == "active"


def test_policies_describe_the_questions(cp: SyncCheckpointer) -> None:
    policies = ToolPolicies({"send": {"sentence": "Send a mail to {to}", "risk": "low", "approvals": 2}})
    saver = HarnessSaver(cp, policies=policies)
    build_agent(saver, [], "batched").invoke(QUESTION, config())
    call = ToolCall.objects.get(call_id="call_ann")
    assert (call.sentence, call.risk, call.approvals) == ("Send a mail to ann", "low", 2)
    assert not call.is_question


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"prompt": " Go on? ", "question": ""}, "Go on?"),
        ({"step": 3}, ""),
        (["Go on?"], ""),
        ("x" * 501, f"{'x' * 500}…"),
    ],
)
def test_sentence_of_a_plain_interrupt_is_its_question(cp: SyncCheckpointer, value: object, sentence: str) -> None:
    graph = StateGraph(MessagesState).add_node("ask", lambda state: {"messages": [interrupt(value)]})
    graph.add_edge(START, "ask").compile(checkpointer=HarnessSaver(cp)).invoke(QUESTION, config())
    assert ToolCall.objects.get().sentence == sentence


def test_without_review_no_question_is_logged(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp, review_interrupts=False)
    build_agent(saver, [], "batched").invoke(QUESTION, config())
    assert not ToolCall.objects.exists()


def test_a_thread_that_waits_for_an_answer_is_deleted(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    _build_interview(saver).invoke(QUESTION, config())
    saver.delete_thread("s")
    assert not Session.objects.exists()
