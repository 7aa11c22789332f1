"""Database work in async tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread that closes its connections, and return its result."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)
