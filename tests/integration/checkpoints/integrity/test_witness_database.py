"""A witness in a second database: what it refuses, and that it only ever moves forward."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connection, connections
from pytest_django.plugin import DjangoDbBlocker

from checkpoints import SyncCheckpointer
from checkpoints.database_url import get_or_register_connection_alias
from checkpoints.exceptions import (
    SealKeyInvalid,
    VersionConflict,
    WitnessAhead,
    WitnessBehind,
    WitnessDamaged,
    WitnessMissing,
    WitnessTruncated,
    WitnessUnreachable,
)
from checkpoints.models import Checkpoint, Session
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_records import WitnessedHead
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.integrity.conftest import KEY
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_witness import forget_witness, remember_state, set_witness
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.integration.failures.conftest import close_all
from tests.support.processes import database_url, send_to_parent, wait_for_parent


@pytest.fixture
def alias(fresh_url: str, settings: Any, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """Connection alias of a second database with an empty witness."""
    settings.HARNESS_WITNESS = fresh_url
    known = {*connections.databases}
    with django_db_blocker.unblock():
        assert set_witness("create", "--reason", "first use").startswith("0 of 0 ")
        yield get_or_register_connection_alias(fresh_url)
        for opened in {*connections.databases} - known:
            close_all(connections[opened])
            del connections[opened], connections.databases[opened]
    forget_witness()


@pytest.fixture
def cp(open_checkpointer: Open, alias: str) -> SyncCheckpointer:
    checkpointer = start_session(open_checkpointer())
    checkpointer.save_checkpoint("s", conversation("ab"), {}, 0)
    checkpointer.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    checkpointer.record_tool_call_result("s", "call_1", "paid", True)
    return checkpointer


def run(alias: str, sql: str, *values: Any) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql, values)


@pytest.mark.parametrize("sync", ["batched", "each"])
def test_an_old_copy_is_refused_until_it_is_adopted(cp: SyncCheckpointer, settings: Any, sync: str) -> None:
    settings.HARNESS_WITNESS_SYNC = sync
    cp.release_session("s")
    put_back = remember_state()
    cp.resume("s")
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    assert cp.resume("s").version == 2
    cp.release_session("s")
    put_back()

    for _ in range(2):  # the process that has written it, and a new one
        with pytest.raises(WitnessAhead) as caught:
            cp.resume("s")
        assert caught.value.known > caught.value.stored
        forget_witness()
    assert set_witness("adopt", "--all", "--reason", "Restored the backup of Monday.").startswith("1 of 1 ")
    assert cp.resume("s").version == 1
    cp.save_checkpoint("s", conversation("abd"), {}, 0)
    cp.release_session("s")
    forget_witness()
    assert cp.resume("s").version == 2


def test_rows_that_were_taken_from_the_witness_are_noticed(cp: SyncCheckpointer, alias: str, settings: Any) -> None:
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    run(alias, "DELETE FROM harness_witness WHERE id > (SELECT MAX(id) - 3 FROM harness_witness)")
    with pytest.raises(WitnessTruncated, match=r"harness_witness of .* had \d+ rows and has \d+"):
        cp.resume("s")
    forget_witness()
    with pytest.raises(WitnessBehind):
        cp.resume("s")
    run(alias, "DROP TABLE harness_witness")
    with pytest.raises(WitnessMissing):
        cp.resume("s")
    with pytest.raises(WitnessMissing):
        cp.append_checkpoint("s", conversation("d"), expected_version=2)
    assert plain(Checkpoint).count() == 2
    forget_witness()
    assert set_witness("create", "--reason", "The witness was lost.").startswith("1 of 1 ")
    assert cp.resume("s").version == 2


def test_a_write_that_was_not_confirmed_is_known(cp: SyncCheckpointer, alias: str) -> None:
    """The process ended between its commit and the confirmation."""
    cp.release_session("s")
    run(alias, "DELETE FROM harness_witness WHERE id = (SELECT MAX(id) FROM harness_witness WHERE kind = 'c')")
    forget_witness()
    assert cp.resume("s").version == 1


@pytest.mark.parametrize(
    "forge",
    [
        "UPDATE harness_witness SET number = number + 5 WHERE id = (SELECT MAX(id) FROM harness_witness)",
        "UPDATE harness_witness SET kind = 'e' WHERE id = (SELECT MAX(id) FROM harness_witness)",
        "UPDATE harness_witness SET line = 'nothing' WHERE id = (SELECT MAX(id) FROM harness_witness)",
        "INSERT INTO harness_witness (session, kind, number, line) "
        "SELECT session, 'a', 1, line FROM harness_witness WHERE number = 1",
    ],
    ids=["number", "kind", "line", "adoption"],
)
def test_a_row_that_was_forged_is_refused(cp: SyncCheckpointer, alias: str, forge: str) -> None:
    cp.release_session("s")
    run(alias, forge)
    forget_witness()
    with pytest.raises(WitnessDamaged, match="in row"):
        cp.resume("s")


def test_nothing_is_written_while_the_database_does_not_answer(
    cp: SyncCheckpointer, tmp_path: Path, settings: Any
) -> None:
    cp.release_session("s")
    settings.HARNESS_WITNESS = f"sqlite:///{tmp_path}/unmounted/witness.db"
    with pytest.raises(WitnessUnreachable, match="does not answer"):
        cp.resume("s")
    with pytest.raises(WitnessUnreachable):
        cp.append_checkpoint("s", conversation("c"), expected_version=1)
    assert plain(Checkpoint).count() == 1


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a file has no server")
def test_connection_that_was_lost_is_opened_again(cp: SyncCheckpointer, fresh_url: str) -> None:
    """As after a restart of the server of the witness, of which the sessions know nothing."""
    with psycopg.connect(fresh_url, autocommit=True) as server:
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert cp.save_checkpoint("s", conversation("abc"), {}, 0) == 2
    cp.release_session("s")
    assert cp.resume("s").version == 2


def test_the_database_of_the_sessions_is_no_witness(open_checkpointer: Open, settings: Any) -> None:
    settings.HARNESS_WITNESS = "default"
    with pytest.raises(SealKeyInvalid, match="use another one"):
        start_session(open_checkpointer())
    with pytest.raises(SealKeyInvalid):
        set_witness("create", "--reason", "first use")


def test_a_witness_is_made_once(alias: str) -> None:
    with pytest.raises(CommandError, match="cannot be made"):
        set_witness("create", "--reason", "again")


def append_together(url: str, witness: str, letter: str) -> int:
    """One of several processes that write to one session."""
    os.environ.update(HARNESS_SEAL_KEY=KEY, HARNESS_WITNESS=witness)
    written = 0
    with SyncCheckpointer.open(url) as cp:
        send_to_parent("ready")
        wait_for_parent()
        for _ in range(6):
            latest = cp.load_latest("s")
            assert latest is not None
            try:
                cp.append_checkpoint("s", conversation(letter), expected_version=latest["version"])
                written += 1
            except VersionConflict:
                pass
    return written


def test_the_witness_only_moves_forward_under_several_processes(
    cp: SyncCheckpointer, start_child: StartChild, fresh_url: str
) -> None:
    cp.release_session("s")
    before = Session.objects.get()
    children = [start_child(append_together, url=database_url(), witness=fresh_url, letter=letter) for letter in "xyz"]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    written = sum(child.result() for child in children)
    after = Session.objects.get()
    assert written >= 6
    assert (after.latest_version, after.head_number) == (1 + written, before.head_number + written)

    witness = get_witness()
    assert witness is not None
    known = witness.find_session(f"{after.key_space}:{after.pk}")
    assert known is not None
    assert (known.number, known.seal) == (after.head_number, bytes(after.row_seal or b""))
    witness.record_written_head(
        WitnessedHead(f"{after.key_space}:{after.pk}", before.head_number, bytes(before.row_seal or b""))
    )
    assert witness.find_session(f"{after.key_space}:{after.pk}") == known  # a late confirmation does not put it back
    assert cp.resume("s").version == 1 + written
