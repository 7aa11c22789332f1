"""Groups of files that several processes import at once, and the number of these processes.

Files that may belong to one session stay in one group, in their order: which of them comes first decides what the
session is.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from django.db import connections

from checkpoints.importers.find_and_read_transcript_files import SourceFile

#: Largest number of processes that are started without being asked for a number. SQLite has one writer at a time, and
#: more processes gain little there.
MAX_DEFAULT_WORKERS: Final = 8
#: As few bytes in as few files are imported by one process before others have started.
_FEW_BYTES: Final = 2 * 1024 * 1024
_FEW_FILES: Final = 60
#: Largest number of bytes and of files that one transaction imports.
_GROUP_BYTES: Final = 1024 * 1024
_GROUP_FILES: Final = 20
#: Bytes at the start of a file in which the name of its session is looked for.
_HEAD_BYTES: Final = 32 * 1024
_UUID_AT_END: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE)
#: Fields of files that name their sessions; a file of spans may have parts of many sessions.
_SPAN_FIELD: Final = re.compile(rb'"(?:resourceSpans|traceId|trace_id|observations)"\s*:')
_SESSION_FIELD: Final = re.compile(
    rb'"(?:sessionId|session_id|conversation_id|thread_id|id)"\s*:\s*"([^"\\]{1,200})"', re.IGNORECASE
)


def choose_number_of_workers(using: str, files: Sequence[SourceFile]) -> int:
    """Return the number of processes that import files fastest.

    Args:
        using: Connection alias of the database.
        files: Files to import.

    Returns:
        The number of processors that this process may use, at most `MAX_DEFAULT_WORKERS`; 1 if there is little to
        import, or if this process or its database cannot be used by several processes.
    """
    is_little = len(files) < _FEW_FILES and sum(file.size for file in files) < _FEW_BYTES
    if (
        len(files) < 2 or is_little or sys.platform == "darwin" or not can_forked_processes_use_database(using)
    ):  # macOS: forks may crash
        return 1
    return min(_count_usable_processors(), MAX_DEFAULT_WORKERS)


def can_forked_processes_use_database(using: str) -> bool:
    """Return whether processes that are forked from this one can use its database.

    They cannot inside a transaction of this process, or if the database is in its memory.
    """
    connection = connections[using]
    is_in_memory = connection.vendor == "sqlite" and connection.is_in_memory_db()  # type: ignore[attr-defined]
    return "fork" in multiprocessing.get_all_start_methods() and not connection.in_atomic_block and not is_in_memory


def _count_usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def group_files_by_session_and_size(files: Sequence[SourceFile]) -> list[list[SourceFile]]:
    """Group files so that each group can be imported by itself, neighbours together.

    The largest group comes first, so that no process ends much later than the others.
    """
    sequences: dict[str, list[SourceFile]] = {}
    for file in files:
        sequences.setdefault(_find_session_name_or_path(file), []).append(file)
    groups: list[list[SourceFile]] = [[]]
    for sequence in sequences.values():
        if not _fits_into_one_transaction([*groups[-1], *sequence]):
            groups.append([])
        groups[-1] += sequence
    return sorted(filter(None, groups), key=lambda group: -sum(file.size for file in group))


def split_into_transactions(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    """Split a group into parts that one transaction imports; a large file is a part by itself."""
    part: list[SourceFile] = []
    for file in files:
        if part and not _fits_into_one_transaction([*part, file]):
            yield part
            part = []
        part.append(file)
    if part:
        yield part


def _fits_into_one_transaction(files: Sequence[SourceFile]) -> bool:
    return len(files) <= _GROUP_FILES and sum(file.size for file in files) <= _GROUP_BYTES


def _find_session_name_or_path(file: SourceFile) -> str:
    """Find a name that all files of the same session have: in the name of the file, else at its start.

    A file without one is a session of its own, named after it.
    """
    named = _UUID_AT_END.search(file.path.stem)
    if named is not None:
        return named[0].lower()
    if file.path.stem.startswith("agent-"):
        return file.path.stem
    try:
        with file.path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError:  # its import reports it
        return file.path_text
    if _SPAN_FIELD.search(head):
        return "spans"
    field = _SESSION_FIELD.search(head)
    return file.path_text if field is None else field[1].decode("utf-8", "replace")
