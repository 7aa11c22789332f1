"""Database work of an async test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """The result of `work`, done in a thread that gives its connections back."""

    def run() -> T:
        try:
            return work()
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)
