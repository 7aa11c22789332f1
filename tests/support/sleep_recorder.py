"""Recorder of sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def record_sleeps() -> Iterator[list[float]]:
    """Record the durations for which this thread sleeps."""
    durations: list[float] = []
    sleep, current = time.sleep, threading.current_thread()

    def counted(seconds: float) -> None:
        if threading.current_thread() is current:
            durations.append(seconds)
        sleep(seconds)

    with patch("time.sleep", counted):
        yield durations
