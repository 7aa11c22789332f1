"""Writes that are done together a little later."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import DatabaseError

from harness_site.core import deferred_writes
from harness_site.core.deferred_writes import DeferredWrites
from harness_site.live import server_lifespan


def test_values_are_written_together_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_writes, "DELAY_SECONDS", 0.01)
    written, done = [], threading.Event()

    def write(batch: Mapping[int, str]) -> None:
        written.append((dict(batch), threading.current_thread() is threading.main_thread()))
        done.set()

    writes: DeferredWrites[int, str] = DeferredWrites("values", write)
    writes.write_later(1, "a")
    assert done.wait(30)
    assert written == [({1: "a"}, False)]


def test_value_can_be_read_until_it_is_written() -> None:
    seen: list[Any] = []
    writes: DeferredWrites[int, str] = DeferredWrites(
        "values", lambda batch: seen.append(writes.find_unwritten_value(1))
    )
    writes.write_later(1, "a")
    writes.write_later(1, "b")
    assert writes.find_unwritten_value(1) == "b"
    writes.flush()
    assert (seen, writes.find_unwritten_value(1)) == (["b"], None)


def test_forgotten_values_are_not_written() -> None:
    seen: list[Any] = []
    writes: DeferredWrites[int, str] = DeferredWrites("forgotten values", seen.append)
    writes.write_later(1, "a")
    (timer,) = (thread for thread in threading.enumerate() if thread.name == "deferred forgotten values")
    deferred_writes.discard_all_waiting_values()
    timer.join(30)
    assert not timer.is_alive()
    writes.flush()
    assert seen == []


@pytest.mark.parametrize("error", [DatabaseError, ValueError])
def test_failure_of_a_write_is_logged(caplog: pytest.LogCaptureFixture, error: type[Exception]) -> None:
    def write(batch: Mapping[int, str]) -> None:
        raise error("It restarts.")

    writes: DeferredWrites[int, str] = DeferredWrites("values", write)
    writes.write_later(1, "a")
    with caplog.at_level(logging.WARNING):
        writes.flush()
    assert caplog.messages == ["1 values could not be written: It restarts."]
    assert writes.find_unwritten_value(1) is None


@pytest.mark.django_db(transaction=True)
def test_waiting_values_are_written_when_the_server_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in ("ChangeFeedTask", "SweepTask", "IndexerTask", "DeliveryTask"):
        monkeypatch.setattr(server_lifespan, task, _IdleTask)
    seen: list[Any] = []
    writes: DeferredWrites[int, str] = DeferredWrites("values", lambda batch: seen.append(dict(batch)))
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> dict[str, Any]:
        if len(messages) == 1:
            writes.write_later(1, "a")
        return messages.pop(0)

    async def send(message: dict[str, Any]) -> None:
        seen.append(message["type"])

    asyncio.run(server_lifespan.handle_lifespan({}, receive, send))
    assert seen == ["lifespan.startup.complete", {1: "a"}, "lifespan.shutdown.complete"]


class _IdleTask:
    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass
