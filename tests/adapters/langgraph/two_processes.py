"""A process with an agent on a thread that another process may continue, too."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent

from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver
from checkpoints.exceptions import CheckpointsError
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT
from examples.langgraph_refunds.agent import POLICIES, ScriptedModel, build_tools
from tests.adapters.langgraph.agents import QUESTION, config


def run_agent(
    url: str, effects: str, durability: str, hold: str = "", *, continues: bool = False, dies: bool = False
) -> str:
    """Run the agent, or continue its thread. Returns what it says, its interrupts, or the name of an error.

    It waits before the effect while the file `hold` exists, and may die after the effect.
    """

    def act(moment: str) -> None:
        if hold and moment == BEFORE_EFFECT:
            Path(f"{hold} reached").touch()
            deadline = time.monotonic() + 60
            while Path(hold).exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        if dies and moment == AFTER_EFFECT:
            os.kill(os.getpid(), signal.SIGKILL)

    with HarnessSaver.open(url) as saver:
        agent = create_agent(
            ScriptedModel(orders=[17]),
            build_tools(Path(effects), act),
            checkpointer=saver,
            middleware=[HarnessMiddleware(saver, POLICIES)],
        )
        try:
            state: Any = agent.invoke(None if continues else QUESTION, config(), durability=durability)
        except CheckpointsError as error:
            return type(error).__name__
        gates = [each.value.get("type") for each in state.get("__interrupt__", ())]
        return ",".join(gates) or str(state["messages"][-1].content)
