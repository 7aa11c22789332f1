"""Writes that need not be durable before an answer is sent: a thread of this process does those that wait together."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

from django.db import DatabaseError, connections

logger = logging.getLogger(__name__)

#: Longest time in seconds that a value waits.
DELAY_SECONDS: Final = 0.5

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_all: Final[weakref.WeakSet[DeferredWrites[object, object]]] = weakref.WeakSet()


class DeferredWrites(Generic[K, V]):
    """Values that wait to be written; the newest of each key.

    The end of the process loses them, and so does a failure of the database. So a value that waits is one that can be
    done without.

    Args:
        name: What the values are, for the log.
        write: Function that writes all values of a batch.
    """

    def __init__(self, name: str, write: Callable[[Mapping[K, V]], None]) -> None:
        self._name, self._write_batch = name, write
        self._lock = threading.Lock()
        #: Held while a batch is written, so that `flush` and `discard_waiting_values` return when nothing is being
        #: written.
        self._writing_lock = threading.Lock()
        self._waiting: dict[K, V] = {}
        self._being_written: dict[K, V] = {}
        self._timer: threading.Timer | None = None
        _all.add(self)  # type: ignore[arg-type]

    def write_later(self, key: K, value: V) -> None:
        """Write a value at most `DELAY_SECONDS` later."""
        with self._lock:
            self._waiting[key] = value
            if self._timer is None or not self._timer.is_alive():  # also after a fork, where no thread goes on
                self._timer = threading.Timer(DELAY_SECONDS, self._flush_in_thread_and_close_connections)
                self._timer.name, self._timer.daemon = f"deferred {self._name}", True
                self._timer.start()

    def find_unwritten_value(self, key: K) -> V | None:
        """Return a value that is not written yet, or None."""
        with self._lock:
            return self._waiting.get(key, self._being_written.get(key))

    def flush(self) -> None:
        """Write what waits now."""
        with self._writing_lock:
            with self._lock:
                self._being_written, self._waiting = self._waiting, {}
                self._stop_timer()
            try:
                if self._being_written:
                    self._write_batch(self._being_written)
            except Exception as error:  # other writes of this process go on
                count, unexpected = len(self._being_written), not isinstance(error, DatabaseError)
                logger.warning("%d %s could not be written: %s", count, self._name, error, exc_info=unexpected)
            finally:
                with self._lock:
                    self._being_written = {}

    def discard_waiting_values(self) -> None:
        """Discard what waits, as the end of the process does."""
        with self._writing_lock, self._lock:
            self._waiting = {}
            self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # which does nothing to the thread that writes now
            self._timer = None

    def _flush_in_thread_and_close_connections(self) -> None:
        try:
            self.flush()
        finally:
            connections.close_all()


def flush_all() -> None:
    """Write everything that waits in this process."""
    for writes in list(_all):
        writes.flush()


def discard_all_waiting_values() -> None:
    """Discard everything that waits in this process."""
    for writes in list(_all):
        writes.discard_waiting_values()
