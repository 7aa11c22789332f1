import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from checkpoints import sync_and_async_flow_runners
from checkpoints.sync_and_async_flow_runners import Flow, Invoke, Sleep, Step, Transact

Driver = Callable[[Flow[Any]], Any]


def run_flow_on_event_loop(flow: Flow[Any]) -> Any:
    return asyncio.run(
        sync_and_async_flow_runners.run_flow_async(
            flow, sync_and_async_flow_runners.run_blocking_in_default_thread_pool
        )
    )


@pytest.fixture(params=[sync_and_async_flow_runners.run_flow, run_flow_on_event_loop], ids=["blocking", "async"])
def driver(request: pytest.FixtureRequest) -> Driver:
    chosen: Driver = request.param
    return chosen


def make_flow(*steps: Step) -> Flow[list[Any]]:
    """Build a flow that performs the steps and returns their results; an error is returned as its name."""
    got: list[Any] = []
    for step in steps:
        try:
            got.append((yield step))
        except Exception as error:
            got.append(type(error).__name__)
    return got


def double(number: int) -> int:
    return number * 2


async def adouble(number: int) -> int:
    await asyncio.sleep(0)
    return number * 2


def fails() -> None:
    raise KeyError("gone")


async def afails() -> None:
    raise KeyError("gone")


def stops() -> None:
    raise StopIteration


def test_flow_without_steps_returns_its_value(driver: Driver) -> None:
    assert driver(make_flow()) == []


def test_steps_are_performed_in_order(driver: Driver) -> None:
    steps = (Transact(lambda: "first"), Sleep(0), Invoke(double, {"number": 4}), Transact(lambda: "last"))

    assert driver(make_flow(*steps)) == ["first", None, 8, "last"]


@pytest.mark.parametrize("function", [double, adouble, partial(adouble), lambda number: adouble(number)])
def test_invoke_takes_every_kind_of_function(driver: Driver, function: Callable[..., Any]) -> None:
    assert driver(make_flow(Invoke(function, {"number": 21}), Invoke(function, {"number": 2}, timeout=60))) == [42, 4]


@pytest.mark.parametrize("function", [fails, afails])
def test_error_of_a_step_reaches_the_flow(driver: Driver, function: Callable[..., Any]) -> None:
    assert driver(make_flow(Invoke(function), Invoke(function, timeout=60), Transact(fails), Sleep(0))) == [
        "KeyError",
        "KeyError",
        "KeyError",
        None,
    ]


def test_error_not_handled_by_the_flow_reaches_the_caller(driver: Driver) -> None:
    def careless() -> Flow[None]:
        yield Transact(fails)

    with pytest.raises(KeyError, match="gone"):
        driver(careless())


def test_stop_iteration_of_user_code_does_not_end_the_flow(driver: Driver) -> None:
    assert driver(make_flow(Invoke(stops, timeout=60), Transact(lambda: "after"))) == ["RuntimeError", "after"]


def test_invoke_times_out(driver: Driver) -> None:
    held = threading.Event()

    assert driver(make_flow(Invoke(held.wait, timeout=0.01), Transact(held.set))) == ["TimeoutError", None]


def test_coroutine_times_out(driver: Driver) -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    assert driver(make_flow(Invoke(forever, timeout=0.01), Transact(lambda: "after"))) == ["TimeoutError", "after"]


def test_invoke_is_marked_as_started(driver: Driver) -> None:
    seen = []
    invoke = Invoke(lambda: seen.append(invoke.started))

    assert (invoke.started, driver(make_flow(invoke)), seen) == (False, [None], [True])


def test_blocking_driver_calls_a_function_on_the_same_thread() -> None:
    assert sync_and_async_flow_runners.run_flow(make_flow(Invoke(threading.get_ident))) == [threading.get_ident()]


def test_async_driver_does_not_block_the_event_loop() -> None:
    assert (
        run_flow_on_event_loop(make_flow(Invoke(threading.get_ident), Transact(threading.get_ident)))
        != [threading.get_ident()] * 2
    )


