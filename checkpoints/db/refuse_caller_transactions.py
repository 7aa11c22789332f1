"""Refuse to write inside a transaction of the caller, whose commit is not the library's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.exceptions import InsideTransaction


class _OperationTracker(threading.local):
    """Number of transaction.atomic() blocks that were open when the outermost operation on this thread began, by
    alias."""

    def __init__(self) -> None:
        self.outer_blocks: dict[str, int] = {}


_operations = _OperationTracker()


@contextmanager
def mark_library_transactions(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Distinguish the transaction.atomic() blocks that the library opens in this context from those of its caller."""
    if connection.alias in _operations.outer_blocks:
        yield
        return
    _operations.outer_blocks[connection.alias] = len(connection.atomic_blocks)
    try:
        yield
    finally:
        del _operations.outer_blocks[connection.alias]


def require_no_caller_transaction(connection: BaseDatabaseWrapper) -> None:
    """Refuse to write where the commit belongs to the caller.

    That is inside the caller's transaction.atomic() block, and with autocommit off. As with Django's `durable=True`,
    the blocks of its `TestCase` do not count. Raises `InsideTransaction`.
    """
    blocks = connection.atomic_blocks
    if blocks:
        outer = blocks[: _operations.outer_blocks.get(connection.alias, len(blocks))]
        if any(not getattr(block, "_from_testcase", False) for block in outer):
            raise InsideTransaction(connection.alias)
        commits = connection.commit_on_exit
    elif connection.connection is None:
        commits = connection.settings_dict["AUTOCOMMIT"]
    else:
        commits = connection.autocommit
    if not commits:
        raise InsideTransaction(connection.alias, "autocommit is off")
