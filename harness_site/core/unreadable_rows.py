"""Fault isolation of rows: one that cannot be read is replaced by a placeholder with its key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from django.db import Error

logger = logging.getLogger(__name__)


class Keyed(Protocol):
    @property
    def pk(self) -> Any: ...


Row = TypeVar("Row", bound=Keyed)
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """Placeholder of a record that cannot be read or rendered: its kind ("call", "session") and its key."""

    kind: str
    pk: Any


def convert_rows_or_mark_unreadable(
    rows: Iterable[Row | UnreadableRecord], read: Callable[[Row], Read], kind: str
) -> list[Read | UnreadableRecord]:
    """Apply `read` to each row; a failed row is logged with its traceback and replaced by a placeholder.

    A placeholder among the rows is kept. Database errors are not caught.
    """
    return [
        row if isinstance(row, UnreadableRecord) else _convert_row_or_mark_unreadable(row, read, kind) for row in rows
    ]


def _convert_row_or_mark_unreadable(row: Row, read_row: Callable[[Row], Read], kind: str) -> Read | UnreadableRecord:
    try:
        return read_row(row)
    except Error:
        raise
    except Exception:
        logger.exception("The %s %s cannot be read.", kind, row.pk)
        return UnreadableRecord(kind, row.pk)


def call_or_use_fallback(description: str, read: Callable[[], Read], fallback: Read) -> Read:
    """Return the result of `read`, or `fallback` if it fails, so that a page about one record displays the rest.

    The traceback is logged.
    """
    try:
        return read()
    except Error:
        raise
    except Exception:
        logger.exception("%s cannot be read.", description)
        return fallback
