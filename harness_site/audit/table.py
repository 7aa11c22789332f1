"""The audit trail as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

from checkpoints.queries.trail import Entry
from harness_site import wording
from harness_site.rendering.jsontree import dumped
from harness_site.rendering.text import visible

HEAD: Final = ("number", "time", "what", "kind", "who", "who_kind", "session", "details", "intact")
#: A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def lines(entries: Iterable[Entry]) -> Iterator[str]:
    """One line for each entry, after the head."""
    yield _line(HEAD)
    for entry in entries:
        yield _line(_cells(entry))


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        str(entry.number or ""),
        wording.iso(entry.at),
        entry.label,
        entry.kind,
        entry.actor,
        entry.actor_kind,
        entry.session_id,
        dumped(entry.details),
        "yes" if entry.intact else "NO",
    )


def _line(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow([_harmless(cell) for cell in cells])
    return buffer.getvalue()


def _harmless(cell: str) -> str:
    text = visible(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text
