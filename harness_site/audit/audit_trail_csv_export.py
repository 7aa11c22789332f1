"""CSV export of the audit trail."""

from collections.abc import Iterable, Iterator
from typing import Final

from django.utils import translation

from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.core import csv_rows, formatting
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord

HEAD: Final = (
    "number",
    "time",
    "what",
    "kind",
    "who",
    "who_kind",
    "session",
    "details",
    "matches_chain",
    "matches_seal",
)


def generate_csv_lines(entries: Iterable[AuditEntry | UnreadableRecord]) -> Iterator[str]:
    """Yield the header and one line for each entry; the last line is marked."""
    return csv_rows.add_export_column_marking_last_row(_generate_lines(entries))


def _generate_lines(entries: Iterable[AuditEntry | UnreadableRecord]) -> Iterator[str]:
    yield csv_rows.mask_and_format_csv_line(HEAD)
    for entry in entries:
        with translation.override("en"):
            cells = (
                csv_rows.build_unreadable_row_cells(entry, HEAD)
                if isinstance(entry, UnreadableRecord)
                else _build_entry_cells(entry)
            )
        yield csv_rows.mask_and_format_csv_line(cells)


def _build_entry_cells(entry: AuditEntry) -> tuple[str, ...]:
    """Build the cells of an entry. They are English in every language of the reader, as programs read them."""
    return (
        str(entry.number or ""),
        formatting.format_iso_time(entry.at),
        entry.label,
        entry.kind,
        entry.actor,
        entry.actor_kind,
        entry.session_id,
        mask_and_dump_json(entry.details),
        _format_match(entry.matches_chain),
        _format_match(entry.matches_seal),
    )


def _format_match(matches: bool | None) -> str:
    """Say whether an entry matches; empty if there is nothing to compare it with."""
    if matches is None:
        return ""
    return "yes" if matches else "NO"
