"""The audit trail as CSV."""

from collections.abc import Iterable, Iterator
from typing import Final

from checkpoints.queries.trail import Entry
from checkpoints.queries.unreadable import UnreadableRecord
from harness_site import wording
from harness_site.rendering import csv
from harness_site.rendering.jsontree import dumped

HEAD: Final = ("number", "time", "what", "kind", "who", "who_kind", "session", "details", "intact")


def lines(entries: Iterable[Entry | UnreadableRecord]) -> Iterator[str]:
    """One line for each entry, after the head."""
    yield csv.line(HEAD)
    for entry in entries:
        yield csv.line(csv.unreadable(entry, HEAD) if isinstance(entry, UnreadableRecord) else _cells(entry))
    yield csv.line([csv.COMPLETE])


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
