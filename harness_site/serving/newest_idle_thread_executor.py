"""Executor whose work goes to the thread that has been idle for the shortest time.

The idle threads of `ThreadPoolExecutor` wait for one queue, and the one that takes an item wakes a second one, which
finds nothing but takes the interpreter from the first. Here each thread waits for work of its own, and while one thread
is enough the same one, with its caches, does all of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_Work = tuple[Future[Any], Callable[[], Any]]


class NewestIdleThreadExecutor(Executor):
    """Executor with at most `threads` threads, which are started when they are needed and end with the process.

    Args:
        threads: Largest number of threads.
        name: Name of each thread.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        self._threads, self._name = threads, name
        self._lock = threading.Lock()
        self._started = 0
        #: Work for which no thread is idle, the oldest first.
        self._waiting: deque[_Work] = deque()
        #: Queues of the idle threads, the newest last.
        self._idle: list[SimpleQueue[_Work]] = []

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Let a thread call a function. Returns the future of its result.

        Raises `RuntimeError` if a thread is missing and the system does not start it.
        """
        future: Future[T] = Future()
        work = future, partial(function, *args, **kwargs)
        with self._lock:
            if self._idle:
                self._idle.pop().put(work)
                return future
            is_new = self._started < self._threads
            if is_new:
                self._started += 1
            else:
                self._waiting.append(work)
        if is_new:
            self._start_thread(work)
        return future

    def _start_thread(self, first: _Work) -> None:
        try:
            threading.Thread(target=self._work_in_thread, args=(first,), name=self._name, daemon=True).start()
        except RuntimeError:  # the system has no more threads now
            with self._lock:
                self._started -= 1
            raise

    def _work_in_thread(self, first: _Work) -> None:
        inbox: SimpleQueue[_Work] = SimpleQueue()
        inbox.put(first)
        del first
        while True:
            future, call = inbox.get()
            deliver: Callable[[], None] | None = None
            if future.set_running_or_notify_cancel():
                try:
                    deliver = partial(future.set_result, call())
                except BaseException as error:
                    deliver = partial(future.set_exception, error)
            # Before the result is known, so that what follows it finds an idle thread.
            self._assign_work_or_mark_idle(inbox)
            if deliver is not None:
                deliver()
            del future, call, deliver

    def _assign_work_or_mark_idle(self, inbox: SimpleQueue[_Work]) -> None:
        """Give a thread the oldest work that waits, or note that it is idle."""
        with self._lock:
            if self._waiting:
                inbox.put(self._waiting.popleft())
            else:
                self._idle.append(inbox)
