"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.adapters.claude import HarnessSessionStore
from examples.claude_refunds.agent import AFTER_EFFECT, STORED_ID, run_agent


async def ask(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    async with HarnessSessionStore.open(database) as store:
        await run_agent(store, effects, AFTER_EFFECT)


def play(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    child = subprocess.run([sys.executable, "-m", __package__, database, str(effects)], check=False)
    print(f"The agent was killed (exit status {child.returncode}). Refunds so far: {count(effects)}.")
    asyncio.run(go_on(database, effects))
    print(f"Refunds in the end: {count(effects)}.")


async def go_on(database: str, effects: Path) -> None:
    """Run the agent again, and once more after the decision."""
    async with HarnessSessionStore.open(database) as store:
        result = await run_agent(store, effects)
        waiting = result.deferred_tool_use
        print(f"Started again, it does not know whether that happened, and asks: {waiting and waiting.input}")
        await asyncio.to_thread(decide, store.sync_checkpointer)
        result = await run_agent(store, effects)
        print(f"The agent says: {result.result}")


def decide(checkpointer: SyncCheckpointer) -> None:
    """Decide as a person would in the browser, who has looked at the account."""
    (call,) = checkpointer.pending_tool_calls(STORED_ID)
    checkpointer.confirm_landed(
        STORED_ID,
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
        asyncio.run(ask(sys.argv[1], Path(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            play(f"sqlite:///{temporary}/agent.db", Path(temporary) / "effects.log")
