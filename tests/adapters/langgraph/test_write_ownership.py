"""One writer of a thread at a time, with the methods that LangGraph's proposal for conformance names."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from checkpoints import Checkpointer, SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver
from checkpoints.exceptions import OwnershipLost
from checkpoints.models import AuditEvent, Session
from examples.kill_and_decision_helpers import make_kill_at_moment_function
from examples.langgraph_refunds.agent import POLICIES, ScriptedModel, build_agent, build_tools
from tests.adapters.langgraph.agents import QUESTION, config
from tests.support.processes import database_url

Step = Callable[[HarnessSaver], Coroutine[Any, Any, None]]


def _place(thread_id: str, checkpoint_id: str = "") -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}


async def _put(writer: Any, thread_id: str = "s", after: str = "") -> str:
    """Put a checkpoint, and return its id."""
    checkpoint = empty_checkpoint() | {"id": str(uuid6())}
    stored = await writer.aput(_place(thread_id, after), checkpoint, {"source": "loop", "step": 1}, {})
    return str(stored["configurable"]["checkpoint_id"])


async def _list_ids(saver: HarnessSaver, thread_id: str = "s") -> list[str]:
    return [found.checkpoint["id"] async for found in saver.alist(_place(thread_id))]


async def _list_writes(saver: HarnessSaver, checkpoint_id: str) -> list[Any]:
    found = await saver.aget_tuple(_place("s", checkpoint_id))
    return [] if found is None else [value for _, _, value in found.pending_writes or ()]


async def _refuse(attempt: Awaitable[object]) -> None:
    with pytest.raises(OwnershipLost) as refused:
        await attempt
    assert refused.value.is_stale_write_owner_error is True


async def _write_while_owner(saver: HarnessSaver) -> None:
    owner = await saver.aclaim_write_ownership("s")
    first = await _put(owner)
    task_id = str(uuid4())
    for _ in range(2):  # a repetition is no refusal
        await owner.aput_writes(_place("s", first), [("topic", "mine")], task_id)
    await owner.acheck_write_ownership()
    assert (await _list_ids(saver), await _list_writes(saver, first)) == ([first], ["mine"])


async def _refuse_a_superseded_writer(saver: HarnessSaver) -> None:
    before = await saver.aclaim_write_ownership("s")
    first = await _put(before)
    after = await saver.aclaim_write_ownership("s")
    second = await _put(after, after=first)
    task_id = str(uuid4())
    await after.aput_writes(_place("s", first), [("topic", "new"), ("__resume__", "new")], task_id)
    for _ in range(2):
        await _refuse(_put(before, after=first))
        await _refuse(before.aput_writes(_place("s", first), [("topic", "old")], task_id))
        await _refuse(before.aput_writes(_place("s", first), [("__resume__", "old")], task_id))
        await _refuse(before.aput_writes(_place("s", first), [("topic", "old")], str(uuid4())))
        await _refuse(before.acheck_write_ownership())
    assert (await _list_ids(saver), await _list_writes(saver, first)) == ([second, first], ["new", "new"])


async def _refuse_it_after_the_owner_has_released(saver: HarnessSaver) -> None:
    before = await saver.aclaim_write_ownership("s")
    after = await saver.aclaim_write_ownership("s")
    await after.arelease()
    await _refuse(_put(before))
    assert await _put(saver) in await _list_ids(saver)  # without a claim, savers take turns as before
    again = await saver.aclaim_write_ownership("s")
    await _put(again)
    await _refuse(_put(before))


async def _keep_other_threads(saver: HarnessSaver) -> None:
    one = await saver.aclaim_write_ownership("s")
    await saver.aclaim_write_ownership("other")
    stored = await _put(one)
    assert await _list_ids(saver) == [stored]


@pytest.mark.parametrize("client", [Checkpointer, SyncCheckpointer])
@pytest.mark.parametrize(
    "step",
    [_write_while_owner, _refuse_a_superseded_writer, _refuse_it_after_the_owner_has_released, _keep_other_threads],
)
def test_a_thread_has_one_writer(workspace: object, step: Step, client: type) -> None:
    asyncio.run(step(HarnessSaver(client())))


def test_a_guarded_agent_keeps_the_thread_that_its_saver_owns(cp: SyncCheckpointer) -> None:
    saver = HarnessSaver(cp)
    owner = saver.claim_write_ownership("s")

    def look_up_order(order: int) -> str:
        """Look up an order."""
        return "paid"

    def refund(order: int, amount: int) -> str:
        """Refund an order."""
        return f"refunded {amount} for order {order}"

    agent = create_agent(
        ScriptedModel(), [look_up_order, refund], checkpointer=owner, middleware=[HarnessMiddleware(owner)]
    )
    state = agent.invoke(QUESTION, config())
    assert state["messages"][-1].content == "refunded 40 for order 17"
    owner.check_write_ownership()
    saver.claim_write_ownership("s").release()
    with pytest.raises(OwnershipLost):
        agent.invoke(QUESTION, config())
    assert AuditEvent.objects.filter(kind="takeover").count() == 1
    assert Session.objects.get().owner is None


@pytest.mark.parametrize("is_async", [False, True])
def test_a_process_that_another_one_has_overtaken_does_not_make_its_call_again(
    workspace: object, effects: Path, is_async: bool
) -> None:
    def continue_in_another_process() -> None:
        with HarnessSaver.open(database_url()) as saver:
            state = build_agent(saver, effects).invoke(None, config())
            assert state["messages"][-1].content == "refunded 40 for order 17"

    def ask(agent: Any) -> None:
        if is_async:
            asyncio.run(agent.ainvoke(QUESTION, config(), durability="sync"))
        else:
            agent.invoke(QUESTION, config(), durability="sync")

    class Stall(AgentMiddleware[Any, Any]):
        """Middleware that stands still before a refund, until another process has made it."""

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["name"] == "refund":
                continue_in_another_process()
            return handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["name"] == "refund":
                await asyncio.to_thread(continue_in_another_process)
            return await handler(request)

    with HarnessSaver.open(database_url()) as saver:
        guard = HarnessMiddleware(saver, POLICIES)
        tools = build_tools(effects, make_kill_at_moment_function(None))
        with pytest.raises(OwnershipLost):
            ask(create_agent(ScriptedModel(), tools, checkpointer=saver, middleware=[Stall(), guard]))
    assert effects.read_text() == "17\n"
