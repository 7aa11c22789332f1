"""Witness in a folder of files that are written once, for storage that lets nobody change or delete what it has.

Each record is a file of its own, numbered within the folder of its session. Nothing is opened for writing a second
time, so the folder may be a mount of object storage whose objects are locked.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

from checkpoints.exceptions import WitnessDamaged, WitnessMissing, WitnessTruncated, WitnessUnreachable
from checkpoints.seals.witness_records import (
    ADOPTED,
    CONFIRMED,
    EXPECTED,
    WitnessedHead,
    WitnessedSession,
    encode_record_with_mac,
    parse_and_verify_record,
    write_record_or_raise_if_partial,
)

#: File that says that the folder is a witness, and not the empty place of a mount that is missing.
MARK_NAME = "witness"
_NUMBER_DIGITS = 12
#: Names of the folders of sessions. Others, such as `lost+found`, are not the witness's.
_SESSION_FOLDER = re.compile(r"([0-9a-f]+)-(\d+)")


@dataclass
class _SessionFolder:
    """Records that this process has read from the folder of one session, and the number of files."""

    read: int = 0
    session: WitnessedSession = field(default_factory=WitnessedSession)


class FolderWitness:
    """Witness in a folder, shared by all processes that can make files in it.

    Args:
        path: Path of the folder. It has to have its mark: `manage.py witness create` makes it.
        sync_each: Whether each expected head is on the disk before its commit.
    """

    def __init__(self, path: Path, *, sync_each: bool = False) -> None:
        self.path = path
        self._sync_each = sync_each
        self._lock = threading.Lock()
        self._folders: dict[str, _SessionFolder] = {}

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def create_storage(cls, path: Path) -> None:
        """Make an empty witness. Raises `FileExistsError` if there is one."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create_file_exclusively(path / MARK_NAME, b"", sync=True)

    def record_expected_head(self, head: WitnessedHead) -> None:
        self._write_record(EXPECTED, head, sync=self._sync_each)

    def record_written_head(self, head: WitnessedHead) -> None:
        self._write_record(CONFIRMED, head, sync=False)

    def record_adopted_head(self, head: WitnessedHead) -> None:
        self._write_record(ADOPTED, head, sync=True)

    def find_session(self, name: str) -> WitnessedSession | None:
        self._require_mark_file()
        with self._lock:
            folder = self._read_and_apply_new_files(name)
            return folder.session if folder.read else None

    def list_session_names(self) -> list[str]:
        self._require_mark_file()
        matches = (_SESSION_FOLDER.fullmatch(folder.name) for folder in self.path.iterdir() if folder.is_dir())
        return [f"{match[1]}:{match[2]}" for match in matches if match]

    def _write_record(self, kind: str, head: WitnessedHead, *, sync: bool) -> None:
        self._require_mark_file()
        content, folder = encode_record_with_mac(kind, head), self._get_session_folder_path(head.name)
        with self._lock:
            known = self._read_and_apply_new_files(head.name)
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
                number = _write_next_record_file(folder, known.read, content, sync=sync)
            except FileNotFoundError as error:
                raise WitnessMissing(str(folder), type(error).__name__) from error
            except OSError as error:
                raise WitnessUnreachable(str(folder), error.strerror or type(error).__name__) from error
            if number == known.read:
                known.session.apply_record(kind, head)
                known.read += 1

    def _require_mark_file(self) -> None:
        if not (self.path / MARK_NAME).exists():
            raise WitnessMissing(str(self.path), "it has no mark of a witness")

    def _get_session_folder_path(self, name: str) -> Path:
        return self.path / name.replace(":", "-")

    def _read_and_apply_new_files(self, name: str) -> _SessionFolder:
        """Read what was noted of a session since the last time, and verify it. The files are numbered without gaps."""
        known, folder = self._folders.setdefault(name, _SessionFolder()), self._get_session_folder_path(name)
        try:
            if known.read and not _get_record_path(folder, known.read - 1).exists():
                raise WitnessTruncated(str(folder), known.read, _count_record_files(folder), "files")
            while (content := _read_record_file(folder, known.read)) is not None:
                if (
                    not self._apply_record_file_if_whole(known, folder, name, content)
                    and _read_record_file(folder, known.read + 1) is None
                ):
                    break  # another process may still be writing it
                known.read += 1
        except OSError as error:
            raise WitnessMissing(str(folder), type(error).__name__) from error
        return known

    def _apply_record_file_if_whole(self, known: _SessionFolder, folder: Path, name: str, content: bytes) -> bool:
        """Take a file into account. Returns False for one that is not whole, whose writer announced no commit by it."""
        file = _get_record_path(folder, known.read)
        try:
            record = parse_and_verify_record(content)
        except ValueError as error:
            raise WitnessDamaged(str(file), 0) from error
        if record is None:
            return False
        kind, head = record
        if head.name != name:
            raise WitnessDamaged(str(file), 0)
        known.session.apply_record(kind, head)
        return True


def _get_record_path(folder: Path, number: int) -> Path:
    return folder / f"{number:0{_NUMBER_DIGITS}}"


def _count_record_files(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.exists() else 0


def _read_record_file(folder: Path, number: int) -> bytes | None:
    try:
        return _get_record_path(folder, number).read_bytes()
    except FileNotFoundError:
        return None


def _write_next_record_file(folder: Path, number: int, content: bytes, *, sync: bool) -> int:
    """Make the file `number`, or the next one that another process has not made. Returns its number."""
    while True:
        try:
            _create_file_exclusively(_get_record_path(folder, number), content, sync=sync)
        except FileExistsError:
            number += 1
        else:
            return number


def _create_file_exclusively(path: Path, content: bytes, *, sync: bool) -> None:
    """Make a file with its content. Raises `OSError`: `FileExistsError` if there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    try:
        write_record_or_raise_if_partial(descriptor, content)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if sync:
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
