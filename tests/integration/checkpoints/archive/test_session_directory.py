"""A folder of session files: saved by hand or after every version, resumed by id."""

from pathlib import Path

import pytest

from checkpoints import Checkpointer, SessionFiles, SyncCheckpointer, SyncSessionFiles, ToolRegistry
from checkpoints.archive.session_file_reader_and_writer import SessionFileReader
from checkpoints.exceptions import FileDamaged, FileNotWritten, InvalidIdentifier, SessionNotFound, WrongSession
from checkpoints.models import AuditEvent, Session, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session

IDS = ["s", "../../etc/passwd", "/etc/passwd", "a/b", ".", "con", "S", "ü" * 200, "a:b*?|<>"]


def version(files: SyncSessionFiles, session_id: str = "s") -> int:
    return SessionFileReader(files.get_file_path(session_id), session_id).header.latest_version


def test_session_is_saved_and_resumed_by_its_id(open_checkpointer: Open, tmp_path: Path) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("a"), None, 0)
    files = SyncSessionFiles(cp, tmp_path)
    assert files.save("s").path == files.get_file_path("s")
    cp.close()
    cp.delete_session("s")
    registry = ToolRegistry()

    for _ in range(2):
        point = SyncSessionFiles(open_checkpointer(), tmp_path).resume("s", registry, takeover=True)
        assert (point.transcript, point.version, registry.session_id) == (conversation("a"), 1, "s")


def test_database_is_newer_than_a_file(cp: SyncCheckpointer, tmp_path: Path) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), None, 0)
    files = SyncSessionFiles(cp, tmp_path)
    files.save("s")
    cp.save_checkpoint("s", conversation("ab"), None, 0)

    assert files.resume("s").transcript == conversation("ab")


def test_without_autosave_nothing_is_written(cp: SyncCheckpointer, tmp_path: Path) -> None:
    SyncSessionFiles(cp, tmp_path)
    start_session(cp).save_checkpoint("s", conversation("a"), None, 0)

    assert list(tmp_path.iterdir()) == []


def test_autosave_writes_every_version_and_the_final_state(cp: SyncCheckpointer, tmp_path: Path) -> None:
    files = SyncSessionFiles(cp, tmp_path, autosave=True)
    start_session(cp).save_checkpoint("s", conversation("a"), None, 0)
    assert version(files) == 1
    cp.append_checkpoint("s", conversation("b"), expected_version=1)
    assert version(files) == 2
    cp.finish_session("s", "completed", "done")
    cp.delete_session("s")

    assert files.resume("s").result == "done"
    assert AuditEvent.objects.filter(kind="exported").count() == 0


def test_failed_autosave_is_reported_and_the_version_is_saved(cp: SyncCheckpointer, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.touch()
    SyncSessionFiles(cp, folder, autosave=True)

    with pytest.raises(FileNotWritten):
        start_session(cp).save_checkpoint("s", conversation("a"), None, 0)
    assert (cp.load_latest("s") or {})["version"] == 1


@pytest.mark.parametrize("session_id", IDS)
def test_session_id_is_never_used_as_a_path(cp: SyncCheckpointer, tmp_path: Path, session_id: str) -> None:
    files = SyncSessionFiles(cp, tmp_path / "in" / "here")
    start_session(cp, session_id)
    files.save(session_id)

    (found,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert found == files.get_file_path(session_id)
    assert found.parent == tmp_path / "in" / "here"
    assert found.stem.isalnum() is True


def test_every_session_id_has_its_own_file(cp: SyncCheckpointer, tmp_path: Path) -> None:
    files = SyncSessionFiles(cp, tmp_path)

    assert len({files.get_file_path(session_id).name.lower() for session_id in IDS}) == len(IDS)


def test_file_that_contains_another_session_is_refused(open_checkpointer: Open, tmp_path: Path) -> None:
    cp = start_session(open_checkpointer(), "other")
    files = SyncSessionFiles(cp, tmp_path)
    files.save("other").path.rename(files.get_file_path("s"))

    with pytest.raises(WrongSession):
        files.resume("s")
    files.get_file_path("s").write_bytes(b"junk")
    with pytest.raises(FileDamaged):
        files.load("s")
    assert list(Session.objects.values_list("session_id", flat=True)) == ["other"]


def test_session_without_file_or_rows_is_not_found(cp: SyncCheckpointer, tmp_path: Path) -> None:
    files = SyncSessionFiles(cp, tmp_path)

    for attempt in (files.resume, files.save):
        with pytest.raises(SessionNotFound):
            attempt("s")
    with pytest.raises(InvalidIdentifier):
        files.get_file_path("")


@pytest.mark.asyncio
async def test_async_class_behaves_alike(workspace: Workspace, tmp_path: Path) -> None:
    async with Checkpointer() as cp:
        SessionFiles(cp, tmp_path, autosave=True)
        await cp.start_session("s")
        await cp.save_checkpoint("s", conversation("a"), None, 0)
        await cp.finish_session("s", "completed")
        await cp.delete_session("s")
    async with Checkpointer() as cp:
        files = SessionFiles(cp, tmp_path)
        registry = ToolRegistry()
        assert (await files.resume("s", registry)).transcript == conversation("a")
        assert registry.session_id == "s"
        assert (await files.save("s")).version == 1
        await cp.delete_session("s")
        assert (await files.load("s")).version == 1
