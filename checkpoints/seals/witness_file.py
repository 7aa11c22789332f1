"""Witness in one file, to which the heads of sessions are appended."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path
from typing import Final

from checkpoints.exceptions import (
    WitnessDamaged,
    WitnessError,
    WitnessMissing,
    WitnessTruncated,
    WitnessUnreachable,
)
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

logger = logging.getLogger(__name__)

#: Seconds within which what was noted is on the disk, if it is not synced for each write.
SYNC_SECONDS = 0.1
_NO_PERMISSION: Final = "the user of this process may not read and append to it"


class FileWitness:
    """Witness in a file to which lines are appended, shared by all processes that can write to it.

    Each line has a keyed digest, so that only who has the key of seals can add one.

    Args:
        path: Path of the file. It has to exist: `manage.py witness create` makes it.
        sync_each: Whether each expected head is on the disk before its commit. Else the disk has it within
            `SYNC_SECONDS`, which a killed process does not lose, and a power failure may.
    """

    def __init__(self, path: Path, *, sync_each: bool = False) -> None:
        self.path = path
        self._sync_each = sync_each
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._pid = 0
        self._unsynced = threading.Event()
        self._read_to = 0
        self._known_size = 0
        self._sessions: dict[str, WitnessedSession] = {}

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def create_storage(cls, path: Path) -> None:
        """Make an empty witness. Raises `FileExistsError`."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def record_expected_head(self, head: WitnessedHead) -> None:
        self._require_file_not_truncated()
        self._append_record(EXPECTED, head)
        if self._sync_each:
            self._sync_file()

    def record_written_head(self, head: WitnessedHead) -> None:
        self._append_record(CONFIRMED, head)

    def record_adopted_head(self, head: WitnessedHead) -> None:
        self._append_record(ADOPTED, head)
        self._sync_file()

    def find_session(self, name: str) -> WitnessedSession | None:
        with self._lock:
            self._read_and_apply_new_lines()
            return self._sessions.get(name)

    def list_session_names(self) -> list[str]:
        with self._lock:
            self._read_and_apply_new_lines()
            return list(self._sessions)

    def _require_file_not_truncated(self) -> None:
        """Require that the file is still there, with everything that this process has seen in it."""
        known_size = self._known_size  # read before the file is looked at: other threads append meanwhile
        status = os.fstat(self._get_or_open_descriptor_and_start_sync_thread())
        if status.st_nlink == 0:
            raise WitnessMissing(str(self.path), "it was deleted or replaced")
        if status.st_size < known_size:
            raise WitnessTruncated(str(self.path), known_size, status.st_size)
        self._known_size = max(self._known_size, status.st_size)

    def _append_record(self, kind: str, head: WitnessedHead) -> None:
        descriptor, line = self._get_or_open_descriptor_and_start_sync_thread(), encode_record_with_mac(kind, head)
        try:
            _append_line_without_sync(descriptor, line)
        except OSError as error:
            raise WitnessUnreachable(str(self.path), error.strerror or type(error).__name__) from error
        # The end of the last write of this process, which another thread may have made since: never behind the end.
        self._known_size = max(self._known_size, os.lseek(descriptor, 0, os.SEEK_CUR))
        self._unsynced.set()

    def _get_or_open_descriptor_and_start_sync_thread(self) -> int:
        if self._descriptor is not None and self._pid == os.getpid():
            return self._descriptor
        with self._lock:
            if self._descriptor is None or self._pid != os.getpid():
                try:
                    self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
                except PermissionError as error:
                    raise WitnessUnreachable(str(self.path), _NO_PERMISSION) from error
                except OSError as error:
                    raise WitnessMissing(str(self.path), type(error).__name__) from error
                self._pid = os.getpid()
                if not self._sync_each:
                    threading.Thread(target=self._sync_file_in_loop, name="harness-witness", daemon=True).start()
            return self._descriptor

    def _sync_file(self) -> None:
        try:
            os.fdatasync(self._get_or_open_descriptor_and_start_sync_thread())
        except OSError as error:
            raise WitnessUnreachable(str(self.path), error.strerror or type(error).__name__) from error

    def _sync_file_in_loop(self) -> None:
        while True:
            self._unsynced.wait()
            time.sleep(SYNC_SECONDS)
            self._unsynced.clear()
            try:
                self._sync_file()
            except WitnessError as error:
                logger.warning("What was noted last may be lost in a power failure. %s", error)

    def _read_and_apply_new_lines(self) -> None:
        """Read what was appended since the last time, and verify it."""
        known_size = max(self._read_to, self._known_size)
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size < known_size:
                    raise WitnessTruncated(str(self.path), known_size, size)
                file.seek(self._read_to)
                content = file.read(size - self._read_to)
        except PermissionError as error:
            raise WitnessUnreachable(str(self.path), _NO_PERMISSION) from error
        except OSError as error:
            raise WitnessMissing(str(self.path), type(error).__name__) from error
        end = content.rfind(b"\n") + 1  # a line whose process was stopped while it wrote announced no commit
        offset = self._read_to
        for line in content[:end].splitlines(keepends=True):
            self._apply_line(line, offset)
            offset += len(line)
        self._read_to = offset

    def _apply_line(self, line: bytes, offset: int) -> None:
        """Take the line at byte `offset` into account."""
        try:
            record = parse_and_verify_record(line)
        except ValueError as error:
            raise WitnessDamaged(str(self.path), offset) from error
        if record is not None:
            kind, head = record
            self._sessions.setdefault(head.name, WitnessedSession()).apply_record(kind, head)


def _append_line_without_sync(descriptor: int, line: bytes) -> None:
    """Append a line. One before it that is not whole is ended first: its writer was stopped, or found the disk full.

    Raises `OSError`.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    write_record_or_raise_if_partial(descriptor, line)
