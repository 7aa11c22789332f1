"""Whether code slept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def counted_sleeps() -> Iterator[list[float]]:
    """For how long this thread has slept."""
    slept: list[float] = []
    sleep, mine = time.sleep, threading.current_thread()

    def counted(seconds: float) -> None:
        if threading.current_thread() is mine:
            slept.append(seconds)
        sleep(seconds)

    with patch("time.sleep", counted):
        yield slept
