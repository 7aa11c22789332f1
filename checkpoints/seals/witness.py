"""Witness: the newest heads of sessions, kept outside the database, so that an old copy of it is noticed.

A session's seal proves that a state was written, not that it is the newest one. A witness knows the number of the last
write. Each write of a head is noted before its commit (expected) and after it (confirmed). The stored head of a session
has to be the one that was confirmed last, or one that was expected after it and whose process ended before it could
confirm it.

`HARNESS_WITNESS` is the path of a file, the path of a folder with a slash at its end, the URL or the Django alias of a
second database, or the dotted name of a function that returns a `Witness`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from django.conf import settings
from django.core.signals import setting_changed
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.utils.module_loading import import_string

from checkpoints import conf
from checkpoints.exceptions import (
    SealKeyInvalid,
    WitnessAhead,
    WitnessBehind,
    WitnessDamaged,
    WitnessMissing,
    WitnessTruncated,
)
from checkpoints.seals.witness_database import DatabaseWitness
from checkpoints.seals.witness_folder import FolderWitness
from checkpoints.seals.witness_records import (
    ADOPTED,
    CONFIRMED,
    EXPECTED,
    WitnessedHead,
    WitnessedSession,
    encode_record,
    parse_record,
)

SETTING = "HARNESS_WITNESS"
SYNC_SETTING = "HARNESS_WITNESS_SYNC"
#: Seconds within which what was noted is on the disk, if it is not synced for each write.
SYNC_SECONDS = 0.1


class Witness(Protocol):
    """Store of heads outside the database. Every method may raise a subclass of `WitnessError`."""

    def expect(self, head: WitnessedHead) -> None:
        """Note a head that is about to be written."""

    def confirm(self, head: WitnessedHead) -> None:
        """Note a head that was written."""

    def adopt(self, head: WitnessedHead) -> None:
        """Note a head as the newest one, whatever was noted before."""

    def find(self, name: str) -> WitnessedSession | None:
        """Find what is known of a session; None if nothing is."""


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
    def create(cls, path: Path) -> None:
        """Make an empty witness. Raises `FileExistsError`."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def expect(self, head: WitnessedHead) -> None:
        self._require_whole_file()
        self._append(EXPECTED, head)
        if self._sync_each:
            os.fdatasync(self._open())

    def confirm(self, head: WitnessedHead) -> None:
        self._append(CONFIRMED, head)

    def adopt(self, head: WitnessedHead) -> None:
        self._append(ADOPTED, head)
        os.fsync(self._open())

    def find(self, name: str) -> WitnessedSession | None:
        with self._lock:
            self._read_new_lines()
            return self._sessions.get(name)

    def _require_whole_file(self) -> None:
        """Require that the file is still there, with everything that this process has seen in it."""
        status = os.fstat(self._open())
        if status.st_nlink == 0:
            raise WitnessMissing(str(self.path), "it was deleted or replaced")
        if status.st_size < self._known_size:
            raise WitnessTruncated(str(self.path), self._known_size, status.st_size)
        self._known_size = max(self._known_size, status.st_size)

    def _append(self, kind: str, head: WitnessedHead) -> None:
        descriptor = self._open()
        os.write(descriptor, encode_record(kind, head))
        # The end of the last write of this process, which another thread may have made since: never behind the end.
        self._known_size = max(self._known_size, os.lseek(descriptor, 0, os.SEEK_CUR))
        self._unsynced.set()

    def _open(self) -> int:
        if self._descriptor is not None and self._pid == os.getpid():
            return self._descriptor
        with self._lock:
            if self._descriptor is None or self._pid != os.getpid():
                try:
                    self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
                    size = os.fstat(self._descriptor).st_size
                    if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                        os.write(self._descriptor, b"\n")
                except OSError as error:
                    raise WitnessMissing(str(self.path), type(error).__name__) from error
                self._pid = os.getpid()
                if not self._sync_each:
                    threading.Thread(target=self._sync_forever, name="harness-witness", daemon=True).start()
            return self._descriptor

    def _sync_forever(self) -> None:
        while True:
            self._unsynced.wait()
            time.sleep(SYNC_SECONDS)
            self._unsynced.clear()
            os.fdatasync(self._open())

    def _read_new_lines(self) -> None:
        """Read what was appended since the last time, and verify it."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                if size < max(self._read_to, self._known_size):
                    raise WitnessTruncated(str(self.path), max(self._read_to, self._known_size), size)
                file.seek(self._read_to)
                content = file.read(size - self._read_to)
        except OSError as error:
            raise WitnessMissing(str(self.path), type(error).__name__) from error
        end = content.rfind(b"\n") + 1  # a line whose process was stopped while it wrote announced no commit
        for line in content[:end].splitlines():
            self._apply_line(line)
        self._read_to += end

    def _apply_line(self, line: bytes) -> None:
        try:
            record = parse_record(line)
        except ValueError as error:
            raise WitnessDamaged(str(self.path), self._read_to) from error
        if record is not None:
            kind, head = record
            self._sessions.setdefault(head.name, WitnessedSession()).apply(kind, head)


@cache
def get_witness() -> Witness | None:
    """Return the configured witness; None if there is none. Read once per process. Raises `SealKeyInvalid`."""
    value = _read_setting(SETTING)
    if not value:
        return None
    sync = _read_setting(SYNC_SETTING) or "batched"
    if sync not in {"batched", "each"}:
        raise SealKeyInvalid(f"{SYNC_SETTING} is {sync!r}; use batched or each")
    if "://" in value or value in connections.databases:
        return _open_database_witness(value, sync_each=sync == "each")
    if os.sep not in value and "." in value and not value.endswith((".log", ".txt")):
        factory: Callable[[], Witness] = import_string(value)
        return factory()
    make = FolderWitness if value.endswith(os.sep) else FileWitness
    return make(Path(value), sync_each=sync == "each")


def _open_database_witness(value: str, *, sync_each: bool) -> DatabaseWitness:
    """Open the witness in a second database, by its URL or its alias."""
    alias = conf.get_or_create_alias(value) if "://" in value else value
    if alias == DEFAULT_DB_ALIAS:
        raise SealKeyInvalid(f"{SETTING} is the database of the sessions; use another one")
    return DatabaseWitness(alias, sync_each=sync_each)


def _read_setting(name: str) -> str:
    value = getattr(settings, name, None)
    return str(os.environ.get(name, "") if value is None else value).strip()


def expect_head(head: WitnessedHead) -> None:
    """Note a head that a statement is about to write."""
    witness = get_witness()
    if witness is not None:
        witness.expect(head)


def confirm_head(using: str, head: WitnessedHead) -> None:
    """Note a head that a statement has written, when its transaction is committed."""
    witness = get_witness()
    if witness is not None:
        transaction.on_commit(lambda: witness.confirm(head), using=using)


def verify_head(session_id: str, head: WitnessedHead) -> None:
    """Verify that the stored head of a session is the newest one that the witness knows. Nothing without a witness.

    Raises:
        WitnessAhead: The witness knows a newer state of the session.
        WitnessBehind: The witness does not know this state.
    """
    witness = get_witness()
    if witness is None:
        return
    known = witness.find(head.name)
    if known is not None and known.matches(head.number, head.seal):
        return
    if known is not None and known.number >= head.number:
        raise WitnessAhead(session_id, known.number, head.number)
    raise WitnessBehind(session_id, -1 if known is None else known.number, head.number)


def _forget_witness(*, setting: str, **_: Any) -> None:
    if setting in {SETTING, SYNC_SETTING}:
        get_witness.cache_clear()


setting_changed.connect(_forget_witness, dispatch_uid="checkpoints.seals.witness")
