"""Failures of a PostgreSQL server: acknowledged versions are kept, and none is written twice."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry
from checkpoints.database_url import database_from_url
from checkpoints.exceptions import ConnectionFailed, StorageBusy, StorageUnavailable
from tests.integration.failures.conftest import OpenAt, close_all
from tests.support.cluster import Cluster

TURNS = 150


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def backends(server: Cluster) -> int:
    """Terminate every other backend of the server, as an administrator would. Returns how many there were."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        )
        return len(ended.fetchall())


def save_all(checkpointer: SyncCheckpointer, session_id: str) -> list[int]:
    """Save `TURNS` growing transcripts, each until it is acknowledged. Returns the acknowledged versions."""
    transcript: list[dict[str, Any]] = []
    acknowledged = []
    for turn in range(TURNS):
        transcript.append({"id": f"m{turn}", "role": "user"})
        acknowledged.append(until_saved(checkpointer, session_id, transcript))
    return acknowledged


def until_saved(checkpointer: SyncCheckpointer, session_id: str, transcript: list[dict[str, Any]]) -> int:
    for _ in range(600):
        try:
            return checkpointer.save_checkpoint(session_id, transcript, None, 0.0)
        except StorageUnavailable as error:
            if error.may_have_happened:
                latest = read_back(checkpointer, session_id)
                if latest["transcript"] == transcript:
                    return int(latest["version"])
            time.sleep(0.05)
    raise AssertionError("the server never came back")


def read_back(checkpointer: SyncCheckpointer, session_id: str, version: int | None = None) -> dict[str, Any]:
    """Load a version, with a retry because a connection that broke while idle fails once."""
    for _ in range(600):
        try:
            if version is not None:
                return checkpointer.load(session_id, version)
            return checkpointer.load_latest(session_id) or {"transcript": [], "version": 0}
        except StorageUnavailable:
            time.sleep(0.05)
    raise AssertionError("the server never came back")


def disturbed(server: Cluster, disturb: Any, times: int, work: Any) -> Any:
    """Run `work` while `disturb` is called `times` times in another thread."""

    def run() -> None:
        for _ in range(times):
            time.sleep(0.15)
            disturb()

    beside = threading.Thread(target=run)
    beside.start()
    try:
        return work()
    finally:
        beside.join()


def test_saves_survive_killed_backends(server: Cluster, open_at: OpenAt) -> None:
    checkpointer = open_at(server.url)
    checkpointer.start_session("backends")
    acknowledged = disturbed(server, lambda: backends(server), 5, lambda: save_all(checkpointer, "backends"))
    assert acknowledged == list(range(1, TURNS + 1))
    assert len(read_back(checkpointer, "backends", TURNS)["transcript"]) == TURNS


def test_saves_survive_a_killed_server(server: Cluster, open_at: OpenAt) -> None:
    checkpointer = open_at(server.url)
    checkpointer.start_session("server")

    def crash() -> None:
        server.kill()
        server.start()

    acknowledged = disturbed(server, crash, 2, lambda: save_all(checkpointer, "server"))
    assert acknowledged == list(range(1, TURNS + 1))
    assert [len(read_back(checkpointer, "server", v)["transcript"]) for v in (1, 75, TURNS)] == [1, 75, TURNS]


def test_dispatch_runs_each_call_once_while_backends_die(server: Cluster, open_at: OpenAt) -> None:
    checkpointer = open_at(server.url)
    checkpointer.start_session("calls")
    registry = ToolRegistry(checkpointer=checkpointer, session_id="calls")
    charged: list[int] = []

    @registry.tool
    def charge(order: int) -> str:
        charged.append(order)
        return f"charged {order}"

    def dispatch_all() -> list[str]:
        said = []
        for order in range(60):
            for _ in range(100):
                try:
                    said.append(registry.dispatch("charge", {"order": order}, f"call_{order}").content)
                    break
                except StorageUnavailable:
                    time.sleep(0.02)
        return said

    said = disturbed(server, lambda: backends(server), 4, dispatch_all)
    assert said == [f"charged {order}" for order in range(60)]
    assert charged == list(range(60))


