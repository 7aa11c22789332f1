"""The newest idle thread gets the next work, and what finds no idle thread waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from harness_site.serving.newest_idle_thread_executor import NewestIdleThreadExecutor

SECONDS = 30.0


class Blocked:
    """Work that occupies its thread until it is released, and returns the identity of the thread."""

    def __init__(self, executor: NewestIdleThreadExecutor) -> None:
        self._has_begun, self._may_end = threading.Event(), threading.Event()
        self.future: Future[int] = executor.submit(self._block)

    def _block(self) -> int:
        self._has_begun.set()
        assert self._may_end.wait(SECONDS)
        return threading.get_ident()

    def wait_until_begun(self) -> None:
        assert self._has_begun.wait(SECONDS)

    def release(self) -> int:
        self._may_end.set()
        return self.future.result(SECONDS)


@pytest.mark.parametrize("last", [0, 1, 2])
def test_work_goes_to_newest_idle_thread(last: int) -> None:
    executor = NewestIdleThreadExecutor(3, name="work")
    blocked = [Blocked(executor) for _ in range(3)]
    for work in blocked:
        work.wait_until_begun()
    threads = {work.release() for number, work in enumerate(blocked) if number != last}
    newest = blocked[last].release()
    assert len(threads | {newest}) == 3
    assert [executor.submit(threading.get_ident).result(SECONDS) for _ in range(5)] == [newest] * 5


def test_work_waits_in_order_while_threads_are_busy() -> None:
    executor = NewestIdleThreadExecutor(1, name="work")
    done: list[int] = []
    blocked = Blocked(executor)
    waiting = [executor.submit(done.append, number) for number in range(3)]
    assert waiting[1].cancel()
    blocked.wait_until_begun()
    assert done == []
    blocked.release()
    waiting[2].result(SECONDS)
    assert done == [0, 2]


def test_error_reaches_caller_and_thread_goes_on() -> None:
    executor = NewestIdleThreadExecutor(1, name="work")

    def fail() -> None:
        raise KeyError("lamp")

    with pytest.raises(KeyError, match="lamp"):
        executor.submit(fail).result(SECONDS)
    work: Callable[[int], str] = str
    assert executor.submit(work, 17).result(SECONDS) == "17"


def test_thread_that_cannot_be_started_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = NewestIdleThreadExecutor(1, name="work")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse_to_start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            executor.submit(str)
    assert executor.submit(str, 17).result(SECONDS) == "17"


def _refuse_to_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
