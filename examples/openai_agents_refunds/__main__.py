"""Play the story: the agent dies after a refund, a person decides, the same program continues."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agents import RunConfig, Runner

from checkpoints import Checkpointer
from checkpoints.adapters.openai_agents import HarnessSession, use_harness
from examples.openai_agents_refunds.agent import AFTER_EFFECT, POLICIES, build_agent

QUESTION = "Please refund order 17."


async def ask(database: str, effects: Path, moment: str | None = None) -> Any:
    """Run the agent. At `moment` its process is killed."""
    use_harness(POLICIES)
    async with Checkpointer.open(database) as checkpointer:
        session = HarnessSession("order-17", checkpointer)
        agent = build_agent(effects, moment)
        return await Runner.run(agent, QUESTION, session=session, run_config=RunConfig(tracing_disabled=True))


def play(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    child = subprocess.run([sys.executable, "-m", __package__, database, str(effects)], check=False)
    print(f"The agent was killed (exit status {child.returncode}). Refunds so far: {count(effects)}.")
    result = asyncio.run(ask(database, effects))
    print(f"Started again, it does not know whether that happened, and asks: {result.interruptions[0].arguments}")
    asyncio.run(decide(database))
    result = asyncio.run(ask(database, effects))
    print(f"The agent says: {result.final_output}")
    print(f"Refunds in the end: {count(effects)}.")


async def decide(database: str) -> None:
    """Decide as a person would in the browser, who has looked at the account."""
    async with Checkpointer.open(database) as checkpointer:
        (call,) = await checkpointer.pending_tool_calls("order-17")
        await checkpointer.confirm_landed(
            "order-17",
            call["call_id"],
            "refunded 40 for order 17",
            actor="alice",
            reason="The bank statement has the payment.",
            revision=call["revision"],
        )


def count(effects: Path) -> int:
    """Count the refunds."""
    return len(effects.read_text().splitlines()) if effects.exists() else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(ask(sys.argv[1], Path(sys.argv[2]), AFTER_EFFECT))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            play(f"sqlite:///{temporary}/agent.db", Path(temporary) / "effects.log")
