"""Errors of tools that leave unknown whether the effect happened: timeouts, lost connections and processes,
cancellations.

Drivers of databases report a connection that was lost during a commit as `OperationalError` or `InterfaceError`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

AmbiguousErrors = tuple[type[BaseException], ...] | Callable[[BaseException], bool]


_AMBIGUOUS_ERROR_NAMES = re.compile(
    r"Time(d)?out|Connect|Network|Transport|Disconnect|BrokenPipe|BrokenExecutor|IncompleteRead|EOFError|Protocol|"
    r"Unavailable|BadGateway|DeadlineExceeded|SSLError|OperationalError|InterfaceError"
)


def is_outcome_unknown(error: BaseException) -> bool:
    """Return whether an error leaves the effect of a tool unknown, by default: a timeout, a lost connection or worker
    process, a cancellation.

    Causes and groups of the error are checked too, and the errors of HTTP clients and databases are recognised by name.
    """
    return any(_is_ambiguous_error(link) for link in _collect_related_errors(error))


def _is_ambiguous_error(error: BaseException) -> bool:
    if isinstance(error, TimeoutError | ConnectionError | asyncio.CancelledError) or not isinstance(error, Exception):
        return True
    return any(_AMBIGUOUS_ERROR_NAMES.search(kind.__name__) for kind in type(error).__mro__[:-2])


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
