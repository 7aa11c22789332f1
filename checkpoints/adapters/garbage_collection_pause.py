"""Pause of Python's garbage collector while a load builds thousands of objects, all of which stay.

Each few hundred new objects start a collection, which examines the objects of the load, finds nothing, and passes them
on to the older generations; these then become large enough for a full collection, which examines the whole process.
After a pause, one collection of the youngest generation examines all of them once.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Held while a thread has paused the collector.
_pause = threading.Lock()


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector for a `with` block of a few milliseconds, unless it is paused or disabled already.

    Other threads may pause at the same time. The pause ends with that of the first one, so that threads that take turns
    do not prevent collections.
    """
    pause = _pause
    if not gc.isenabled() or not pause.acquire(blocking=False):
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        pause.release()


def _end_pause_in_child() -> None:
    """End the pause of a thread that a forked process does not have."""
    global _pause
    if _pause.locked():
        gc.enable()
    _pause = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_pause_in_child)
