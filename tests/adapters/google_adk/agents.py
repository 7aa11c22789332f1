"""Agents and writers in processes of their own."""

import asyncio
from pathlib import Path

from google.adk.errors import StaleSessionError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

from checkpoints.adapters.google_adk import HarnessSessionService
from examples.google_adk_refunds.agent import APP, USER, ask, build_runner_and_harness

QUESTION = "Please refund my orders."


def die_in_tool(url: str, effects: str, moment: str, orders: list[int]) -> None:
    """Run the agent until it kills itself."""
    with HarnessSessionService.open(url) as service:
        runner, _ = build_runner_and_harness(service, Path(effects), moment, orders)
        asyncio.run(ask(runner, "s", QUESTION))


def say(text: str, **state: object) -> Event:
    """Build an event of the user that changes the state."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="run", content=content, actions=EventActions(state_delta=state))


def append_in_turns(url: str, writer: int, turns: int) -> int:
    """Append events to a session that others append to, and return how often another writer was first."""

    async def append() -> int:
        refused = 0
        async with HarnessSessionService.aopen(url) as service:
            for turn in range(turns):
                while True:
                    session = await service.get_session(app_name=APP, user_id=USER, session_id="shared")
                    assert session is not None
                    counted = {"user:turns": [*session.state.get("user:turns", []), f"{writer}.{turn}"]}
                    try:
                        await service.append_event(session, say(f"{writer}.{turn}", **counted))
                        break
                    except StaleSessionError:
                        refused += 1
        return refused

    return asyncio.run(append())
