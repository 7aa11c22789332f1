"""Fault isolation of rows: one that cannot be read is replaced by a placeholder with its key.

If the row or another one of its session was altered, the session is put under quarantine, and the placeholder names it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from django.db import Error, models

from checkpoints.exceptions import IntegrityError
from checkpoints.integrity import quarantine

logger = logging.getLogger(__name__)

#: Messages of SQLite where a function of Django, which it calls in a statement, gets a value of another type, and where
#: bytes in the place of a text are no text.
_MISTYPED_VALUE_MESSAGES = ("user-defined function raised exception", "Could not decode to UTF-8")


def is_database_error_not_from_stored_value(error: Exception) -> bool:
    """Return whether an error is one of the database that no stored value causes."""
    return isinstance(error, Error) and not is_error_of_mistyped_value(error)


def is_error_of_mistyped_value(error: Exception) -> bool:
    """Return whether SQLite says that a value which it was to read has another type than its column."""
    return any(part in str(error) for part in _MISTYPED_VALUE_MESSAGES)


class Keyed(Protocol):
    @property
    def pk(self) -> Any: ...


Row = TypeVar("Row", bound=Keyed)
StoredRow = TypeVar("StoredRow", bound=models.Model)
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """Placeholder of a record that cannot be read or rendered: its kind ("call", "session") and its key.

    `quarantined_session` is the key of its session, if that is quarantined.
    """

    kind: str
    pk: Any
    quarantined_session: int | None = None


def load_rows_or_mark_unreadable(
    rows: models.QuerySet[StoredRow], kind: str, *, session_column: str
) -> list[StoredRow | UnreadableRecord]:
    """Load rows in their order. If that fails, each is read alone, and those that fail are replaced by placeholders.

    SQLite stores values that cannot be read as those of their columns. Other errors of the database are not caught.

    Args:
        rows: Rows to load.
        kind: Kind of the records.
        session_column: Name of the column with the key of the session of a row.
    """
    try:
        return list(rows)
    except Exception as error:
        if is_database_error_not_from_stored_value(error):
            raise
        pks = dict(rows.values_list("pk", session_column))
        keys = [rows.model(pk=pk) for pk in pks]
        alone = rows.all()
        alone.query.clear_limits()
        return convert_rows_or_mark_unreadable(keys, lambda row: alone.get(pk=row.pk), kind, lambda row: pks[row.pk])


def convert_rows_or_mark_unreadable(
    rows: Iterable[Row | UnreadableRecord],
    read: Callable[[Row], Read],
    kind: str,
    get_session_pk: Callable[[Row], int | None] = lambda row: None,
) -> list[Read | UnreadableRecord]:
    """Apply `read` to each row; a failed row is logged with its traceback and replaced by a placeholder.

    A placeholder among the rows is kept. Other errors of the database are not caught.

    Args:
        rows: Rows to convert.
        read: Conversion of a row.
        kind: Kind of the records.
        get_session_pk: Function that returns the key of the session of a row.
    """
    return [
        row
        if isinstance(row, UnreadableRecord)
        else _convert_row_or_mark_unreadable_and_quarantine(row, read, kind, get_session_pk)
        for row in rows
    ]


def _convert_row_or_mark_unreadable_and_quarantine(
    row: Row, read_row: Callable[[Row], Read], kind: str, get_session_pk: Callable[[Row], int | None]
) -> Read | UnreadableRecord:
    try:
        return read_row(row)
    except Exception as error:
        if is_database_error_not_from_stored_value(error):
            raise
        logger.exception("The %s %s cannot be read.", kind, row.pk)
        session_pk = get_session_pk(row)
        is_quarantined = session_pk is not None and _quarantine_session_if_altered(session_pk, error)
        return UnreadableRecord(kind, row.pk, session_pk if is_quarantined else None)


def _quarantine_session_if_altered(session_pk: int, error: Exception) -> bool:
    """Put the session of a row under quarantine if the row was altered. Returns whether it is quarantined now."""
    cause = error
    if not isinstance(error, IntegrityError):
        cause = quarantine.find_mistyped_value_error_of_session("default", session_pk, str(session_pk)) or error
    return (
        isinstance(cause, IntegrityError)
        and cause.is_alteration
        and quarantine.try_quarantine_session_if_altered(session_pk)
    )


def filter_out_unreadable_records(rows: Iterable[Read | UnreadableRecord]) -> list[Read]:
    """Return the rows that could be read."""
    return [row for row in rows if not isinstance(row, UnreadableRecord)]


def call_or_use_fallback(description: str, read: Callable[[], Read], fallback: Read) -> Read:
    """Return the result of `read`, or `fallback` if it fails, so that a page about one record displays the rest.

    The traceback is logged.
    """
    try:
        return read()
    except Exception as error:
        if is_database_error_not_from_stored_value(error):
            raise
        logger.exception("%s cannot be read.", description)
        return fallback
