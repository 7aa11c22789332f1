"""One row that cannot be read takes no list with it: it stands in its place, with its key."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from django.db import Error

logger = logging.getLogger(__name__)


class Keyed(Protocol):
    pk: Any


Row = TypeVar("Row", bound=Keyed)
Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """What stands for a record that cannot be read or shown: what it is ("call", "session") and its key."""

    kind: str
    pk: Any


def read_each(rows: Iterable[Row], read: Callable[[Row], Read], kind: str) -> list[Read | UnreadableRecord]:
    """What `read` makes of each row. Where it fails, the log has the traceback and the list the key of the row. A
    database that fails is not the fault of a row."""
    return [_read(row, read, kind) for row in rows]


def _read(row: Row, read: Callable[[Row], Read], kind: str) -> Read | UnreadableRecord:
    try:
        return read(row)
    except Error:
        raise
    except Exception:
        logger.exception("The %s %s cannot be read.", kind, row.pk)
        return UnreadableRecord(kind, row.pk)


def read_part(what: str, read: Callable[[], Read], otherwise: Read) -> Read:
    """What `read` returns; `otherwise` where it fails, with the traceback in the log, so that a page about one record
    shows the rest of what is known."""
    try:
        return read()
    except Error:
        raise
    except Exception:
        logger.exception("%s cannot be read.", what)
        return otherwise