def test_save_of_a_locked_row_fails_with_a_typed_error(server: Cluster, open_at: OpenAt) -> None:
    checkpointer = open_at(f"{server.url}?options=-c%20lock_timeout%3D100ms")
    checkpointer.start_session("locked")
    with psycopg.connect(server.url) as other:
        other.execute("SELECT 1 FROM checkpoints_session WHERE session_id = 'locked' FOR UPDATE")
        with pytest.raises(StorageBusy) as raised:
            checkpointer.save_checkpoint("locked", [], None, 0.0)
        other.rollback()
    assert raised.value.may_have_happened is False
    assert checkpointer.save_checkpoint("locked", [], None, 0.0) == 1


def test_stopped_server_error_states_that_nothing_was_written(server: Cluster, open_at: OpenAt) -> None:
    checkpointer = open_at(server.url)
    checkpointer.start_session("gone")
    checkpointer.save_checkpoint("gone", [], None, 0.0)
    server.stop("immediate")
    try:
        with pytest.raises(StorageUnavailable):
            checkpointer.save_checkpoint("gone", [{"id": "m0"}], None, 0.0)
        with pytest.raises(StorageUnavailable) as raised:
            checkpointer.load_latest("gone")
        assert raised.value.may_have_happened is False
    finally:
        server.start()
    assert checkpointer.save_checkpoint("gone", [{"id": "m0"}], None, 0.0) == 2


def changed(url: str, **parts: str) -> str:
    """The URL with another user, password, host or database name."""
    split = urlsplit(url)
    login = f"{parts.get('user', split.username)}:{parts.get('password', split.password)}"
    return f"postgresql://{login}@{parts.get('host', f'127.0.0.1:{split.port}')}/{parts.get('name', split.path[1:])}"


REFUSED = {
    "database name": ({"name": "nope"}, 'database "nope" does not exist'),
    "user": ({"user": "nobody"}, 'password authentication failed for user "nobody"'),
    "password": ({"password": "wrong"}, "password authentication failed"),
    "host": ({"host": "127.0.0.1:1"}, "Connection refused"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("kind", [SyncCheckpointer, Checkpointer])
def test_open_error_contains_the_reason_of_the_server(server: Cluster, what: str, kind: Any) -> None:
    """The reason comes from the server; a pool that waits for a connection does not know it."""
    parts, reason = REFUSED[what]
    with pytest.raises(ConnectionFailed) as raised:
        kind.open(changed(server.url, **parts))

    assert reason in str(raised.value)
    assert raised.value.may_have_happened is False


@pytest.mark.parametrize("pool", [True, False], ids=["pool", "no pool"])
@pytest.mark.parametrize("what", REFUSED)
def test_alias_error_contains_the_reason_of_the_server(
    server: Cluster, django_db_blocker: DjangoDbBlocker, what: str, pool: bool
) -> None:
    parts, reason = REFUSED[what]
    database = database_from_url(changed(server.url, **parts))
    if not pool:
        del database["OPTIONS"]["pool"]
    connections.databases["elsewhere"] = connections.configure_settings({"default": {}, "one": database})["one"]
    try:
        with django_db_blocker.unblock(), pytest.raises(ConnectionFailed, match=re.escape(reason)):
            SyncCheckpointer(using="elsewhere").start_session("s")
    finally:
        close_all(connections["elsewhere"])
        del connections["elsewhere"], connections.databases["elsewhere"]


def test_pool_timeout_error_contains_the_reason(server: Cluster, open_at: OpenAt) -> None:
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("CREATE DATABASE brief")
        checkpointer = open_at(changed(server.url, name="brief"))
        checkpointer.start_session("s")
        admin.execute("DROP DATABASE brief WITH (FORCE)")
    close_all(connections[checkpointer.store.using])

    with pytest.raises(ConnectionFailed, match='database "brief" does not exist'):
        checkpointer.save_checkpoint("s", [], None, 0.0)
