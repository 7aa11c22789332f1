"""Flows: one description of a piece of work, driven by blocking or by async code.

A flow is a generator that yields what it needs done: database work (`Transact`), the user's code (`Invoke`), or a
pause (`Sleep`). It holds all the logic and does no I/O, so dispatch and resume are written once. The idea
is known as "sans I/O".
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def copy_docstring_from(source: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the docstring of another one: an async method that of its blocking counterpart.

    Args:
        source: Function with the docstring.

    Returns:
        A decorator.
    """

    def copy_docstring_to_function(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return copy_docstring_to_function


@dataclass(frozen=True)
class Transact:
    """Database work: short, blocking, never cancelled half-way."""

    work: Callable[[], Any]


@dataclass
class Invoke:
    """Call of the user's code, sync or async. `started` says whether it may have had an effect.

    `arguments` are passed by name, `positional` before them by position. `timeout` is in seconds. `on_start` is called
    once the function will be called.
    """

    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    started: bool = False
    positional: tuple[Any, ...] = ()
    on_start: Callable[[], None] | None = None

    def mark_started_and_notify(self) -> None:
        """Record that the function is called next."""
        self.started = True
        if self.on_start is not None:
            self.on_start()

    def call_function(self) -> Any:
        """Call the function. Returns an awaitable where it is async."""
        return self.function(*self.positional, **self.arguments)


@dataclass(frozen=True)
class Sleep:
    seconds: float


Step = Transact | Invoke | Sleep
Flow = Generator[Step, Any, T]
RunBlocking = Callable[[Callable[[], Any]], Awaitable[Any]]


def run_flow(flow: Flow[T]) -> T:
    """Run a flow to its end on this thread."""
    advance: Callable[[], Step] = partial(next, flow)
    try:
        while True:
            step = advance()
            try:
                advance = partial(flow.send, _execute_step_and_return_result(step))
            except GeneratorExit:  # the caller has dropped the flow
                flow.close()
                raise
            except BaseException as error:  # the flow handles every kind of error
                advance = partial(flow.throw, error)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _execute_step_and_return_result(step: Step) -> Any:
    if isinstance(step, Transact):
        return step.work()
    if isinstance(step, Sleep):
        return time.sleep(step.seconds)
    return _invoke_user_code_blocking(step)


def _invoke_user_code_blocking(step: Invoke) -> Any:
    step.mark_started_and_notify()
    if inspect.iscoroutinefunction(step.function):
        return _submit_to_daemon_thread(lambda: asyncio.run(_invoke_user_code_async(step))).result()
    value = (
        step.call_function()
        if step.timeout is None
        else _submit_to_daemon_thread(step.call_function).result(step.timeout)
    )
    if inspect.isawaitable(value):  # an async method of a callable object, or a coroutine that a lambda returns
        return _submit_to_daemon_thread(lambda: asyncio.run(_await_with_timeout(value, step.timeout))).result()
    return value


def _submit_to_daemon_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` on a daemon thread of its own, so that a hung tool blocks neither a pool nor the exit of the process.

    The Django connections that the work opens are closed at its end.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only abandoned
    context = contextvars.copy_context()

    def run_work_and_settle_future() -> None:
        try:
            settle = partial(future.set_result, context.run(work))
        except StopIteration as error:  # futures cannot carry it
            settle = partial(future.set_exception, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:
            settle = partial(future.set_exception, error)
        try:
            _close_django_connections()
        finally:
            settle()

    threading.Thread(target=run_work_and_settle_future, name="harness-invoke", daemon=True).start()
    return future


def _close_django_connections() -> None:
    """Close the database connections of this thread, in a process that uses Django."""
    connections = getattr(sys.modules.get("django.db"), "connections", None)
    if connections is not None:
        connections.close_all()


async def _await_with_timeout(value: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109 - as `Invoke` has it
    async with asyncio.timeout(timeout):
        return await value


async def run_flow_async(flow: Flow[T], run_blocking: RunBlocking) -> T:
    """Run a flow to its end on this event loop; `run_blocking` takes database work to a thread.

    A cancellation never interrupts database work: it is delivered to the flow at its next other step.
    """
    is_cancelled = False
    advance: Callable[[], Step] = partial(next, flow)
    try:
        while True:
            step = advance()
            try:
                if isinstance(step, Transact):
                    value, now_cancelled = await _await_result_and_whether_cancelled(run_blocking(step.work))
                    is_cancelled = is_cancelled or now_cancelled
                else:
                    if is_cancelled:
                        is_cancelled = False
                        raise asyncio.CancelledError
                    value = await (
                        asyncio.sleep(step.seconds) if isinstance(step, Sleep) else _invoke_user_code_async(step)
                    )
                advance = partial(flow.send, value)
            except GeneratorExit:  # the caller has dropped the flow
                flow.close()
                raise
            except BaseException as error:  # the flow handles every kind of error
                advance = partial(flow.throw, error)
    except StopIteration as end:
        if is_cancelled:
            raise asyncio.CancelledError from None
        return end.value  # type: ignore[no-any-return]


async def _await_result_and_whether_cancelled(work: Awaitable[Any]) -> tuple[Any, bool]:
    """Await the result of `work` even while this task is being cancelled; also return whether it was."""
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
        except BaseException:
            break
    return task.result(), is_cancelled


async def _invoke_user_code_async(step: Invoke) -> Any:
    if not step.started:
        step.mark_started_and_notify()
    async with asyncio.timeout(step.timeout):
        if inspect.iscoroutinefunction(step.function):
            return await step.call_function()
        value = await asyncio.wrap_future(_submit_to_daemon_thread(step.call_function))
        return await value if inspect.isawaitable(value) else value


async def run_blocking_in_default_thread_pool(work: Callable[[], T]) -> T:
    """Take database work to a thread of the loop's own pool."""
    return await asyncio.to_thread(work)
