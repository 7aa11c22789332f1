"""Runs of agents in tests, and in processes that kill themselves."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner

from checkpoints import Checkpointer, ToolPolicies
from checkpoints.adapters.openai_agents import HarnessRunner, HarnessSession
from examples.openai_agents_refunds.agent import POLICIES, build_agent

QUESTION = "Please refund my orders."
QUIET = RunConfig(tracing_disabled=True)


def run_blocking(*args: Any, run: Callable[..., Any] = Runner.run_sync, **options: Any) -> Any:
    """Run an agent with `run_sync`, on an event loop that is closed at the end."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return run(*args, **options)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def run_agent(
    url: str,
    agent: Agent[Any],
    given: Any = QUESTION,
    *,
    method: str = "run",
    policies: ToolPolicies = POLICIES,
    limit: int | None = None,
) -> Any:
    """Run an agent with a runner and a client of its own, as one start of a program does."""
    runner = HarnessRunner(policies)
    async with Checkpointer.open(url) as checkpointer:
        session = HarnessSession("s", checkpointer, session_settings={"limit": limit})
        if method == "run_sync":
            return await asyncio.to_thread(
                run_blocking, agent, given, run=runner.run_sync, session=session, run_config=QUIET
            )
        if method == "run":
            return await runner.run(agent, given, session=session, run_config=QUIET)
        result = runner.run_streamed(agent, given, session=session, run_config=QUIET)
        async for _ in result.stream_events():
            pass
        return result


def die_in_tool(url: str, effects: str, moment: str, method: str, orders: Sequence[int]) -> None:
    """Run the agent until its tool kills the process."""
    asyncio.run(run_agent(url, build_agent(Path(effects), moment, orders), method=method))


def die_after_write(url: str, effects: str, number: int) -> None:
    """Run the agent until the process is killed after so many writes of the session."""
    change, writes = HarnessSession.run_under_session_claims_lock, 0

    async def change_and_die(session: HarnessSession, work: Callable[[], Any]) -> Any:
        nonlocal writes
        returned = await change(session, work)
        writes += 1
        if writes == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return returned

    HarnessSession.run_under_session_claims_lock = change_and_die  # type: ignore[method-assign, assignment]
    asyncio.run(run_agent(url, build_agent(Path(effects))))
