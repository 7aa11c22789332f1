"""Agents and writers in processes of their own."""

from pathlib import Path

from strands.types.session import SessionMessage

from checkpoints.adapters.strands import HarnessSessionRepository, SessionConflict
from examples.strands_refunds.agent import build_agent_and_harness

QUESTION = "Please refund my orders."


def die_in_tool(url: str, effects: str, moment: str, orders: list[int]) -> None:
    """Run the agent until it kills itself."""
    with HarnessSessionRepository.open(url) as repository:
        agent, _ = build_agent_and_harness(repository, "s", Path(effects), moment, orders)
        agent(QUESTION)


def say(text: str, number: int) -> SessionMessage:
    return SessionMessage.from_message({"role": "user", "content": [{"text": text}]}, number)


def append_in_turns(url: str, writer: int, turns: int) -> int:
    """Append messages behind the last one, and return how often another writer was first."""
    refused = 0
    with HarnessSessionRepository.open(url) as repository:
        for turn in range(turns):
            while True:
                number = len(repository.list_messages("shared", "default"))
                try:
                    repository.create_message("shared", "default", say(f"{writer}.{turn}", number))
                    break
                except SessionConflict:
                    refused += 1
    return refused
