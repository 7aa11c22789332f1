"""Replacing a file at once, whatever crashes."""

import os
import signal
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.archive.atomic_file import open_atomic_replacement
from checkpoints.archive.session_file_reader_and_writer import SessionFileReader
from checkpoints.exceptions import FileNotWritten
from tests.conftest import StartChild
from tests.integration.checkpoints.archive import session_histories
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.support.processes import database_url, wait_until


def write(path: Path, text: str) -> None:
    with open_atomic_replacement(path) as file:
        file.write(text.encode())


def names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


def test_new_file_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a"
    for text in ("old", "new"):
        write(path, text)

    assert (path.read_text(), names(path.parent)) == ("new", ["a"])


def test_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, "old")

    with pytest.raises(TypeError), open_atomic_replacement(path) as file:
        file.writelines([b"half", 5])  # type: ignore[list-item]
    assert (path.read_text(), names(tmp_path)) == ("old", ["a"])


def test_file_name_of_maximum_length_is_written(tmp_path: Path) -> None:
    write(tmp_path / ("a" * 255), "text")

    assert names(tmp_path) == ["a" * 255]


def test_folder_that_cannot_be_created_raises_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileNotWritten):
        write(tmp_path / "file" / "a", "text")


@pytest.mark.parametrize(("point", "text"), [("while writing", "old"), ("after", "new")])
def test_killed_writer_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, start_child: StartChild, point: str, text: str
) -> None:
    path = tmp_path / "a"
    write(path, "old")
    child = start_child(session_histories.replace_file_and_die, path=str(path), text="new", point=point)
    assert child.died_by() == signal.SIGKILL

    assert path.read_text() == text
    assert len(names(tmp_path)) == (2 if point == "while writing" else 1)
    write(path, "next")
    assert (path.read_text(), names(tmp_path)) == ("next", ["a"])


def test_temporary_file_of_a_running_writer_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with open_atomic_replacement(path) as outer:
        outer.write(b"outer")
        write(path, "inner")
        write(tmp_path / "b", "other")
        assert len(names(tmp_path)) == 3
    assert (path.read_text(), names(tmp_path)) == ("outer", ["a", "b"])


def test_old_temporary_file_of_another_host_is_removed(tmp_path: Path, start_child: StartChild) -> None:
    path = tmp_path / "a"
    start_child(session_histories.replace_file_and_die, path=str(path), text="new", point="while writing").died_by()
    (left,) = tmp_path.iterdir()
    prefix, name, _, *rest = left.name.split("-")
    elsewhere = left.rename(tmp_path / "-".join([prefix, name, "0000abcd", *rest]))
    write(path, "text")
    assert elsewhere.exists() is True

    os.utime(elsewhere, (0, 0))
    write(path, "text")
    assert names(tmp_path) == ["a"]


def test_file_is_complete_when_its_writer_is_killed(
    cp: SyncCheckpointer, start_child: StartChild, tmp_path: Path
) -> None:
    path = tmp_path / "s.session"
    start_session(cp).save_checkpoint("s", conversation("abc"), None, 0)
    cp.export_session("s", path)
    cp.close()
    pending_revision: set[int] = set()
    for _ in range(4):
        first = SessionFileReader(path, "s").header.latest_version
        child = start_child(session_histories.export_until_killed, url=database_url(), session_id="s", path=str(path))
        child.expect("exporting")
        wait_until(lambda first=first: SessionFileReader(path, "s").header.latest_version > first + 2)  # type: ignore[misc]
        child.kill()
        pending_revision.add(SessionFileReader(path, "s").header.latest_version)
    cp.export_session("s", path)

    assert len(pending_revision) == 4
    assert names(tmp_path) == ["s.session"]
