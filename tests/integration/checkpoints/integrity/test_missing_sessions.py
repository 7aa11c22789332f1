"""With a witness of any kind, `verify_integrity --all` names sessions that were deleted behind this library's back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.db.models import Model
from pytest_django.plugin import DjangoDbBlocker

from checkpoints import SyncCheckpointer
from checkpoints.models import AuditEvent, IntegrityCheck, Run, Session
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_folder import FolderWitness
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import SEALED_TABLES, plain
from tests.integration.checkpoints.integrity.test_witness import forget_witness, set_witness
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.integration.failures.conftest import close_all


@pytest.fixture(params=["file", "folder", "database"])
def witness(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Any, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """New witness of each kind."""
    known = {*connections.databases}
    url = request.getfixturevalue("fresh_url")
    settings.HARNESS_WITNESS = {"file": f"{tmp_path}/file", "folder": f"{tmp_path}/folder/", "database": url}[
        request.param
    ]
    with django_db_blocker.unblock():
        set_witness("create", "--reason", "first use")
        yield
        for opened in {*connections.databases} - known:
            close_all(connections[opened])
            del connections[opened], connections.databases[opened]
    forget_witness()


@pytest.fixture
def cp(open_checkpointer: Open, witness: None) -> SyncCheckpointer:
    checkpointer = open_checkpointer()
    for name in ("s", "other"):
        start_session(checkpointer, name).save_checkpoint(name, conversation("ab"), {}, 0)
        checkpointer.release_session(name)
    return checkpointer


def delete_behind_the_library(session_id: str) -> int:
    """Delete a session with all its rows. Returns the key that its row had."""
    pk: int = plain(Session).get(session_id=session_id).pk
    plain(Session).filter(pk=pk).update(owner=None, head_segment=None)
    tables: list[type[Model]] = [*reversed(SEALED_TABLES), Run]
    for model in filter(lambda table: table not in {Session, AuditEvent}, tables):
        plain(model).filter(session=pk)._raw_delete("default")
    plain(Session).filter(pk=pk)._raw_delete("default")
    forget_witness()
    return pk


def verify() -> list[dict[str, str]]:
    """Return the problems that a verification of all sessions finds."""
    out = StringIO()
    with suppress(CommandError):
        call_command("verify_integrity", "--all", "--json", stdout=out, stderr=StringIO())
    problems: list[dict[str, str]] = json.loads(out.getvalue())["problems"]
    assert IntegrityCheck.objects.get().problems == len(problems)
    return problems


def test_a_session_that_was_deleted_behind_the_library_is_named(cp: SyncCheckpointer) -> None:
    assert verify() == []
    pk = delete_behind_the_library("s")

    (problem,) = verify()
    assert (problem["table"], problem["row"]) == ("checkpoints_session", str(pk))
    assert "the witness knows it" in problem["why"]
    AuditEvent.objects.all()._raw_delete("default")
    assert len(verify()) == 1


def test_a_session_that_the_library_deleted_is_not_named(cp: SyncCheckpointer) -> None:
    cp.delete_session("s", dry_run=True)
    assert verify() == []
    cp.delete_session("s")
    for _ in range(2):  # the process that has deleted it, and a new one
        assert verify() == []
        forget_witness()
    cp.delete_session("other", dry_run=True)
    delete_behind_the_library("other")
    assert len(verify()) == 1


def test_a_missing_session_is_adopted_with_a_reason(cp: SyncCheckpointer) -> None:
    pk = delete_behind_the_library("s")
    assert set_witness("adopt", "--session", "other", "--reason", "Only this one.").startswith("0 of 1 ")
    assert len(verify()) == 1

    assert "1 sessions that the database lacks were noted as gone." in set_witness(
        "adopt", "--all", "--missing", "--reason", "Restored the backup of Monday."
    )
    details = json.loads(AuditEvent.objects.get(kind="witness_adopted", session=pk).details)
    assert details["reason"] == "Restored the backup of Monday."
    assert details["known"] >= 0
    assert verify() == []
    assert "lacks" not in set_witness("adopt", "--all", "--missing", "--reason", "Again.")


def test_sessions_are_not_looked_for_without_a_witness(cp: SyncCheckpointer, settings: Any) -> None:
    delete_behind_the_library("s")
    settings.HARNESS_WITNESS = ""
    assert get_witness() is None
    assert verify() == []


def test_folders_of_others_in_the_witness_are_no_sessions(tmp_path: Path) -> None:
    FolderWitness.create_storage(tmp_path)
    (tmp_path / "lost+found").mkdir()
    assert FolderWitness(tmp_path).list_session_names() == []


def test_sessions_are_noted_as_gone_only_on_request(cp: SyncCheckpointer) -> None:
    delete_behind_the_library("s")
    assert "lacks" not in set_witness("adopt", "--all", "--reason", "Restored the backup of Monday.")
    assert len(verify()) == 1
    with pytest.raises(CommandError, match="--missing goes with adopt"):
        set_witness("create", "--missing", "--reason", "It is lost.")
