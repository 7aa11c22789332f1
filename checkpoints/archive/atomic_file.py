"""Replace a file atomically: readers, also after a crash, see either the complete old file or the complete new one.

The new file is written beside the old one, synced to disk, and renamed; then the folder is synced. Temporary files of a
dead writer are removed by the next writer.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from checkpoints import process_identity_and_liveness
from checkpoints.exceptions import FileNotWritten
from checkpoints.formats import digests

#: Age in seconds after which a temporary file of another machine is removed, since its writer cannot be checked.
ABANDONED_AFTER_SECONDS = 24 * 3600


@contextmanager
def open_atomic_replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` at the end; after an error `path` is unchanged.

    Only its owner can read it, because sessions may hold secrets. Raises `FileNotWritten`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_temp_files(path)
        temporary = path.with_name(
            f"{_get_temp_file_prefix(path)}{_build_process_part_of_temp_file_name()}-{secrets.token_hex(4)}.tmp"
        )
        with open(temporary, "xb", opener=_open_file_for_owner_only) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        _fsync_folder(path.parent)
    except OSError as error:
        raise FileNotWritten(path, error.strerror or str(error)) from error


def _open_file_for_owner_only(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _fsync_folder(folder: Path) -> None:
    """Sync the new name to disk. Systems that cannot open folders do that by themselves."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _get_temp_file_prefix(path: Path) -> str:
    return f".harness-{digests.digest_text(path.name)[:16]}-"


def _build_process_part_of_temp_file_name() -> str:
    """Name of this process, so that a later one can tell whether it is still alive."""
    process = process_identity_and_liveness.get_identity_of_this_process()
    return f"{_digest_host_identity(process.host_identity)}-{process.pid}-{process.started or 0}"


def _digest_host_identity(identity: str) -> str:
    return digests.digest_text(identity)[:8] if identity else "unknown"


def _remove_abandoned_temp_files(path: Path) -> None:
    for file in path.parent.glob(f"{_get_temp_file_prefix(path)}*.tmp"):
        if _is_temp_file_abandoned(file, file.name.removeprefix(_get_temp_file_prefix(path)).split("-")):
            with suppress(OSError):
                file.unlink()


def _is_temp_file_abandoned(file: Path, name_parts: list[str]) -> bool:
    process = process_identity_and_liveness.get_identity_of_this_process()
    if (
        len(name_parts) == 4
        and name_parts[0] == _digest_host_identity(process.host_identity)
        and name_parts[1].isdecimal()
    ):
        return process_identity_and_liveness.is_process_known_dead(
            process.host_identity, int(name_parts[1]), name_parts[2]
        )
    try:
        return time.time() - file.stat().st_mtime > ABANDONED_AFTER_SECONDS
    except OSError:
        return False
