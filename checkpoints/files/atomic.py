"""Replacing a file at once: whoever reads it, and whatever crashes, finds the old one or the new one, whole.

A new file is written beside the old one, brought to the disk, and takes its name; then the folder is brought to the
disk. What a writer that died left behind is removed by the next one.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from checkpoints import process
from checkpoints.exceptions import FileNotWritten
from checkpoints.serde import digests

#: A left-over whose writer cannot be asked about, because it ran on another machine, is removed after so many seconds.
ABANDONED_AFTER = 24 * 3600


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file to write to, which takes the place of `path` at the end; after an error `path` is as it was.

    Raises `FileNotWritten`. Readable by its owner alone: sessions may hold secrets.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_behind(path)
        temporary = path.with_name(f"{_prefix(path)}{_writer()}-{secrets.token_hex(4)}.tmp")
        with open(temporary, "xb", opener=_private) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        _sync_folder(path.parent)
    except OSError as error:
        raise FileNotWritten(path, error.strerror or str(error)) from error


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk. Systems that cannot open folders do that by themselves."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _prefix(path: Path) -> str:
    return f".harness-{digests.text_digest(path.name)[:16]}-"


def _writer() -> str:
    """This process, so that the next one can tell whether it still lives."""
    here = process.this_process()
    return f"{_host(here.host_identity)}-{here.pid}-{here.started or 0}"


def _host(identity: str) -> str:
    return digests.text_digest(identity)[:8] if identity else "unknown"


def _remove_left_behind(path: Path) -> None:
    for found in path.parent.glob(f"{_prefix(path)}*.tmp"):
        if _abandoned(found, found.name.removeprefix(_prefix(path)).split("-")):
            with suppress(OSError):
                found.unlink()


def _abandoned(found: Path, writer: list[str]) -> bool:
    here = process.this_process()
    if len(writer) == 4 and writer[0] == _host(here.host_identity) and writer[1].isdecimal():
        return process.known_dead(here.host_identity, int(writer[1]), writer[2])
    try:
        return time.time() - found.stat().st_mtime > ABANDONED_AFTER
    except OSError:
        return False
