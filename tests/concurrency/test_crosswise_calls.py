"""Two sealed sessions that use calls of each other do not wait for each other's lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import CallInProgress
from checkpoints.seals.witness_file import FileWitness
from tests.concurrency.test_threads import together
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import start_session
from tests.support.exhaustive_mode import count_examples

ROUNDS = count_examples(6)


@pytest.fixture(autouse=True)
def sealing_is_on(settings: Any, tmp_path: Path) -> None:
    FileWitness.create_storage(tmp_path / "witness")
    settings.HARNESS_SEAL_KEY = "5e" * 32
    settings.HARNESS_WITNESS = str(tmp_path / "witness")


class Charging:
    """Tool whose first call for each order waits for `may_fail`, and fails; its key is the same in all sessions."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.inside: dict[str, Event] = {}
        self.may_fail = Event()

    def make_registry(self, cp: SyncCheckpointer, session_id: str) -> ToolRegistry:
        self.inside[session_id] = Event()
        registry = ToolRegistry(checkpointer=cp, session_id=session_id)

        @registry.tool(scope="workspace")
        def charge(order: str) -> str:
            self.orders.append(order)
            if self.orders.count(order) == 1:
                self.inside[order].set()
                assert self.may_fail.wait(60)
                raise ValueError("there is no such order yet")
            return f"charged {order}"

        return registry


def charge(registry: ToolRegistry, order: str, call_id: str) -> str:
    return registry.dispatch("charge", {"order": order}, call_id, in_progress="raise").content


def charge_in_thread(registry: ToolRegistry, order: str) -> None:
    try:
        charge(registry, order, "own")
    finally:
        connection.close()


def test_sessions_issue_failed_calls_of_each_other_at_once(open_checkpointer: Open) -> None:
    for number in range(ROUNDS):
        charging, names = Charging(), (f"a{number}", f"b{number}")
        registries = [charging.make_registry(start_session(open_checkpointer(), name), name) for name in names]
        with ThreadPoolExecutor(2) as threads:
            running = [threads.submit(charge_in_thread, *pair) for pair in zip(registries, names, strict=True)]
            assert all(charging.inside[name].wait(60) for name in names)
            for registry, name in zip(registries, reversed(names), strict=True):
                with suppress(CallInProgress):
                    charge(registry, name, "other, early")
            charging.may_fail.set()
            for future in running:
                future.result()

        first, second = (
            partial(charge, registry, name, "other") for registry, name in zip(registries, reversed(names), strict=True)
        )
        assert together(first, second) == [f"charged {names[1]}", f"charged {names[0]}"]
        assert sorted(charging.orders) == sorted([*names, *names])


def test_sessions_replay_calls_of_each_other_at_once(open_checkpointer: Open) -> None:
    for number in range(ROUNDS // 3):
        names = (f"a{number}", f"b{number}")
        registries = []
        for name in names:
            registry = ToolRegistry(checkpointer=start_session(open_checkpointer(), name), session_id=name)
            registry.tool(scope="workspace")(charge_at_once)
            registry.dispatch("charge_at_once", {"order": name}, "own")
            registries.append(registry)

        def work(registry: ToolRegistry, own: str, other: str) -> list[str]:
            results = []
            for turn in range(4):
                registry.dispatch("charge_at_once", {"order": f"{own} {turn}"}, f"own {turn}")
                results.append(registry.dispatch("charge_at_once", {"order": other}, f"other {turn}").content)
            return results

        first, second = partial(work, registries[0], *names), partial(work, registries[1], *reversed(names))
        assert together(first, second) == [[f"charged {names[1]}"] * 4, [f"charged {names[0]}"] * 4]


def charge_at_once(order: str) -> str:
    return f"charged {order}"
