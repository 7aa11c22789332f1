"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from langgraph.types import Command

from checkpoints import SyncCheckpointer
from checkpoints.adapters.langgraph import HarnessSaver
from examples.langgraph_refunds.agent import AFTER_EFFECT, build_agent

CONFIG: Any = {"configurable": {"thread_id": "order-17"}}
QUESTION = "Please refund order 17."


def ask(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    with HarnessSaver.open(database) as saver:
        build_agent(saver, effects, AFTER_EFFECT).invoke(
            {"messages": [{"role": "user", "content": QUESTION}]}, CONFIG, durability="sync"
        )


def play(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    child = subprocess.run([sys.executable, "-m", __package__, database, str(effects)], check=False)
    print(f"The agent was killed (exit status {child.returncode}). Refunds so far: {count(effects)}.")
    with HarnessSaver.open(database) as saver:
        agent = build_agent(saver, effects)
        state = agent.invoke(None, CONFIG)
        gate = state["__interrupt__"][0].value
        print(f"Started again, it does not know whether that happened, and asks: {gate['calls'][0]['args_json']}")
        decide(saver.sync_checkpointer)
        state = agent.invoke(Command(resume=True), CONFIG)
        print(f"The agent says: {state['messages'][-1].content}")
    print(f"Refunds in the end: {count(effects)}.")


def decide(checkpointer: SyncCheckpointer) -> None:
    """Decide as a person would in the browser, who has looked at the account."""
    (call,) = checkpointer.pending_tool_calls("order-17")
    checkpointer.confirm_landed(
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
        ask(sys.argv[1], Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            play(f"sqlite:///{temporary}/agent.db", Path(temporary) / "effects.log")
