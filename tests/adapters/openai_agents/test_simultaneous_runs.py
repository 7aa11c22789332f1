"""Two runs use one session at the same time: each item is stored once, and each call is made once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from agents import Agent, RunHooks, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from checkpoints import Checkpointer, SyncCheckpointer, ToolPolicies
from checkpoints.adapters.openai_agents import HarnessRunner, HarnessSession
from checkpoints.exceptions import OwnershipLost
from checkpoints.formats.parse_message_parts import list_message_parts, parts_to_text
from tests.adapters.openai_agents.runs import QUIET
from tests.support.processes import database_url

POLICIES = ToolPolicies({"look_*": {"side_effects": {"read"}}})


def build_agent(name: str, tool: str, work: Callable[[], Coroutine[Any, Any, object]]) -> Agent[Any]:
    """Build an agent whose model calls a tool once, and says so."""

    async def run_tool() -> str:
        await work()
        return f"result of {name}"

    steps = [[function_call(tool, {}, call_id=f"call of {name}")], [assistant_message(f"answer of {name}")]]
    return Agent(name="desk", model=ScriptedModel(steps), tools=[function_tool(run_tool, name_override=tool)])


async def run_in_own_client(agent: Agent[Any], given: str, hooks: Any = None) -> Any:
    async with Checkpointer.open(database_url()) as checkpointer:
        session = HarnessSession("s", checkpointer)
        return await HarnessRunner(POLICIES).run(agent, given, session=session, run_config=QUIET, hooks=hooks)


class Pause(RunHooks[Any]):
    """Hooks of a run that has read the session, and waits before its next turn."""

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._wait = wait

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._wait()


@pytest.mark.parametrize("second_continues_first", [False, True])
def test_each_item_is_stored_once(cp: SyncCheckpointer, second_continues_first: bool) -> None:
    async def work() -> None:
        have_read, are_in_tools, first_is_in_tool = asyncio.Barrier(2), asyncio.Barrier(2), asyncio.Event()

        async def look_up() -> None:
            first_is_in_tool.set()
            await are_in_tools.wait()  # both calls run before one of them ends

        first, second = (build_agent(name, "look_up", look_up) for name in "ab")
        hooks = None if second_continues_first else Pause(have_read.wait)
        running = asyncio.create_task(run_in_own_client(first, "question of a", hooks))
        if second_continues_first:
            await first_is_in_tool.wait()
            second.model = ScriptedModel([[assistant_message("answer of b")]])
        await run_in_own_client(second, "question of b", hooks)
        await running

    asyncio.run(work())
    latest = cp.load_latest("s")
    assert latest is not None
    said = Counter(
        item.get("type", "message") + " " + (item.get("call_id") or parts_to_text(list_message_parts(item)))
        for item in latest["transcript"]
    )
    names = "a" if second_continues_first else "ab"
    calls = [f"{kind} call of {name}" for kind in ("function_call", "function_call_output") for name in names]
    assert said == Counter([*calls, *(f"message {kind} of {name}" for kind in ("question", "answer") for name in "ab")])
    assert latest["payload"] is None


def test_second_start_of_a_program_does_not_repeat_a_call(cp: SyncCheckpointer) -> None:
    made: list[str] = []
    in_tool, is_second_ready, is_first_over = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def refund_first() -> None:
        made.append("a")
        in_tool.set()
        await is_second_ready.wait()

    async def refund_again() -> None:
        made.append("b")

    async def wait_for_first() -> None:
        is_second_ready.set()
        await is_first_over.wait()

    async def work() -> None:
        first = asyncio.create_task(run_in_own_client(build_agent("a", "refund", refund_first), "Refund it."))
        await in_tool.wait()
        second = asyncio.create_task(
            run_in_own_client(build_agent("a", "refund", refund_again), "Refund it.", Pause(wait_for_first))
        )
        await first
        is_first_over.set()
        with pytest.raises(OwnershipLost):
            await second

    asyncio.run(work())
    assert made == ["a"]
