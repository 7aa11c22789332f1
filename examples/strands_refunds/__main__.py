"""Play the story: the agent dies after a refund, a person decides, the agent continues in another process."""

from __future__ import annotations

from pathlib import Path

from checkpoints import SyncCheckpointer
from checkpoints.adapters.strands import HarnessSessionRepository
from examples.kill_and_decision_helpers import (
    AFTER_EFFECT,
    confirm_refund,
    count_refunds,
    play_story_or_run_agent,
    run_agent_in_process_that_is_killed,
)
from examples.strands_refunds.agent import build_agent_and_harness

QUESTION = "Please refund order 17."


def run_agent_and_be_killed_after_refund(database: str, effects: Path) -> None:
    """Run the agent, which is killed when the money has been sent and nothing has been recorded."""
    with HarnessSessionRepository.open(database) as repository:
        agent, _ = build_agent_and_harness(repository, "order-17", effects, AFTER_EFFECT)
        agent(QUESTION)


def play_killed_agent_and_confirmed_refund(database: str, effects: Path) -> None:
    """Play the story in a database; `effects` is the file of what happened outside of it."""
    run_agent_in_process_that_is_killed("examples.strands_refunds", database, effects)
    restart_and_print_call_needing_decision(database, effects)
    with SyncCheckpointer.open(database) as checkpointer:
        confirm_refund(checkpointer, "order-17")
    print(f"The agent says: {continue_after_decision(database, effects)}")
    print(f"Refunds in the end: {count_refunds(effects)}.")


def restart_and_print_call_needing_decision(database: str, effects: Path) -> None:
    """Continue without a prompt: the call of the killed process is made again, and waits for a person."""
    with HarnessSessionRepository.open(database) as repository:
        agent, _ = build_agent_and_harness(repository, "order-17", effects)
        result = agent()
        assert result.stop_reason == "interrupt"  # noqa: S101 - the story
        (call,) = result.interrupts[0].reason["calls"]
        print(f"Started again, it does not know whether that happened, and asks: {call['args_json']}")


def continue_after_decision(database: str, effects: Path) -> str:
    """Continue with the decision, as any process can."""
    with HarnessSessionRepository.open(database) as repository:
        agent, harness = build_agent_and_harness(repository, "order-17", effects)
        return str(agent(harness.build_responses())).strip()


if __name__ == "__main__":
    play_story_or_run_agent(run_agent_and_be_killed_after_refund, play_killed_agent_and_confirmed_refund)
