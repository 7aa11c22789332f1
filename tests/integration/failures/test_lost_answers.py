"""A write whose answer never arrives: it is found again, or said to be unknown, and never written twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import StorageUnavailable
from checkpoints.models import Session
from tests.integration.failures.conftest import OpenAt
from tests.support.cluster import cluster
from tests.support.wire import Wire

SAVE = 'INSERT INTO "checkpoints_checkpoint"'
ISSUE = 'INSERT INTO "checkpoints_toolcall"'
SETTLE = 'UPDATE "checkpoints_toolcall"'
COMMIT = "COMMIT"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with cluster() as url:
        yield url


@pytest.fixture
def wire(server: str) -> Iterator[Wire]:
    with Wire(server) as wire:
        yield wire


@pytest.fixture
def session_id(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


@pytest.fixture
def checkpointer(wire: Wire, open_at: OpenAt, session_id: str) -> SyncCheckpointer:
    """A checkpointer at the end of the wire that owns the session."""
    opened = open_at(wire.url)
    opened.start_session(session_id)
    return opened


def mend_soon(wire: Wire) -> None:
    """Mend the wire as soon as it is cut."""

    def mend() -> None:
        while not wire.cut:
            time.sleep(0.001)
        wire.mend()

    threading.Thread(target=mend, daemon=True).start()


def test_version_is_found_again(checkpointer: SyncCheckpointer, wire: Wire, session_id: str) -> None:
    wire.lose_answer_to(SAVE)
    mend_soon(wire)
    assert checkpointer.save_checkpoint(session_id, [{"id": "m0"}], None, 0.0) == 1
    assert checkpointer.save_checkpoint(session_id, [{"id": "m0"}, {"id": "m1"}], None, 0.0) == 2


def test_version_that_cannot_be_looked_for_may_be_there(
    checkpointer: SyncCheckpointer, wire: Wire, session_id: str
) -> None:
    wire.lose_answer_to(SAVE)
    with pytest.raises(StorageUnavailable) as raised:
        checkpointer.save_checkpoint(session_id, [{"id": "m0"}], None, 0.0)
    assert raised.value.may_have_happened is True
    wire.mend()
    latest = checkpointer.load_latest(session_id)
    assert latest is not None
    assert (latest["version"], latest["transcript"]) == (1, [{"id": "m0"}])
    assert checkpointer.append_checkpoint(session_id, [{"id": "m1"}], expected_version=1) == 2


def test_intent_that_cannot_be_looked_for_runs_nothing(
    checkpointer: SyncCheckpointer, wire: Wire, session_id: str
) -> None:
    registry = ToolRegistry(checkpointer=checkpointer, session_id=session_id)
    charged: list[int] = []

    @registry.tool
    def charge(order: int) -> str:
        charged.append(order)
        return "charged"

    wire.lose_answer_to(ISSUE)
    with pytest.raises(StorageUnavailable) as raised:
        registry.dispatch("charge", {"order": 7}, "call_1")
    assert raised.value.may_have_happened is True
    assert charged == []


def test_outcome_is_found_again(checkpointer: SyncCheckpointer, wire: Wire, session_id: str) -> None:
    registry = ToolRegistry(checkpointer=checkpointer, session_id=session_id)
    charged: list[int] = []

    @registry.tool
    def charge(order: int) -> str:
        charged.append(order)
        wire.lose_answer_to(SETTLE)
        mend_soon(wire)
        return "charged"

    assert registry.dispatch("charge", {"order": 7}, "call_1").content == "charged"
    assert charged == [7]


def test_end_of_a_session_that_cannot_be_looked_for_may_be_there(
    checkpointer: SyncCheckpointer, wire: Wire, session_id: str
) -> None:
    wire.lose_answer_to(COMMIT)
    with pytest.raises(StorageUnavailable) as raised:
        checkpointer.finish_session(session_id, "completed")
    assert raised.value.may_have_happened is True
    wire.mend()
    assert Session.objects.using(checkpointer.store.using).get(session_id=session_id).status == "completed"


def test_what_still_runs_for_a_lost_connection_is_waited_for(
    checkpointer: SyncCheckpointer, wire: Wire, session_id: str, server: str
) -> None:
    """The statement of the broken connection waits for a lock; who looks for its version waits behind it."""
    with psycopg.connect(server) as other, ThreadPoolExecutor() as beside:
        other.execute("SELECT 1 FROM checkpoints_session WHERE session_id = %s FOR UPDATE", [session_id])
        wire.lose_answer_to(SAVE, answered=False)
        mend_soon(wire)
        saving = beside.submit(checkpointer.save_checkpoint, session_id, [{"id": "m0"}], None, 0.0)
        until(lambda: waiting(server) == 2)
        other.commit()
        assert saving.result() == 1
    latest = checkpointer.load_latest(session_id)
    assert latest is not None
    assert latest["version"] == 1


def waiting(server: str) -> int:
    """How many backends of the server wait for a lock."""
    with psycopg.connect(server) as admin:
        row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone()
    return 0 if row is None else int(row[0])


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)