def test_blocking_driver_raises_an_interrupt_in_the_flow() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    recorded = []

    def careful() -> Flow[None]:
        try:
            yield Invoke(interrupted)
        except KeyboardInterrupt:
            yield Transact(lambda: recorded.append("interrupted"))
            raise

    with pytest.raises(KeyboardInterrupt):
        sync_and_async_flow_runners.run_flow(careful())
    assert recorded == ["interrupted"]


# cancellation


class ControlledFlow:
    """Flow whose steps append to a list and wait for the test."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def work(self) -> str:
        self.log.append("work begins")
        self.reached.set()
        assert self.go_on.wait(60)
        self.log.append("work ends")
        return "worked"

    def tool(self) -> None:
        self.log.append("tool ran")

    async def atool(self) -> None:
        self.log.append("tool began")
        self.reached.set()
        await asyncio.Event().wait()

    def invoking(self, function: Callable[..., Any], *before: Step) -> Flow[str]:
        yield from make_flow(*before)
        invoke = Invoke(function)
        try:
            yield invoke
        except asyncio.CancelledError:
            self.log.append("started" if invoke.started else "not started")
            yield Transact(lambda: self.log.append("recorded"))
            raise
        return "done"

    async def cancelled_when_reached(self, flow: Flow[Any]) -> None:
        task = asyncio.ensure_future(
            sync_and_async_flow_runners.run_flow_async(
                flow, sync_and_async_flow_runners.run_blocking_in_default_thread_pool
            )
        )
        await asyncio.to_thread(self.reached.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        self.go_on.set()
        await task


@pytest.mark.asyncio
async def test_cancellation_waits_for_database_work_and_prevents_the_tool_call() -> None:
    controlled_flow = ControlledFlow()

    with pytest.raises(asyncio.CancelledError):
        await controlled_flow.cancelled_when_reached(
            controlled_flow.invoking(controlled_flow.tool, Transact(controlled_flow.work))
        )

    assert controlled_flow.log == ["work begins", "work ends", "not started", "recorded"]


@pytest.mark.asyncio
async def test_cancellation_inside_the_tool_is_recorded_by_the_flow() -> None:
    controlled_flow = ControlledFlow()

    with pytest.raises(asyncio.CancelledError):
        await controlled_flow.cancelled_when_reached(controlled_flow.invoking(controlled_flow.atool))

    assert controlled_flow.log == ["tool began", "started", "recorded"]


@pytest.mark.asyncio
async def test_cancellation_during_the_last_database_work_is_raised() -> None:
    controlled_flow = ControlledFlow()

    with pytest.raises(asyncio.CancelledError):
        await controlled_flow.cancelled_when_reached(make_flow(Transact(controlled_flow.work)))

    assert controlled_flow.log == ["work begins", "work ends"]


@pytest.mark.asyncio
async def test_second_cancellation_does_not_abandon_database_work() -> None:
    controlled_flow = ControlledFlow()
    task = asyncio.ensure_future(
        sync_and_async_flow_runners.run_flow_async(
            make_flow(Transact(controlled_flow.work)), sync_and_async_flow_runners.run_blocking_in_default_thread_pool
        )
    )
    await asyncio.to_thread(controlled_flow.reached.wait, 60)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert task.done() is False
    controlled_flow.go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert controlled_flow.log == ["work begins", "work ends"]


@pytest.mark.asyncio
async def test_cancellation_of_a_sleep_reaches_the_flow() -> None:
    log = []

    def waiting() -> Flow[None]:
        try:
            yield Sleep(3600)
        except asyncio.CancelledError:
            yield Transact(lambda: log.append("released"))
            raise

    task = asyncio.ensure_future(
        sync_and_async_flow_runners.run_flow_async(
            waiting(), sync_and_async_flow_runners.run_blocking_in_default_thread_pool
        )
    )
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["released"]
