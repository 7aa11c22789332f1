"""With a witness, a resume refuses an old copy of a session or database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    ResultNotRecorded,
    WitnessAhead,
    WitnessBehind,
    WitnessDamaged,
    WitnessMissing,
    WitnessTruncated,
    WitnessUnreachable,
)
from checkpoints.models import AuditEvent, Checkpoint, Message, PeerCall, Session, ToolCall
from checkpoints.seals.witness import get_witness
from checkpoints.seals.witness_file import FileWitness
from checkpoints.seals.witness_folder import FolderWitness
from checkpoints.seals.witness_records import WitnessedHead
from tests.conftest import Open
from tests.integration.checkpoints.integrity.conftest import KEY, OTHER_KEY
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.session_setups import conversation, start_session

HEAD = WitnessedHead("space:1", 1, b"seal")


@pytest.fixture
def cp(open_checkpointer: Open, witness: Path) -> SyncCheckpointer:
    checkpointer = start_session(open_checkpointer())
    checkpointer.save_checkpoint("s", conversation("ab"), {}, 0)
    checkpointer.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    checkpointer.record_tool_call_result("s", "call_1", "paid", True)
    return checkpointer


def forget_witness() -> None:
    """Clear the cached witness, so that it is read again."""
    get_witness.cache_clear()


def remember_state() -> Callable[[], None]:
    """Copy all rows of the sessions; return a function that restores them, as an attacker or a backup would."""
    models = (Session, Message, Checkpoint, ToolCall, PeerCall)
    rows = {model: list(plain(model).values()) for model in models}

    def restore_rows() -> None:
        for model in reversed(models):
            pks = [row["id"] for row in rows[model]]
            plain(model).exclude(pk__in=pks).delete()
            for row in rows[model]:
                changed = {name: value for name, value in row.items() if name not in {"fence", "owner_id"}}
                plain(model).filter(pk=row["id"]).update(**changed)

    return restore_rows


def set_witness(*arguments: str) -> str:
    out = StringIO()
    call_command("witness", *arguments, stdout=out)
    forget_witness()
    return out.getvalue()


def test_session_is_resumed_while_its_rows_are_current(cp: SyncCheckpointer, witness: Path) -> None:
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    cp.save_checkpoint("s", conversation("x"), {}, 0)  # branches, by the slow path
    cp.release_session("s")
    forget_witness()
    assert cp.resume("s").version == 3
    cp.finish_session("s", "completed", "done")
    assert witness.read_text().count("\n") > 10


def test_only_the_session_with_restored_rows_is_not_resumed(cp: SyncCheckpointer, settings: Any) -> None:
    start_session(cp, "other")
    cp.release_session("s")
    restore_rows = remember_state()
    cp.resume("s")
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    restore_rows()
    forget_witness()

    latest = cp.load_latest("s")
    assert latest
    assert latest["version"] == 1  # consistent in itself
    with pytest.raises(WitnessAhead) as caught:
        cp.resume("s")
    assert caught.value.known > caught.value.stored
    cp.release_session("other")
    assert cp.resume("other").version == 0
    settings.HARNESS_WITNESS = ""
    assert cp.resume("s").version == 1


def test_write_to_restored_rows_is_refused(cp: SyncCheckpointer) -> None:
    """It would be noted in the witness, which would know the old copy as the newest state then."""
    cp.release_session("s")
    restore_rows = remember_state()
    cp.resume("s")
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    restore_rows()
    for act in (lambda: cp.append_checkpoint("s", conversation("d"), expected_version=1), lambda: cp.resume("s")):
        with pytest.raises(WitnessAhead):
            act()
    assert plain(Checkpoint).count() == 1


def test_restored_state_is_adopted_with_a_reason(cp: SyncCheckpointer) -> None:
    cp.release_session("s")
    restore_rows = remember_state()
    cp.resume("s")
    cp.release_session("s")
    restore_rows()
    forget_witness()
    with pytest.raises(CommandError, match="reason"):
        set_witness("adopt", "--all")
    with pytest.raises(WitnessAhead):
        cp.resume("s")

    assert set_witness("adopt", "--all", "--reason", "Restored the backup of Monday.").startswith("1 of 1 ")
    event = AuditEvent.objects.get(kind="witness_adopted")
    details = json.loads(event.details)
    assert details["reason"] == "Restored the backup of Monday."
    assert details["known"] > details["stored"]
    assert cp.resume("s").version == 1
    assert set_witness("adopt", "--session", "s", "--reason", "Again.").startswith("0 of 1 ")


def test_lost_or_restored_witness_is_detected(cp: SyncCheckpointer, witness: Path, settings: Any) -> None:
    early = witness.read_bytes()
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    newest = witness.read_bytes()

    witness.write_bytes(newest[:-200])
    with pytest.raises(WitnessTruncated):
        cp.resume("s")
    with pytest.raises(WitnessTruncated):
        cp.start_session("t")
    for content, known in (
        (early, "ends at write"),
        (b"", "does not know the session"),
        (newest[: len(early) + 10], "witness"),
    ):
        witness.write_bytes(content)
        forget_witness()
        with pytest.raises(WitnessBehind, match=known):
            cp.resume("s")
    witness.unlink()
    forget_witness()
    with pytest.raises(WitnessMissing):
        cp.resume("s")
    witness.write_bytes(newest)
    forget_witness()
    settings.HARNESS_WITNESS = ""
    cp.resume("s")  # a process without the witness
    cp.release_session("s")
    settings.HARNESS_WITNESS = str(witness)
    with pytest.raises(WitnessBehind):
        cp.resume("s")
    witness.unlink()
    forget_witness()
    assert set_witness("create", "--reason", "The disk of the witness broke.").startswith("1 of 1 ")
    assert cp.resume("s").version == 2


def test_forged_line_is_refused_and_incomplete_line_is_not(cp: SyncCheckpointer, witness: Path, settings: Any) -> None:
    cp.release_session("s")
    whole = witness.read_bytes()
    *lines, last = whole.splitlines(keepends=True)
    kind, name, number, seal, mac = last.split(b" ")
    witness.write_bytes(whole + b" ".join([kind, name, b"%d" % (int(number) + 5), seal, mac]))
    forget_witness()
    with pytest.raises(WitnessDamaged) as caught:
        cp.resume("s")
    assert caught.value.position == len(whole)

    # The process ended after its commit and before it could confirm it, and the next line was torn.
    witness.write_bytes(b"".join(lines) + last[:20])
    forget_witness()
    settings.HARNESS_SEAL_KEY = f"{OTHER_KEY} {KEY}"
    assert cp.resume("s").version == 1


@pytest.fixture
def folder(open_checkpointer: Open, tmp_path: Path, settings: Any) -> Path:
    """Witness folder that has recorded a session with one version."""
    settings.HARNESS_WITNESS = f"{tmp_path}/folder/"
    assert set_witness("create", "--reason", "first use").startswith("0 of 0 ")
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    (notes,) = [path for path in (tmp_path / "folder").iterdir() if "-" in path.name]
    return notes


def test_folder_of_write_once_files_detects_an_old_copy(open_checkpointer: Open, folder: Path, settings: Any) -> None:
    before, cp = {file: file.read_bytes() for file in folder.iterdir()}, open_checkpointer()
    settings.HARNESS_WITNESS_SYNC = "each"
    restore_rows = remember_state()
    assert cp.resume("s").version == 1
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.release_session("s")
    assert all(file.read_bytes() == content for file, content in before.items())
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o400}
    restore_rows()

    with pytest.raises(WitnessAhead):
        open_checkpointer().resume("s")
    forget_witness()
    with pytest.raises(WitnessAhead):
        open_checkpointer().resume("s")
    assert set_witness("adopt", "--session", "s", "--reason", "A restored backup.").startswith("1 of 1 ")
    assert open_checkpointer().resume("s").version == 1
    with pytest.raises(CommandError, match="cannot be made"):
        set_witness("create", "--reason", "Again.")


def test_removed_files_of_a_witness_folder_are_detected(open_checkpointer: Open, folder: Path) -> None:
    cp = open_checkpointer()
    newest = sorted(folder.iterdir())[-2:]
    contents = [file.read_bytes() for file in newest]
    for file in newest:
        file.unlink()
    with pytest.raises(WitnessTruncated, match="files"):
        cp.resume("s")
    forget_witness()
    with pytest.raises(WitnessBehind):
        cp.resume("s")
    newest[0].write_bytes(contents[0])
    newest[1].write_bytes(contents[1][:20])  # its process ended after its commit, while it confirmed it
    forget_witness()
    assert cp.resume("s").version == 1
    cp.release_session("s")
    forged = max(folder.iterdir())
    forged.unlink()
    forged.write_bytes(contents[0].replace(b"e ", b"c ", 1))
    forget_witness()
    with pytest.raises(WitnessDamaged):
        cp.resume("s")
    (folder.parent / "witness").unlink()
    with pytest.raises(WitnessMissing, match="no mark"):
        cp.resume("s")


def test_write_is_refused_when_the_witness_file_cannot_be_written(cp: SyncCheckpointer, witness: Path) -> None:
    witness.unlink()
    with pytest.raises(WitnessMissing):
        cp.save_checkpoint("s", conversation("abc"), {}, 0)
    assert plain(Checkpoint).count() == 1


@pytest.mark.parametrize("kind", [FileWitness, FolderWitness])
def test_disk_that_is_full_for_a_while_leaves_a_good_witness(
    open_checkpointer: Open,
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[FileWitness | FolderWitness],
) -> None:
    settings.HARNESS_WITNESS = f"{tmp_path}/witness{'/' if kind is FolderWitness else ''}"
    set_witness("create", "--reason", "first use")
    cp = start_session(open_checkpointer())
    other = kind(tmp_path / "witness")  # of another process
    other.record_expected_head(WitnessedHead("ab:1", 1, b"seal"))
    write = os.write
    with monkeypatch.context() as patch:  # the disk takes half a line
        patch.setattr("os.write", lambda to, line: write(to, line[:70] if line.startswith(b"e ") else line))
        with pytest.raises(WitnessUnreachable, match="No space left on device"):
            cp.save_checkpoint("s", conversation("ab"), {}, 0)
    assert plain(Checkpoint).count() == 0
    other.record_written_head(WitnessedHead("ab:1", 1, b"seal"))
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    forget_witness()
    assert cp.resume("s").version == 1


class FailingWitness(FileWitness):
    """Witness that cannot be written for a number of attempts, before a commit or after it."""

    expected, confirmed = 0, 0

    def record_expected_head(self, head: WitnessedHead) -> None:
        self.expected -= 1
        if self.expected >= 0:
            raise WitnessUnreachable("The witness", "it starts")
        super().record_expected_head(head)

    def record_written_head(self, head: WitnessedHead) -> None:
        self.confirmed -= 1
        if self.confirmed >= 0:
            raise WitnessUnreachable("The witness", "it starts")
        super().record_written_head(head)


@pytest.fixture
def failing(witness: Path, settings: Any) -> FailingWitness:
    settings.HARNESS_WITNESS = f"{__name__}.build_witness"
    failing_witness = FailingWitness(witness)
    BUILT[:] = [failing_witness]
    return failing_witness


@pytest.mark.parametrize("attempts", [3, 99])
def test_result_is_not_lost_while_the_witness_is_away(
    open_checkpointer: Open, failing: FailingWitness, monkeypatch: pytest.MonkeyPatch, attempts: int
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    cp, paid = start_session(open_checkpointer()), list[int]()
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool
    def pay(order: int) -> str:
        paid.append(order)
        failing.expected = attempts
        return f"paid {order}"

    if attempts < 5:
        assert registry.dispatch("pay", {"order": 17}, "call_1").content == "paid 17"
        assert plain(ToolCall).get().status == "completed"
    else:
        with pytest.raises(ResultNotRecorded) as caught:
            registry.dispatch("pay", {"order": 17}, "call_1")
        assert caught.value.result == "paid 17"
        assert isinstance(caught.value.__cause__, WitnessUnreachable)
        failing.expected = 0
    assert paid == [17]


def test_write_that_is_committed_is_no_error_if_the_witness_is_away_then(
    open_checkpointer: Open, failing: FailingWitness, caplog: pytest.LogCaptureFixture
) -> None:
    cp = start_session(open_checkpointer())
    failing.confirmed = 1
    assert cp.save_checkpoint("s", conversation("ab"), {}, 0) == 1
    assert "was not confirmed: The witness" in caplog.text
    cp.release_session("s")
    assert cp.resume("s").version == 1


def test_witness_factory_can_be_configured(open_checkpointer: Open, witness: Path, settings: Any) -> None:
    settings.HARNESS_WITNESS = f"{__name__}.build_witness"
    BUILT.clear()
    BUILT.append(FileWitness(witness, sync_each=True))
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.release_session("s")
    assert cp.resume("s").version == 1
    assert witness.stat().st_size > 0


BUILT: list[FileWitness] = []


def build_witness() -> FileWitness:
    return BUILT[0]


def test_file_that_the_user_of_the_process_may_not_append_to_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    FileWitness.create_storage(path)
    path.chmod(0)
    with run_as_user_without_rights():
        for use in (
            lambda: FileWitness(path).list_session_names(),
            lambda: FileWitness(path).record_adopted_head(HEAD),
        ):
            with pytest.raises(WitnessUnreachable, match="may not read and append") as refused:
                use()
            assert "whether this user may read and append" in refused.value.hint


@contextmanager
def run_as_user_without_rights() -> Iterator[None]:
    """As root, which no permission of a file refuses, be another user meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
