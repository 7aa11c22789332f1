"""Checkpointer for the agent server of LangGraph, which loads it by a path of `langgraph.json`.

    {"checkpointer": {"path": "./checkpointer.py:open_checkpointer"}}

The file `checkpointer.py` imports `open_checkpointer` from here, or has a function of its own that is like it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from checkpoints.adapters.langgraph.saver import HarnessSaver
from checkpoints.exceptions import InvalidInput


@asynccontextmanager
async def open_checkpointer() -> AsyncIterator[HarnessSaver]:
    """Open the database of the environment variable `HARNESS_DATABASE_URL` for as long as the server runs.

    Yields:
        The checkpointer. Its sessions are released and its connections closed at the end.

    Raises:
        InvalidInput: The variable is not set, or names a server over HTTP.
    """
    url = os.environ.get("HARNESS_DATABASE_URL", "")
    if not url:
        raise InvalidInput("HARNESS_DATABASE_URL is not set. It is the path or the URL of the database.")
    async with HarnessSaver.aopen(url) as saver:
        yield saver
