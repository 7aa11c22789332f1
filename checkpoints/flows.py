"""One description of a piece of work, driven by blocking or by async code.

A flow is a generator that yields what it needs done: database work (`Transact`), the user's code (`Invoke`), or a
pause (`Sleep`). It holds all the logic and none of the waiting, so dispatch and resume are written once. The idea
is known as "sans I/O".
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from django.db import connections

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def documented_by(source: Callable[..., Any]) -> Callable[[F], F]:
    """Give a function the docstring of another one: an async method that of its blocking counterpart.

    Args:
        source: Function with the docstring.

    Returns:
        A decorator.
    """

    def document(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return document


@dataclass(frozen=True)
class Transact:
    """Database work: short, blocking, never abandoned half-way."""

    work: Callable[[], Any]


@dataclass
class Invoke:
    """The user's code, sync or async. `started` says whether it may have had an effect.

    `arguments` are passed by name, `positional` before them by position. `timeout` is in seconds.
    """

    function: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    started: bool = False
    positional: tuple[Any, ...] = ()

    def call(self) -> Any:
        """Call the function. Returns an awaitable where it is async."""
        return self.function(*self.positional, **self.arguments)


@dataclass(frozen=True)
class Sleep:
    seconds: float


Step = Transact | Invoke | Sleep
Flow = Generator[Step, Any, T]
Hop = Callable[[Callable[[], Any]], Awaitable[Any]]


def drive(flow: Flow[T]) -> T:
    """Run a flow to its end on this thread."""
    advance: Callable[[], Step] = partial(next, flow)
    try:
        while True:
            step = advance()
            try:
                advance = partial(flow.send, _perform(step))
            except GeneratorExit:  # nobody waits for the flow any more
                flow.close()
                raise
            except BaseException as error:  # the flow decides what every kind of end means
                advance = partial(flow.throw, error)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _perform(step: Step) -> Any:
    if isinstance(step, Transact):
        return step.work()
    if isinstance(step, Sleep):
        return time.sleep(step.seconds)
    return _invoke(step)


def _invoke(step: Invoke) -> Any:
    step.started = True
    if inspect.iscoroutinefunction(step.function):
        return _spawn(lambda: asyncio.run(_ainvoke(step))).result()
    value = step.call() if step.timeout is None else _spawn(step.call).result(step.timeout)
    if inspect.isawaitable(value):  # an async method of a callable object, or a coroutine that a lambda returns
        return _spawn(lambda: asyncio.run(_await_within(value, step.timeout))).result()
    return value


def _spawn(work: Callable[[], T]) -> Future[T]:
    """Run `work` on a daemon thread of its own: a hung tool keeps neither a pool nor the process.

    What the work opens of Django's connections is given back at its end.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on it cannot be cancelled, only left behind
    context = contextvars.copy_context()

    def run() -> None:
        try:
            settle = partial(future.set_result, context.run(work))
        except StopIteration as error:  # futures cannot carry it
            settle = partial(future.set_exception, RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:
            settle = partial(future.set_exception, error)
        try:
            connections.close_all()
        finally:
            settle()

    threading.Thread(target=run, name="harness-invoke", daemon=True).start()
    return future


async def _await_within(value: Awaitable[T], timeout: float | None) -> T:  # noqa: ASYNC109 - as `Invoke` has it
    async with asyncio.timeout(timeout):
        return await value


async def adrive(flow: Flow[T], hop: Hop) -> T:
    """Run a flow to its end on this event loop; `hop` takes database work to a thread.

    A cancellation never abandons database work: it is delivered to the flow at its next other step.
    """
    cancelled = False
    advance: Callable[[], Step] = partial(next, flow)
    try:
        while True:
            step = advance()
            try:
                if isinstance(step, Transact):
                    value, now_cancelled = await _finish(hop(step.work))
                    cancelled = cancelled or now_cancelled
                else:
                    if cancelled:
                        cancelled = False
                        raise asyncio.CancelledError
                    value = await (asyncio.sleep(step.seconds) if isinstance(step, Sleep) else _ainvoke(step))
                advance = partial(flow.send, value)
            except GeneratorExit:  # nobody waits for the flow any more
                flow.close()
                raise
            except BaseException as error:  # the flow decides what every kind of end means
                advance = partial(flow.throw, error)
    except StopIteration as end:
        if cancelled:
            raise asyncio.CancelledError from None
        return end.value  # type: ignore[no-any-return]


async def _finish(work: Awaitable[Any]) -> tuple[Any, bool]:
    """The result of `work`, waited for even while this task is being cancelled, and whether it was."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except BaseException:
            break
    return task.result(), cancelled


async def _ainvoke(step: Invoke) -> Any:
    step.started = True
    async with asyncio.timeout(step.timeout):
        if inspect.iscoroutinefunction(step.function):
            return await step.call()
        value = await asyncio.wrap_future(_spawn(step.call))
        return await value if inspect.isawaitable(value) else value


async def hop(work: Callable[[], T]) -> T:
    """Take database work to a thread of the loop's own pool."""
    return await asyncio.to_thread(work)
