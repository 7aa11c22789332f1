"""Threads such as the heartbeat see the states of clients while other clients are created."""

import sys
import threading
from typing import Any
from weakref import WeakValueDictionary

import pytest

from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState
from checkpoints.store import checkpointer_state
from checkpoints.store.checkpointer_state import CheckpointerState, list_live_client_states
from checkpoints.store.database_client_state import Store


class _RecordingRegistry(WeakValueDictionary[str, CheckpointerState]):
    """Registry that records which attributes a state has when it is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[set[str]] = []

    def __setitem__(self, token: str, state: CheckpointerState) -> None:
        self.attributes.append(set(vars(state)))
        super().__setitem__(token, state)


@pytest.mark.parametrize(
    "build",
    [lambda: Store(workspace_id=1), lambda: RemoteCheckpointerState("http://127.0.0.1:9", "token")],
    ids=["database", "server"],
)
def test_state_is_complete_when_other_threads_can_see_it(monkeypatch: pytest.MonkeyPatch, build: Any) -> None:
    registry = _RecordingRegistry()
    monkeypatch.setattr(checkpointer_state, "_live_stores", registry)
    state = build()
    assert list_live_client_states() == [state]
    assert registry.attributes == [set(vars(state))]


def test_states_are_listed_while_another_thread_creates_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointer_state, "_live_stores", WeakValueDictionary())
    kept = [CheckpointerState() for _ in range(2000)]
    stopped = threading.Event()

    def create_states() -> None:
        while not stopped.is_set():
            kept.append(CheckpointerState())
            kept.pop()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=create_states)
    thread.start()
    try:
        for _ in range(300):
            assert len(list_live_client_states()) >= 2000
    finally:
        stopped.set()
        thread.join()
        sys.setswitchinterval(interval)
