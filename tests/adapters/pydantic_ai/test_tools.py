"""Guarded tools of agents: approvals in the inbox, decisions as deferred results, and replays that are equal."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, ModelRetry, ToolReturn
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults, Tool, ToolApproved, ToolDenied

from checkpoints import SyncCheckpointer, ToolPolicies
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from checkpoints.exceptions import ApprovalRequired, InvalidInput, OwnershipLost, ReviewRequired
from checkpoints.models import Run, Session, ToolCall
from checkpoints.tools.idempotency import IdempotencyPolicy
from tests.conftest import Open
from tests.support.exhaustive_mode import mark_all_but_combinations

ASKS = ToolPolicies({"pay": {"requires_approval": True, "sentence": "Pay {amount} on {day}"}})
ARGS = {"amount": "12.50", "day": "2026-11-23"}
ABOUT: Any = {"actor": "alice", "reason": "It is due."}


@dataclass
class Receipt:
    """Result of the tool `pay`."""

    amount: Decimal
    day: date


def _call_once(name: str, args: dict[str, Any]) -> FunctionModel:
    """Build a model that makes one call, and then says what came of it."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        results = [part for part in last.parts if isinstance(part, ToolReturnPart)]
        if isinstance(last, ModelRequest) and results:
            return ModelResponse(parts=[TextPart(f"{results[0].outcome}: {results[0].model_response_str()}")])
        return ModelResponse(parts=[ToolCallPart(name, args)])

    return FunctionModel(answer)


class _Payments:
    """Payments of one test, by an agent whose tool takes and returns values that are no JSON."""

    def __init__(self, cp: SyncCheckpointer, policies: ToolPolicies | None = ASKS, **options: Any) -> None:
        self.paid: list[tuple[Decimal, date]] = []
        self.store = HarnessConversationStore(cp)
        self.harness = Harness(self.store, policies, **options)

    def build_agent(self, *, requires_approval: bool = False, defers: bool = True) -> Agent[None, Any]:
        async def pay(amount: Decimal, day: date) -> Receipt:
            """Pay."""
            self.paid.append((amount, day))
            return Receipt(amount, day)

        tools = [Tool(pay, requires_approval=requires_approval)]
        outputs: Any = [str, DeferredToolRequests] if defers else str
        return Agent(_call_once("pay", ARGS), output_type=outputs, tools=tools, capabilities=[self.harness])

    async def ask(self, agent: Agent[None, Any]) -> Any:
        result = await agent.run("Pay.", conversation_id="s")
        await self.store.save(result)
        return result.output

    async def go_on(self, agent: Agent[None, Any]) -> tuple[DeferredToolResults, Conversation, Any]:
        conversation = await self.store.load("s")
        assert conversation is not None
        decisions = await self.harness.find_decisions(conversation.deferred_tool_requests)
        result = await agent.run(conversation=conversation, deferred_tool_results=decisions)
        await self.store.save(result)
        return decisions, result.conversation, result.output


