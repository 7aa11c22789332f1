"""Databases by path or URL, from plain scripts and inside a Django project."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from checkpoints import Checkpointer, SyncCheckpointer, exceptions
from checkpoints.exceptions import InvalidDatabaseUrl, StorageError
from tests.conftest import StartChild
from tests.integration.checkpoints import child_scripts
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.processes import ROOT, database_url

SAVED = {"version": 1, "transcript": [{"a": 1}], "plan": {}, "budget_spent_usd": 0.5}


@pytest.mark.parametrize(
    ("place", "how", "file"),
    [
        ("sqlite:///agent.db", "open", "agent.db"),
        ("sqlite:///{folder}/deep/er/agent.db", "open", "deep/er/agent.db"),
        (".harness/sessions.db", "call", ".harness/sessions.db"),
        ("{folder}/my agent's 100% #1?.db", "call", "my agent's 100% #1?.db"),
    ],
    ids=["relative URL", "absolute URL", "relative path", "odd path"],
)
@pytest.mark.parametrize(
    "save", [child_scripts.save_once, pytest.param(child_scripts.save_once_async, marks=only_exhaustive)]
)
def test_plain_script_opens_a_file(
    start_child: StartChild, tmp_path: Path, save: Callable[..., Any], place: str, how: str, file: str
) -> None:
    child = start_child(save, fresh=True, place=place.format(folder=tmp_path), how=how, folder=str(tmp_path))

    assert child.result() == SAVED
    assert (tmp_path / file).read_bytes()[:15] == b"SQLite format 3"


def test_new_file_is_named_because_a_wrong_path_looks_like_success(tmp_path: Path) -> None:
    script = f"from checkpoints import SyncCheckpointer; SyncCheckpointer({str(tmp_path / 'a.db')!r}).close()"
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    run = partial(subprocess.run, [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True)
    said = [run(capture_output=True, text=True).stderr for _ in range(2)]
    assert said == [f"Created the SQLite database {tmp_path / 'a.db'}.\n", ""]


def test_plain_script_opens_the_test_database(start_child: StartChild) -> None:
    assert start_child(child_scripts.save_once, fresh=True, place=database_url(), how="open").result() == SAVED
    assert (SyncCheckpointer().load_latest("s") or {})["plan"] == {}


@pytest.mark.parametrize("migrate", [None, False, True])
def test_tables_are_created_on_request(start_child: StartChild, fresh_url: str, migrate: bool | None) -> None:
    wanted = connection.vendor == "sqlite" if migrate is None else migrate

    said = start_child(child_scripts.open_fresh_database, url=fresh_url, migrate=migrate).result()
    assert said == ("works" if wanted else "MigrationsMissing")


def test_migration_builds_each_model_once_and_can_be_reversed(start_child: StartChild, fresh_url: str) -> None:
    """Building related models anew for each table took most of it."""
    found = start_child(child_scripts.create_and_remove_tables, fresh=True, url=fresh_url).result()

    created, removed, again = found["tables"]
    assert (found["times built"], removed) == (1, 0)
    assert created == again > 20


def test_concurrent_processes_create_one_database(start_child: StartChild, fresh_url: str) -> None:
    children = [
        start_child(child_scripts.open_and_save_when_told, url=fresh_url, session_id=f"s{number}")
        for number in range(8)
    ]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()

    assert [child.result() for child in children] == [1] * 8


@pytest.mark.unsealed("one witness knows one database")
def test_script_uses_two_databases(start_child: StartChild, tmp_path: Path) -> None:
    child = start_child(
        child_scripts.use_two_databases, first=f"{tmp_path}/one.db", second=f"sqlite:///{tmp_path}/two.db"
    )

    assert child.result() == [[{"text": "one"}], [{"text": "two"}], [{"text": "one"}]]


def test_forked_child_owns_no_session(start_child: StartChild, tmp_path: Path) -> None:
    assert start_child(child_scripts.write_after_fork, place=f"{tmp_path}/a.db").result() == "5"


def test_processes_forked_after_the_database_was_used_have_connections_of_their_own(
    start_child: StartChild, fresh_url: str
) -> None:
    child = start_child(child_scripts.write_in_forked_processes, fresh=True, url=fresh_url)

    assert child.result() == [0, 0, 0, 0]


def test_heartbeat_works_in_child_that_was_forked_while_its_locks_were_held(
    start_child: StartChild, tmp_path: Path
) -> None:
    assert start_child(child_scripts.beat_in_child_forked_while_locked, place=f"{tmp_path}/a.db").result() == 0


@pytest.mark.parametrize("kind", [SyncCheckpointer, Checkpointer])
def test_checkpointer_for_another_process_says_that_each_opens_its_own(
    kind: type[SyncCheckpointer | Checkpointer],
) -> None:
    with pytest.raises(TypeError, match="Open one in each process"):
        pickle.dumps(kind())


def test_sqlite_connection_is_durable(tmp_path: Path) -> None:
    code = (
        "import json; from checkpoints import SyncCheckpointer; from django.db import connections\n"
        f"using = SyncCheckpointer({str(tmp_path / 'a.db')!r}).store.using\n"
        "cursor = connections[using].cursor()\n"
        "print(json.dumps([cursor.execute(f'PRAGMA {name}').fetchone()[0]\n"
        "    for name in ('journal_mode', 'synchronous', 'foreign_keys')]))"
    )
    assert in_a_process(code) == ["wal", 2, 1]


@pytest.mark.parametrize(("existing", "expected"), [(None, 8192), (4096, 4096)], ids=["new", "existing"])
def test_only_a_new_sqlite_file_has_large_pages(
    start_child: StartChild, tmp_path: Path, existing: int | None, expected: int
) -> None:
    path = tmp_path / "agent.db"
    if existing is not None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA page_size={existing}")
            connection.execute("CREATE TABLE other (id INTEGER)")

    child = start_child(child_scripts.save_once, fresh=True, place=str(path), how="open", folder=str(tmp_path))

    assert child.result() == SAVED
    assert read_page_size(path) == expected


def read_page_size(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA page_size").fetchone()[0])


def test_django_project_shares_its_connection(tmp_path: Path) -> None:
    code = (
        "import json; from checkpoints import SyncCheckpointer\n"
        f"folder = {str(tmp_path)!r}\n"
        "places = [f'sqlite:///{folder}/site.db', f'{folder}/site.db', f'{folder}/other.db']\n"
        "print(json.dumps([SyncCheckpointer(place).store.using for place in places]))"
    )
    settings = {"DJANGO_SETTINGS_MODULE": "harness_site.settings", "HARNESS_DATABASE_URL": f"{tmp_path}/site.db"}
    first, second, third = in_a_process(code, **settings)

    assert (first, second, third[:8]) == ("default", "default", "harness_")


def in_a_process(code: str, **environment: str) -> Any:
    clean = {
        key: value for key, value in os.environ.items() if key not in {"DJANGO_SETTINGS_MODULE", "HARNESS_DATABASE_URL"}
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


# what cannot be opened


@pytest.mark.parametrize("url", ["", "mysql://h/n", "sqlite://agent.db", "ftp://harness.example", "postgresql://h"])
def test_invalid_url_is_refused(url: str) -> None:
    for kind in (SyncCheckpointer.open, SyncCheckpointer):
        with pytest.raises(InvalidDatabaseUrl):
            kind(url)


def test_unwritable_path_is_refused(start_child: StartChild, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for place in (f"{tmp_path}/file/a.db", f"{tmp_path}/file/deeper/a.db", str(tmp_path), "/"):
        assert start_child(child_scripts.open_fresh_database, url=place, migrate=None).result() == "InvalidDatabaseUrl"


def test_file_that_is_not_a_database_is_refused(start_child: StartChild, tmp_path: Path) -> None:
    (tmp_path / "letter.db").write_text("Dear reader, this is a letter and not a database." * 50)

    said = start_child(child_scripts.open_fresh_database, url=f"{tmp_path}/letter.db", migrate=None).result()
    assert issubclass(getattr(exceptions, said), StorageError)
    assert (tmp_path / "letter.db").read_text().startswith("Dear reader")
