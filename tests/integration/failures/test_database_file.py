"""Failures of a SQLite file raise typed errors, and work continues when the cause is removed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from django.db import connections

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import StorageBusy, StorageError, StorageFull, StorageReadOnly

LONG = "x" * 200_000


def pragma(checkpointer: SyncCheckpointer, setting: str) -> None:
    with connections[checkpointer.store.using].cursor() as cursor:
        cursor.execute(f"PRAGMA {setting}")


def versions(checkpointer: SyncCheckpointer) -> list[int]:
    return [version["version"] for version in checkpointer.list_checkpoints("s-1")]


def test_save_to_a_full_disk_fails_and_works_again_later(file: SyncCheckpointer) -> None:
    pragma(file, "max_page_count = 1")  # SQLite takes the present size as the least
    with pytest.raises(StorageFull) as raised:
        file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1", "text": LONG}], None, 0.0)
    assert raised.value.may_have_happened is False
    assert versions(file) == [1]
    pragma(file, "max_page_count = 1000000")
    assert file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1", "text": LONG}], None, 0.0) == 2


def test_save_to_a_read_only_file_fails_and_works_again_later(file: SyncCheckpointer) -> None:
    pragma(file, "query_only = ON")
    with pytest.raises(StorageReadOnly) as raised:
        file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1"}], None, 0.0)
    assert raised.value.may_have_happened is False
    pragma(file, "query_only = OFF")
    assert file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1"}], None, 0.0) == 2


def test_save_to_a_locked_file_fails_with_a_typed_error(file: SyncCheckpointer) -> None:
    pragma(file, "busy_timeout = 50")
    other = sqlite3.connect(connections[file.store.using].settings_dict["NAME"], isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy) as raised:
            file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1"}], None, 0.0)
        other.execute("ROLLBACK")
    finally:
        other.close()
    assert raised.value.may_have_happened is False
    assert file.save_checkpoint("s-1", [{"id": "m0"}, {"id": "m1"}], None, 0.0) == 2


def test_file_in_a_folder_that_is_gone_is_named(file: SyncCheckpointer) -> None:
    connection = connections[file.store.using]
    connection.close()
    path = connection.settings_dict["NAME"] = str(Path(connection.settings_dict["NAME"]).parent / "gone" / "agent.db")
    with pytest.raises(StorageError, match=f"The folder of {path} has to exist"):
        file.load_latest("s-1")


def test_file_that_is_not_a_database_is_a_storage_error(file: SyncCheckpointer) -> None:
    path = connections[file.store.using].settings_dict["NAME"]
    connections[file.store.using].close()
    with open(path, "r+b") as damaged:  # noqa: PTH123 - the header alone is overwritten
        damaged.write(b"not a database at all")
    with pytest.raises(StorageError):
        file.load_latest("s-1")
