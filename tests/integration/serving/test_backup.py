"""The commands for backup and restore of docs/operations.md, as they stand."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.support.cluster import Cluster, find_binaries
from tests.support.django_commands import run_commands_without_error
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.site_process import create_tables_and_accounts

ROOT = Path(__file__).parents[3]
SAVE = """
import os
from checkpoints import SyncCheckpointer
with SyncCheckpointer(os.environ["HARNESS_DATABASE_URL"]) as checkpointer:
    checkpointer.start_session("order-17")
    checkpointer.save_checkpoint("order-17", [{"role": "user", "content": "Pay"}], None, 0.0)
"""
_PAGE = (ROOT / "docs" / "operations.md").read_text()


def documented(beginning: str) -> str:
    """Return the line of the page that begins so, without its comment."""
    line: str
    [line] = re.findall(rf"^{re.escape(beginning)} .*$", _PAGE, re.MULTILINE)
    return line.partition("  #")[0].strip()


def run(command: str, url: str, folder: Path) -> str:
    path = f"{find_binaries()}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HARNESS_DATABASE_URL": url, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@only_exhaustive
def test_postgresql_database_is_restored_on_a_server_without_the_roles(tmp_path: Path) -> None:
    with Cluster() as first, Cluster() as second:
        create_tables_and_accounts(first.url)
        run(f"{sys.executable} -c '{SAVE}'", first.url, tmp_path)
        # The login has a role that the other server does not have.
        _, verified = run_commands_without_error(first.url, "create_agent_login", "verify_audit")
        anchor = verified.rpartition("anchor ")[2].strip()
        run(documented("pg_dump"), first.url, tmp_path)

        run(documented("pg_restore"), second.url, tmp_path)
        migrated, verified, _ = run_commands_without_error(
            second.url, "migrate", f"verify_audit --anchor {anchor}", "create_agent_login"
        )
        assert "No migrations to apply" in migrated
        assert "all as they were recorded" in verified
        with psycopg.connect(second.url) as session:
            assert session.execute("SELECT session_id FROM checkpoints_session").fetchall() == [("order-17",)]


def test_sqlite_file_is_copied_while_it_is_written(tmp_path: Path) -> None:
    [statement] = re.findall(r'"([^"]*)"', documented("sqlite3"))
    file, copy = tmp_path / "harness.sqlite3", tmp_path / "harness-backup.sqlite3"
    run(f"{sys.executable} -c '{SAVE}'", str(file), tmp_path)
    writer = sqlite3.connect(file)
    writer.execute("UPDATE checkpoints_session SET title = 'newest'")
    writer.commit()  # in the log beside the file, as long as a connection is open
    sqlite3.connect(file).execute(statement.replace(copy.name, str(copy))).close()
    writer.close()
    assert sqlite3.connect(copy).execute("SELECT session_id, title FROM checkpoints_session").fetchall() == [
        ("order-17", "newest")
    ]
