"""Agents in processes of their own, which kill themselves."""

from pathlib import Path
from typing import Any

from checkpoints.adapters.langgraph import HarnessSaver
from examples.langgraph_refunds.agent import build_agent

QUESTION = {"messages": [{"role": "user", "content": "Please refund my orders."}]}


def config(thread_id: str = "s") -> Any:
    return {"configurable": {"thread_id": thread_id}}


def die_in_tool(url: str, effects: str, moment: str, durability: str, orders: list[int]) -> None:
    """Run the agent until it kills itself."""
    with HarnessSaver.open(url) as saver:
        agent = build_agent(saver, Path(effects), moment, orders)
        agent.invoke(QUESTION, config(), durability=durability)
