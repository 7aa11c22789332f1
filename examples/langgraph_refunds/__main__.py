"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.types import Command

from checkpoints.adapters.langgraph import HarnessSaver
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)
from examples.langgraph_refunds.agent import build_agent

CONFIG: Any = {"configurable": {"thread_id": "order-17"}}
QUESTION = "Please refund order 17."


def run_agent_and_be_killed_after_refund(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    with HarnessSaver.open(database) as saver:
        build_agent(saver, effects, AFTER_EFFECT).invoke(
            {"messages": [{"role": "user", "content": QUESTION}]}, CONFIG, durability="sync"
        )


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.langgraph_refunds", database, effects)
    with HarnessSaver.open(database) as saver:
        agent = build_agent(saver, effects)
        state = agent.invoke(None, CONFIG)
        gate = state["__interrupt__"][0].value
        print(f"Started again, it does not know whether that happened, and asks: {gate['calls'][0]['args_json']}")
        confirm_refund(saver.sync_checkpointer, "order-17")
        state = agent.invoke(Command(resume=True), CONFIG)
        print(f"The agent says: {state['messages'][-1].content}")
    print(f"Refunds in the end: {count_refunds(effects)}.")


if __name__ == "__main__":
    play_story_or_run_agent(run_agent_and_be_killed_after_refund, play_killed_agent_and_confirmed_refund)