def _approve(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.approve_call("s", call["call_id"], revision=call["revision"], **ABOUT)


def _edit(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    changed = {**ARGS, "amount": "7.00"}
    cp.edit_call("s", call["call_id"], changed, revision=call["revision"], **ABOUT)
    for edited in cp.pending_tool_calls("s"):
        cp.approve_call("s", call["call_id"], revision=edited["revision"], **{**ABOUT, "actor": "bob"})


def _reject(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.reject_call("s", call["call_id"], "Not this month.", revision=call["revision"], **ABOUT)


def _respond(cp: SyncCheckpointer, call: dict[str, Any]) -> None:
    cp.respond_call("s", call["call_id"], "It was paid by hand.", revision=call["revision"], **ABOUT)


@pytest.mark.parametrize(
    ("decide", "result", "paid", "says", "idempotency"),
    mark_all_but_combinations(
        [
            (_approve, ToolApproved(), ["12.50"], 'success: {"amount":"12.50","day":"2026-11-23"}'),
            (
                _edit,
                ToolApproved(override_args={**ARGS, "amount": "7.00"}),
                ["7.00"],
                'success: {"amount":"7.00","day":"2026-11-23"}',
            ),
            (_reject, ToolDenied("Not this month."), [], "denied: Not this month."),
            (_respond, ToolApproved(), [], "success: It was paid by hand."),
        ],
        ["unanswered", "call"],
    ),
)
def test_each_decision_of_a_person_continues_the_conversation(
    cp: SyncCheckpointer,
    decide: Callable[[SyncCheckpointer, dict[str, Any]], None],
    result: Any,
    paid: list[str],
    says: str,
    idempotency: IdempotencyPolicy,
) -> None:
    payments = _Payments(cp, ToolPolicies({"pay": {"requires_approval": True}}, idempotency=idempotency))
    agent = payments.build_agent()
    requests = asyncio.run(payments.ask(agent))
    (asked,) = requests.approvals
    assert asked.args == ARGS
    assert not Run.objects.filter(status="running").exists()
    (call,) = cp.pending_tool_calls("s")
    assert (call["call_id"], call["status"]) == (asked.tool_call_id, "awaiting_approval")
    assert asyncio.run(payments.harness.find_decisions(requests)) == DeferredToolResults()
    decide(cp, call)
    decisions, conversation, output = asyncio.run(payments.go_on(agent))
    assert decisions.approvals == {asked.tool_call_id: result}
    assert decisions.answered_by[asked.tool_call_id] in {"alice", "bob"}
    assert [str(amount) for amount, _ in payments.paid] == paid
    assert output == says
    assert conversation.deferred_tool_requests is None
    assert Session.objects.get().status == "active"
    assert not ToolCall.objects.filter(answered_version=None).exists()
    latest = cp.load_latest("s")
    assert latest is not None
    assert [message["role"] for message in latest["transcript"]] == ["user", "assistant", "tool", "assistant"]


def test_a_call_that_another_process_has_made_meanwhile_is_refused(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    first, second = _Payments(cp, None), _Payments(open_checkpointer(), None)

    async def answer_when_first_has_saved(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await first.ask(first.build_agent())
        return ModelResponse(parts=[ToolCallPart("pay", ARGS)])

    agent = second.build_agent()
    with pytest.raises(OwnershipLost):
        asyncio.run(agent.run("Pay.", conversation_id="s", model=FunctionModel(answer_when_first_has_saved)))
    assert (len(first.paid), second.paid) == (1, [])


def test_a_decision_that_another_process_has_carried_out_meanwhile_is_not_again(
    cp: SyncCheckpointer, open_checkpointer: Open
) -> None:
    first, second = _Payments(cp), _Payments(open_checkpointer())
    asyncio.run(first.ask(first.build_agent()))
    (call,) = cp.pending_tool_calls("s")
    _approve(cp, call)

    async def go_on_after_first() -> None:
        conversation = await second.store.load("s")
        assert conversation is not None
        decisions = await second.harness.find_decisions(conversation.deferred_tool_requests)
        await first.go_on(first.build_agent())
        await second.build_agent().run(conversation=conversation, deferred_tool_results=decisions)

    with pytest.raises(OwnershipLost):
        asyncio.run(go_on_after_first())
    assert (len(first.paid), second.paid) == (1, [])


def test_an_approval_that_a_program_gives_itself_is_none(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp)
    agent = payments.build_agent()

    async def play() -> Any:
        requests = await payments.ask(agent)
        conversation = await payments.store.load("s")
        results = requests.build_results(approve_all=True)
        return (await agent.run(conversation=conversation, deferred_tool_results=results)).output

    assert len(asyncio.run(play()).approvals) == 1
    assert payments.paid == []


def test_a_tool_that_requires_approval_by_itself_is_in_the_inbox(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp, ToolPolicies({"*": {"side_effects": {"read"}}}))
    agent = payments.build_agent(requires_approval=True)
    assert len(asyncio.run(payments.ask(agent)).approvals) == 1
    (call,) = cp.pending_tool_calls("s")
    _approve(cp, call)
    assert asyncio.run(payments.go_on(agent))[2].startswith("success")
    assert len(payments.paid) == 1


def test_a_run_may_wait_for_the_decision(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp, pause="wait")

    def decide() -> None:
        while not ToolCall.objects.filter(status="awaiting_approval", session__owner=None).exists():
            os.sched_yield()
        _edit(cp, cp.pending_tool_calls("s")[0])

    async def play() -> Any:
        decided = asyncio.ensure_future(asyncio.to_thread(decide))
        output = await payments.ask(payments.build_agent(defers=False))
        await decided
        return output

    assert asyncio.run(play()) == 'success: {"amount":"7.00","day":"2026-11-23"}'
    assert [str(amount) for amount, _ in payments.paid] == ["7.00"]


def test_an_agent_without_deferred_outputs_ends_with_an_error(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp)
    with pytest.raises(ApprovalRequired):
        asyncio.run(payments.ask(payments.build_agent(defers=False)))
    _approve(cp, cp.pending_tool_calls("s")[0])
    assert asyncio.run(payments.ask(payments.build_agent(defers=False))).startswith("success")
    assert len(payments.paid) == 1


# values


class Order(BaseModel):
    """A model as a result."""

    number: int
    total: Decimal


def _list_values() -> list[Any]:
    return [
        "text",
        None,
        {"a": [1, 2.5, True]},
        Order(number=17, total=Decimal("12.50")),
        ToolReturn("shown", content="more for the model", metadata={"kept": 1}),
    ]


@pytest.mark.parametrize("value", _list_values(), ids=lambda value: type(value).__name__)
def test_a_replayed_value_is_equal(cp: SyncCheckpointer, value: Any) -> None:
    returns = type(value) if isinstance(value, BaseModel) else Any
    runs: list[int] = []

    async def act() -> Any:
        runs.append(1)
        return value

    act.__annotations__["return"] = returns

    async def play() -> list[Any]:
        agent = Agent(_call_once("act", {}), tools=[act], capabilities=[Harness(cp)])
        results = [await agent.run("Do it.", conversation_id="s") for _ in range(2)]
        return [
            [part for message in result.all_messages() for part in message.parts if not isinstance(part, ToolCallPart)]
            for result in results
        ]

    first, replayed = asyncio.run(play())
    assert len(runs) == 1
    assert [(part.part_kind, part.content, getattr(part, "metadata", None)) for part in replayed] == [
        (part.part_kind, part.content, getattr(part, "metadata", None)) for part in first
    ]


# errors


def test_a_retry_is_a_failure_that_the_model_may_repeat(cp: SyncCheckpointer) -> None:
    tries: list[int] = []

    async def act() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ModelRetry("Not yet.")
        return "Done."

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart) and last.outcome == "success":
            return ModelResponse(parts=[TextPart("Good.")])
        return ModelResponse(parts=[ToolCallPart("act", {})])

    agent = Agent(FunctionModel(answer), tools=[act], capabilities=[Harness(cp)])
    assert asyncio.run(agent.run("Do it.", conversation_id="s")).output == "Good."
    assert sorted(ToolCall.objects.values_list("status", flat=True)) == ["completed", "failed"]


def test_a_tool_that_timed_out_is_at_the_gate(cp: SyncCheckpointer) -> None:
    async def act() -> str:
        await asyncio.Event().wait()
        return "never"

    agent = Agent(_call_once("act", {}), tools=[Tool(act, timeout=0.01)], capabilities=[Harness(cp)])
    with pytest.raises(ReviewRequired):
        asyncio.run(agent.run("Do it.", conversation_id="s"))
    assert ToolCall.objects.get().status == "interrupted"


@pytest.mark.parametrize("metadata", [{"job": 7}, None], ids=["metadata", "none"])
def test_a_tool_that_defers_its_result_begins_once(cp: SyncCheckpointer, metadata: dict[str, int] | None) -> None:
    begun: list[str] = []

    async def pay(amount: str, day: str) -> str:
        """Pay."""
        begun.append(day)
        raise CallDeferred(metadata, kind="question")

    store = HarnessConversationStore(cp)

    def build_agent() -> Agent[None, Any]:
        outputs: Any = [str, DeferredToolRequests]
        return Agent(_call_once("pay", ARGS), output_type=outputs, tools=[pay], capabilities=[Harness(store)])

    async def run() -> Any:
        lost = await build_agent().run("Pay.", conversation_id="s")  # its process dies before the save
        result = await build_agent().run("Pay.", conversation_id="s")
        await store.save(result)
        (first,), (call,) = lost.output.calls, result.output.calls
        assert [each.output.metadata for each in (lost, result)] == [
            {} if metadata is None else {each.tool_call_id: metadata} for each in (first, call)
        ]
        assert result.output.kind(call.tool_call_id) == "question"
        conversation = await store.load("s")
        answers = DeferredToolResults(calls={call.tool_call_id: "paid"})
        result = await build_agent().run(conversation=conversation, deferred_tool_results=answers)
        await store.save(result)
        return result.output

    assert asyncio.run(run()) == "success: paid"
    assert begun == [ARGS["day"]]
    (logged,) = ToolCall.objects.all()
    assert (logged.status, logged.answered_version is None) == ("completed", False)


def test_edited_arguments_that_do_not_fit_are_not_run(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp, pause="raise")
    agent = payments.build_agent(defers=False)
    with pytest.raises(ApprovalRequired):
        asyncio.run(payments.ask(agent))
    (call,) = cp.pending_tool_calls("s")
    cp.edit_call("s", call["call_id"], {"amount": "much", "day": "2026-11-23"}, revision=call["revision"], **ABOUT)
    for edited in cp.pending_tool_calls("s"):
        cp.approve_call("s", edited["call_id"], revision=edited["revision"], **{**ABOUT, "actor": "bob"})
    assert asyncio.run(payments.ask(agent)).startswith("retried")  # the model is told
    assert payments.paid == []


def test_a_tool_that_only_reads_is_not_logged(cp: SyncCheckpointer) -> None:
    payments = _Payments(cp, ToolPolicies({"p*": {"side_effects": {"read"}}}))
    assert asyncio.run(payments.ask(payments.build_agent())).startswith("success")
    assert ToolCall.objects.count() == 0


def test_an_unknown_pause_is_refused(cp: SyncCheckpointer) -> None:
    with pytest.raises(InvalidInput, match="no pause"):
        Harness(cp, pause="sleep")  # type: ignore[arg-type]
