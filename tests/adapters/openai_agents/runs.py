"""Runs of agents in tests."""

import asyncio
from typing import Any

from agents import Runner


def run_blocking(*args: Any, **options: Any) -> Any:
    """Run an agent with `Runner.run_sync`, on an event loop that is closed at the end."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return Runner.run_sync(*args, **options)
    finally:
        asyncio.set_event_loop(None)
        loop.close()
