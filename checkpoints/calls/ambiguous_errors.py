"""Errors of tools that leave unknown whether the effect happened: timeouts, lost connections and processes,
cancellations.

Drivers of databases report a connection that was lost during a commit as `OperationalError` or `InterfaceError`. They
report some statements that had no effect in the same way; the code of the database tells these apart.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Callable

AmbiguousErrors = tuple[type[BaseException], ...] | Callable[[BaseException], bool]


_AMBIGUOUS_ERROR_NAMES = re.compile(
    r"Time(d)?out|Connect|Network|Transport|Disconnect|BrokenPipe|BrokenExecutor|IncompleteRead|EOFError|Protocol|"
    r"Unavailable|BadGateway|DeadlineExceeded|SSLError|OperationalError|InterfaceError"
)
#: Codes of statements without an effect. SQLite: a wrong statement, and a lock that another connection holds.
_SQLITE_CODES_WITHOUT_EFFECT = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
#: PostgreSQL: a transaction that was rolled back because of others or of a deadlock, and a lock that is not available.
_SQLSTATES_WITHOUT_EFFECT = frozenset({"40001", "40P01", "55P03"})


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether an error leaves it unknown whether the tool took effect: a timeout, a lost connection or worker
    process, a cancellation.

    A tool may have a rule of its own instead. Causes and groups of the error are checked too, and the errors of HTTP
    clients and databases are recognised by name.
    """
    return any(_is_ambiguous_error(link) for link in _collect_related_errors(error))


def _is_ambiguous_error(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | asyncio.CancelledError) or not isinstance(error, Exception):
        return True
    if any(_is_database_error_without_effect(each) for each in (error, error.__cause__)):
        return False
    return any(_AMBIGUOUS_ERROR_NAMES.search(kind.__name__) for kind in type(error).__mro__[:-2])


def _is_database_error_without_effect(error: BaseException | None) -> bool:
    """Return whether the error of a driver says that the database refused a statement or rolled it back."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code & 0xFF in _SQLITE_CODES_WITHOUT_EFFECT  # the other bits are details
    return getattr(error, "sqlstate", None) in _SQLSTATES_WITHOUT_EFFECT


def _collect_related_errors(error: BaseException) -> list[BaseException]:
    """Collect the error, its causes, and the members of groups among these."""
    errors: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is None or link in errors:
            continue
        errors.append(link)
        pending += [link.__cause__, None if link.__suppress_context__ else link.__context__]
        pending += link.exceptions if isinstance(link, BaseExceptionGroup) else ()
    return errors
