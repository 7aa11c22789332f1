"""Functions for child processes that import transcripts: killed ones and concurrent ones."""

from __future__ import annotations

from itertools import count
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.importers.import_errors import ImportOvertaken
from tests.support.processes import die, heed, say


def import_and_die(url: str, path: str, statement: int) -> str:
    """Import, and die before the given statement; return "over" if the import has fewer statements."""
    from django.db import connections

    checkpointer = SyncCheckpointer.open(url)
    numbers = count(1)

    def counted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if next(numbers) == statement:
            die()
        return execute(sql, params, many, context)

    with connections[checkpointer.store.using].execute_wrapper(counted):
        import_transcripts(checkpointer, path)
    return "over"


def import_at_once(url: str, path: str) -> str:
    """Import a file when the parent says so."""
    checkpointer = SyncCheckpointer.open(url)
    say("ready")
    heed()
    while True:
        try:
            import_transcripts(checkpointer, path)
        except ImportOvertaken:
            continue
        return "done"
