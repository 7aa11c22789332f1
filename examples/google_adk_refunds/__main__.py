"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.adapters.google_adk import HarnessSessionService
from examples.google_adk_refunds.agent import APP, USER, ask, build_runner_and_harness, continue_run, get_last_text
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)

SESSION = "order-17"
QUESTION = "Please refund order 17."


def run_agent_and_be_killed_after_refund(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    with HarnessSessionService.open(database) as service:
        runner, _ = build_runner_and_harness(service, effects, AFTER_EFFECT)
        asyncio.run(ask(runner, SESSION, QUESTION))


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.google_adk_refunds", database, effects)
    restart_and_print_call_needing_decision(database, effects)
    with SyncCheckpointer.open(database) as checkpointer:
        confirm_refund(checkpointer, f"{APP}/{USER}/{SESSION}")
    print(f"The agent says: {continue_after_decision(database, effects)}")
    print(f"Refunds in the end: {count_refunds(effects)}.")


def restart_and_print_call_needing_decision(database: str, effects: Path) -> None:
    """Resume the run: the call of the killed process is made again, and waits for a person."""
    with HarnessSessionService.open(database) as service:
        runner, harness = build_runner_and_harness(service, effects)
        events = asyncio.run(continue_run(runner, harness, SESSION))
        requests = [request for event in events for request in event.actions.requested_tool_confirmations.values()]
        (call,) = requests[0].payload["calls"]
        print(f"Started again, it does not know whether that happened, and asks: {call['args_json']}")


def continue_after_decision(database: str, effects: Path) -> str:
    """Continue with the decision, as any process can."""
    with HarnessSessionService.open(database) as service:
        runner, harness = build_runner_and_harness(service, effects)
        return get_last_text(asyncio.run(continue_run(runner, harness, SESSION)))


if __name__ == "__main__":
    play_story_or_run_agent(run_agent_and_be_killed_after_refund, play_killed_agent_and_confirmed_refund)
