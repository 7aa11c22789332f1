"""SQLite test databases of the processes of a run: the first process migrates its own, and the others copy it.

The migrations take two seconds of processor time. After a copy, Django finds nothing to migrate in a fifth of one.
"""

import fcntl
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import connection


def migrate_once(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the test database of this process a copy of the one in a folder of all processes, which the first saves."""
    creation: Any = connection.creation
    create_test_db, create_file = creation.create_test_db, creation._create_test_db
    migrated = folder / "migrated.sqlite3"

    def create_file_as_copy(*arguments: Any, **options: Any) -> str:
        name = str(create_file(*arguments, **options))
        if migrated.exists():
            shutil.copy(migrated, name)
        return name

    def create_and_share(*arguments: Any, **options: Any) -> str:
        with (folder / "migrated.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            name = str(create_test_db(*arguments, **options))
            if not migrated.exists():
                _copy_database(name, migrated)
        return name

    patch.setattr(creation, "_create_test_db", create_file_as_copy)
    patch.setattr(creation, "create_test_db", create_and_share)


def _copy_database(source: str, target: Path) -> None:
    partial = target.with_suffix(".partial")
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(partial)) as new:
        old.backup(new)
    partial.rename(target)
