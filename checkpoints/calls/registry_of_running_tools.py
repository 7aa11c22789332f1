"""Tools that run in this process: which calls they belong to, and inside which of them the current code runs.

A tool may run longer than its dispatch: a blocking one cannot be stopped, so after a timeout, a cancellation or a
release it continues in its thread. Until it ends, a check that finds no effect proves nothing.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, NamedTuple

from checkpoints.exceptions import CallInsideItself


class CallPlace(NamedTuple):
    """Call of a run, by its place in the log. The id of a run is unique everywhere."""

    run_id: str
    session_id: str
    tool: str
    call_id: str
    step: int | None
    attempt: int | None


_lock = threading.Lock()
_running: Counter[CallPlace] = Counter()
_enclosing: ContextVar[tuple[CallPlace, ...]] = ContextVar("calls whose tools called the current code", default=())


def _forget_running_tools_after_fork() -> None:
    """Forget in a forked process what its parent runs: threads are not copied."""
    _running.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget_running_tools_after_fork
    )


def is_tool_running(place: CallPlace) -> bool:
    """Return whether the tool of a call runs in this process, waited for or not."""
    return place in _running


def require_not_inside_running_call(session_id: str, tool: str, call_id: str) -> None:
    """Require that the current code may wait for the end of a running call.

    Raises `CallInsideItself` if the tool of that call has called this code: then neither would end.
    """
    enclosing = _enclosing.get()
    if any((place.session_id, place.tool, place.call_id) == (session_id, tool, call_id) for place in enclosing):
        raise CallInsideItself(session_id, call_id, tool)


class ToolRun:
    """Run of the tool of one call: `increment_running_count`, then one call of `function`, at whose end it ends."""

    def __init__(self, place: CallPlace, function: Callable[..., Any]) -> None:
        """Prepare the run of a function, sync or async."""
        self._place = place
        self.function = (
            self._wrap_async_function(function)
            if inspect.iscoroutinefunction(function)
            else self._wrap_sync_function_to_end_run(function)
        )

    def increment_running_count(self) -> None:
        """Count the tool as running. The function may still have to wait for its thread."""
        with _lock:
            _running[self._place] += 1

    def _count_tool_as_ended(self) -> None:
        with _lock:
            _running[self._place] -= 1
            if _running[self._place] <= 0:
                del _running[self._place]

    def _wrap_sync_function_to_end_run(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call_function_and_end_run(*args: Any, **kwargs: Any) -> Any:
            try:
                with self._mark_code_as_inside_call():
                    value = function(*args, **kwargs)
            except BaseException:
                self._count_tool_as_ended()
                raise
            if inspect.isawaitable(value):
                return self._await_and_end_run(value)
            self._count_tool_as_ended()
            return value

        return call_function_and_end_run

    def _wrap_async_function(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(function)
        async def await_function_and_end_run(*args: Any, **kwargs: Any) -> Any:
            return await self._await_and_end_run(function(*args, **kwargs))

        return await_function_and_end_run

    async def _await_and_end_run(self, value: Awaitable[Any]) -> Any:
        try:
            with self._mark_code_as_inside_call():
                return await value
        finally:
            self._count_tool_as_ended()

    @contextmanager
    def _mark_code_as_inside_call(self) -> Iterator[None]:
        token = _enclosing.set((*_enclosing.get(), self._place))
        try:
            yield
        finally:
            with suppress(ValueError):  # a coroutine that was dropped is closed in another context
                _enclosing.reset(token)
