"""With a witness, no session is started anew under the name of one that somebody has deleted, renamed or moved."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    IntegrityError,
    ReviewRequired,
    WitnessedSessionMissing,
)
from checkpoints.importers import ImportReport, import_transcripts
from checkpoints.importers.imported_calls import ImportedCallLog
from checkpoints.models import AuditEvent, Session, Workspace
from checkpoints.seals.witness_file import FileWitness
from checkpoints.seals.witness_records import ADOPTED, WitnessedHead
from checkpoints.sessions import fork
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_missing_sessions import delete_behind_the_library
from tests.integration.checkpoints.integrity.test_missing_sessions import witness as witness_of_each_kind
from tests.integration.checkpoints.integrity.test_witness import forget_witness, set_witness
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.processes import append_line, database_url, die

each_witness = witness_of_each_kind


def pay_once(cp: SyncCheckpointer, paid: list[str], name: str = "s") -> None:
    """Do what an agent does that opens its session by its name: start it, and pay for the order, if it has not."""
    cp.start_session(name)
    registry = ToolRegistry(checkpointer=cp, session_id=name)

    @registry.tool
    def pay(order: int) -> str:
        paid.append(name)
        return "paid"

    registry.dispatch("pay", {"order": 17}, "call_1")
    cp.release_session(name)


def rename(name: str, new_name: str) -> None:
    plain(Session).filter(session_id=name).update(session_id=new_name)


def move_to_another_workspace(name: str) -> None:
    other = Workspace.objects.create(slug="other", name="Other")
    plain(Session).filter(session_id=name).update(workspace=other)


def put_another_workspace_in_place(name: str) -> None:
    Workspace.objects.update(slug="former")
    Workspace.objects.create(slug="default", name="Default")


ATTACKS: list[Callable[[str], object]] = [
    delete_behind_the_library,
    lambda name: rename(name, "another name"),
    move_to_another_workspace,
    put_another_workspace_in_place,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_session_that_was_removed_is_not_started_anew(open_checkpointer: Open, each_witness: None, attack: Any) -> None:
    paid = list[str]()
    pay_once(open_checkpointer(), paid)
    known = plain(Session).get()
    attack("s")
    count = plain(Session).count()

    for _ in range(2):  # the process that has created it, and a new one
        with pytest.raises(WitnessedSessionMissing) as caught:
            pay_once(open_checkpointer(), paid)
        assert (caught.value.session_id, caught.value.row) == ("s", str(known.pk))
        assert caught.value.known == known.head_number
        assert "the witness of another database" in caught.value.hint
        forget_witness()
    assert paid == ["s"]
    assert plain(Session).count() == count
    pay_once(open_checkpointer(), paid, "t")


def test_names_that_were_exchanged_are_refused(open_checkpointer: Open, witness: Path) -> None:
    paid = list[str]()
    for name in ("s", "t"):
        pay_once(open_checkpointer(), paid, name)
    for name, new_name in (("s", "x"), ("t", "s"), ("x", "t")):
        rename(name, new_name)
    for name in ("s", "t"):
        with pytest.raises(IntegrityError):
            pay_once(open_checkpointer(), paid, name)
    assert paid == ["s", "t"]


def test_name_of_a_deleted_session_is_free(open_checkpointer: Open, each_witness: None) -> None:
    paid, cp = list[str](), open_checkpointer()
    for _ in range(3):
        pay_once(cp, paid)
        cp.delete_session("s")
        forget_witness()
    pay_once(cp, paid)
    assert paid == ["s"] * 4
    delete_behind_the_library("s")
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid)


def test_name_is_free_if_the_session_was_not_created(
    open_checkpointer: Open, each_witness: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid, cp = list[str](), open_checkpointer()
    with monkeypatch.context() as patch:  # after its versions were written
        patch.setattr(ImportedCallLog, "insert_calls_and_late_results", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            create_by_import_of_values(cp)
    assert not plain(Session).exists()
    pay_once(cp, paid)
    assert paid == ["s"]


def create_by_start(cp: SyncCheckpointer, folder: Path) -> None:
    cp.start_session("s")
    cp.release_session("s")


def create_by_fork(cp: SyncCheckpointer, folder: Path) -> None:
    start_session(cp, "origin").save_checkpoint("origin", conversation("ab"), {}, 0)
    cp.fork_session("origin", "s")
    cp.release_session("origin")


def create_by_fork_of_framework(cp: SyncCheckpointer, folder: Path) -> None:
    start_session(cp, "origin")
    fork.create_fork_with_calls_only_if_missing(cp.store, "origin", "s")
    cp.release_session("origin")


def create_by_import(cp: SyncCheckpointer, folder: Path) -> None:
    start_session(cp).save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    cp.export_session("s", folder / "s.harness")
    cp.delete_session("s")
    cp.import_session(folder / "s.harness")


def create_by_import_of_file(cp: SyncCheckpointer, folder: Path) -> ImportReport:
    path = folder / "transcripts" / "s.json"
    path.parent.mkdir()
    path.write_text(json.dumps([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}]))
    return import_transcripts(cp, path.parent)


def create_by_import_of_values(cp: SyncCheckpointer, *_: object) -> None:
    import_transcripts(cp, [{"role": "user", "content": "Hello."}], format="openai-chat", session_id="s")


def create_by_sealing(cp: SyncCheckpointer, folder: Path) -> None:
    create_by_start(cp, folder)
    delete_behind_the_library("s")
    plain(Session).bulk_create([Session(workspace=Workspace.objects.get(), session_id="s")])
    set_witness("adopt", "--session", "s", "--missing", "--reason", "It is from before sealing.")
    call_command("seal_sessions", verbosity=0)


@pytest.mark.parametrize(
    "create",
    [
        create_by_start,
        create_by_fork,
        create_by_fork_of_framework,
        create_by_import,
        create_by_import_of_file,
        create_by_import_of_values,
        create_by_sealing,
    ],
)
def test_name_is_noted_however_a_session_is_created(
    open_checkpointer: Open, witness: Path, tmp_path: Path, create: Callable[[SyncCheckpointer, Path], None]
) -> None:
    create(open_checkpointer(), tmp_path)
    rename("s", "hidden")
    forget_witness()
    with pytest.raises(WitnessedSessionMissing):
        open_checkpointer().start_session("s")


def test_no_way_of_creation_takes_the_name(open_checkpointer: Open, witness: Path, tmp_path: Path) -> None:
    cp = open_checkpointer()
    start_session(cp, "origin").save_checkpoint("origin", conversation("ab"), {}, 0)
    create_by_start(cp, tmp_path)
    cp.export_session("s", tmp_path / "s.harness")
    rename("s", "hidden")
    ways: list[Callable[[], object]] = [
        lambda: cp.start_session("s"),
        lambda: cp.fork_session("origin", "s"),
        lambda: fork.create_fork_with_calls_only_if_missing(cp.store, "origin", "s"),
        lambda: cp.import_session(tmp_path / "s.harness"),
        lambda: create_by_import_of_values(cp),
    ]
    for create in ways:
        with pytest.raises(WitnessedSessionMissing):
            create()
    (refused,) = create_by_import_of_file(cp, tmp_path).refused
    assert "the witness knows a session of this name" in refused.why
    assert set(plain(Session).values_list("session_id", flat=True)) == {"hidden", "origin"}


def test_row_without_a_seal_in_the_place_of_another_session_is_not_sealed(
    open_checkpointer: Open, witness: Path
) -> None:
    pay_once(open_checkpointer(), [])
    rename("s", "hidden")
    plain(Session).bulk_create([Session(workspace=Workspace.objects.get(), session_id="s")])
    err = StringIO()
    with pytest.raises(CommandError, match="sessions were not sealed"):
        call_command("seal_sessions", stdout=StringIO(), stderr=err)
    assert "the witness knows a session of this name" in err.getvalue()
    assert plain(Session).get(session_id="s").row_seal is None


def test_restored_backup_has_names_that_are_free_after_they_are_adopted(
    open_checkpointer: Open, each_witness: None
) -> None:
    cp, paid = open_checkpointer(), list[str]()
    for name in ("s", "t"):
        pay_once(cp, paid, name)
        delete_behind_the_library(name)
        with pytest.raises(WitnessedSessionMissing):
            pay_once(cp, paid, name)
    said = set_witness("adopt", "--session", "s", "--missing", "--reason", "Restored the backup of Monday.")
    assert "1 sessions that the database lacks were noted as gone." in said
    assert AuditEvent.objects.filter(kind="witness_adopted").count() == 1
    pay_once(cp, paid, "s")
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid, "t")
    set_witness("adopt", "--all", "--missing", "--reason", "Restored the backup of Monday.")
    pay_once(cp, paid, "t")
    said = set_witness("adopt", "--session", "s", "--missing", "--reason", "It is there.")
    assert "no session of this name whose row is missing" in said
    rename("s", "hidden")
    set_witness("adopt", "--session", "s", "--missing", "--reason", "Its row is there.")
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid, "s")


def test_witness_without_names_is_completed_by_adopt(open_checkpointer: Open, witness: Path) -> None:
    cp, paid = open_checkpointer(), list[str]()
    for name in ("s", "t"):
        pay_once(cp, paid, name)
    witness.write_bytes(b"".join(line for line in witness.read_bytes().splitlines(True) if b":" in line.split(b" ")[1]))
    forget_witness()
    pay_once(cp, paid, "s")  # as before, and its call is replayed
    assert set_witness("adopt", "--session", "s", "--reason", "Note its name.").startswith("1 of 1 ")
    assert set_witness("adopt", "--session", "s", "--reason", "Again.").startswith("0 of 1 ")
    assert not AuditEvent.objects.filter(kind="witness_adopted").exists()
    for name in ("s", "t"):
        delete_behind_the_library(name)
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid, "s")
    pay_once(cp, paid, "t")  # the witness does not know its name
    assert paid == ["s", "t", "t"]


def test_name_is_known_after_the_key_was_rotated(open_checkpointer: Open, witness: Path, settings: Any) -> None:
    cp, paid = open_checkpointer(), list[str]()
    for name in ("s", "t"):
        pay_once(cp, paid, name)
    settings.HARNESS_SEAL_KEY = f"{OTHER_KEY} {KEY}"
    forget_witness()
    delete_behind_the_library("s")
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid, "s")
    cp.delete_session("t")
    pay_once(cp, paid, "t")
    delete_behind_the_library("t")
    with pytest.raises(WitnessedSessionMissing):
        pay_once(cp, paid, "t")


def test_witness_has_no_name_that_people_gave(open_checkpointer: Open, witness: Path) -> None:
    name = "the-secret-project"
    pay_once(open_checkpointer(), [], name)
    assert b"secret" not in witness.read_bytes()
    assert name.encode().hex().encode() not in witness.read_bytes()


def test_names_are_not_looked_for_without_a_witness(open_checkpointer: Open, witness: Path, settings: Any) -> None:
    settings.HARNESS_WITNESS = ""
    paid = list[str]()
    for _ in range(2):
        pay_once(open_checkpointer(), paid)
        delete_behind_the_library("s")
    assert paid == ["s", "s"]


def pay_in_file(cp: SyncCheckpointer, session_id: str, effects: str) -> None:
    """Do what `pay_once` does, with an effect that outlives the process. A lost run is taken over."""
    cp.start_session(session_id, takeover=True)
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    @registry.tool
    def pay(order: int) -> str:
        append_line(effects, session_id)
        return "paid"

    registry.dispatch("pay", {"order": 17}, "call_1")
    cp.release_session(session_id)


def pay_or_delete_and_die(url: str, witness: str, session_id: str, effects: str, record: int, after: bool) -> None:
    """Die before or after a record of the witness while an agent pays; with record 0, before a deletion is noted."""
    os.environ |= {"HARNESS_SEAL_KEY": KEY, "HARNESS_WITNESS": witness}
    append_record, records = FileWitness._append_record, list[str]()

    def append(self: FileWitness, kind: str, head: WitnessedHead) -> None:
        records.append(kind)
        is_reached = len(records) == record or (record == 0 and kind == ADOPTED)
        if is_reached and not after:
            die()
        append_record(self, kind, head)
        if is_reached:
            die()

    FileWitness._append_record = append  # type: ignore[method-assign]
    with SyncCheckpointer(url) as cp:
        if record == 0:
            cp.delete_session(session_id)
        else:
            pay_in_file(cp, session_id, effects)


@pytest.fixture
def kill_process(start_child: StartChild, witness: Path, effects: Path) -> Callable[[str, int, bool], None]:
    """Let a process do what `pay_or_delete_and_die` does."""

    def kill(session_id: str, record: int, after: bool) -> None:
        child = start_child(
            pay_or_delete_and_die,
            url=database_url(),
            witness=str(witness),
            session_id=session_id,
            effects=str(effects),
            record=record,
            after=after,
        )
        assert child.died_by() == signal.SIGKILL
        forget_witness()

    return kill


@pytest.mark.parametrize("is_removed", [False, True])
def test_agent_is_killed_beside_each_record(
    open_checkpointer: Open, kill_process: Callable[[str, int, bool], None], effects: Path, is_removed: bool
) -> None:
    """Its records are the name, and those before and after the commits of the session, the call and its result."""
    refused = list[type[Exception]]()
    for record, after in ((1, False), (1, True), (2, True), (3, False), (4, True), (5, False), (6, False), (7, False)):
        name = f"{record} {after}"
        kill_process(name, record, after)
        is_paid = name in effects.read_text().splitlines()
        if is_removed and plain(Session).filter(session_id=name).exists():
            delete_behind_the_library(name)
        try:
            pay_in_file(open_checkpointer(), name, str(effects))
        except (WitnessedSessionMissing, ReviewRequired) as error:
            refused.append(type(error))
        else:
            assert not (is_removed and is_paid)
    paid = effects.read_text().splitlines()
    assert len(paid) == len(set(paid))
    assert set(refused) == {WitnessedSessionMissing if is_removed else ReviewRequired}


def test_process_is_killed_before_it_notes_a_deletion(
    open_checkpointer: Open, kill_process: Callable[[str, int, bool], None], effects: Path
) -> None:
    pay_in_file(open_checkpointer(), "s", str(effects))
    kill_process("s", 0, False)
    assert not plain(Session).exists()
    for _ in range(2):
        with pytest.raises(WitnessedSessionMissing):
            pay_in_file(open_checkpointer(), "s", str(effects))
    assert effects.read_text() == "s\n"
    set_witness("adopt", "--session", "s", "--missing", "--reason", "The process that deleted it was killed.")
    pay_in_file(open_checkpointer(), "s", str(effects))
