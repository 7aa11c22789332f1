from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from checkpoints import SyncCheckpointer
from checkpoints.store.checkpointer_state import list_live_client_states
from checkpoints.store.database_client_state import Store

OpenAt = Callable[[str], SyncCheckpointer]


def close_all(connection: Any) -> None:
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()


def give_up(alias: str) -> None:
    """Stop renewing the leases of a database that will be removed."""
    for store in list_live_client_states():
        if isinstance(store, Store) and store.using == alias:
            for held in store.list_owned_sessions():
                store.remove_owned_session(held)


@pytest.fixture
def open_at(django_db_blocker: DjangoDbBlocker) -> Iterator[OpenAt]:
    """Open databases beside the one of pytest-django; their aliases are removed afterwards."""
    opened: list[SyncCheckpointer] = []

    def open_(url: str) -> SyncCheckpointer:
        opened.append(SyncCheckpointer.open(url, migrate=True))
        return opened[-1]

    with django_db_blocker.unblock():
        yield open_
        for checkpointer in opened:
            alias = checkpointer.store.using
            give_up(alias)
            close_all(connections[alias])
            del connections[alias]
            connections.databases.pop(alias, None)


@pytest.fixture
def file(open_at: OpenAt, tmp_path: Path) -> SyncCheckpointer:
    """Checkpointer on a separate SQLite file, with one version of one session."""
    checkpointer = open_at(f"sqlite:///{tmp_path / 'agent.db'}")
    checkpointer.start_session("s-1")
    checkpointer.save_checkpoint("s-1", [{"id": "m0"}], None, 0.0)
    return checkpointer
