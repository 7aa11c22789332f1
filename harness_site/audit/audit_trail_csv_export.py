"""CSV export of the audit trail."""

from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from itertools import islice
from typing import Final

from django.urls import reverse
from django.utils import translation
from django.utils.html import strip_tags

from harness_site.accounts.models import Invitation
from harness_site.audit.audit_trail_query import AuditEntry
from harness_site.audit.calls_of_audit_entries import AuditedCall, load_calls_of_unfolded_entries
from harness_site.audit.event_sentences import build_entry_sentence, format_decision_label
from harness_site.audit.folded_entry_pages import EntryRow
from harness_site.audit.invitations_of_audit_entries import load_invitations_of_entries
from harness_site.core import csv_rows, formatting
from harness_site.core.rendering.json_tree import mask_and_dump_json
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.site_address import build_absolute_url

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
    "sentence",
    "decision",
    "reason",
    "tool",
    "what_it_does",
    "page",
)
#: Number of entries whose calls are loaded at once.
_ENTRIES_PER_BATCH: Final = 200


def generate_csv_lines(workspace_pk: int, entries: Iterable[AuditEntry | UnreadableRecord]) -> Iterator[str]:
    """Yield the header and one line for each entry; the last line is marked."""
    return csv_rows.add_export_column_marking_last_row(_generate_lines(workspace_pk, entries))


def _generate_lines(workspace_pk: int, entries: Iterable[AuditEntry | UnreadableRecord]) -> Iterator[str]:
    yield csv_rows.mask_and_format_csv_line(HEAD)
    remaining = iter(entries)
    while batch := list(islice(remaining, _ENTRIES_PER_BATCH)):
        with translation.override("en"):
            lines = _format_lines_of_batch(workspace_pk, batch)
        yield from lines


def _format_lines_of_batch(workspace_pk: int, entries: Iterable[AuditEntry | UnreadableRecord]) -> list[str]:
    rows = [EntryRow((entry,)) for entry in entries]
    calls = load_calls_of_unfolded_entries(workspace_pk, rows)
    invitations = load_invitations_of_entries(workspace_pk, rows)
    return [
        csv_rows.mask_and_format_csv_line(
            csv_rows.build_unreadable_row_cells(row.newest, HEAD)
            if isinstance(row.newest, UnreadableRecord)
            else _build_entry_cells(row.newest, calls, invitations)
        )
        for row in rows
    ]


def _build_entry_cells(
    entry: AuditEntry, calls: Mapping[int, AuditedCall], invitations: Mapping[int, Invitation]
) -> tuple[str, ...]:
    """Build the cells of an entry. They are English in every language of the reader, as programs read them.

    The sentence, what the call does and the reason are those of the page, masked. Cells are empty where an entry is
    about no decision, call or session, or about one that is gone.
    """
    call = calls.get(entry.pk)
    tool = entry.details.get("tool") if call is None else call.tool
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
        unescape(strip_tags(build_entry_sentence(entry, call, invitations.get(entry.pk)))),
        format_decision_label(entry, call),
        "" if call is None or call.own is None else call.own.text,
        tool if isinstance(tool, str) else "",
        "" if call is None else call.sentence,
        _build_page_address(entry, call),
    )


def _build_page_address(entry: AuditEntry, call: AuditedCall | None) -> str:
    """Build the address of the page of the call, else of the session; empty without one."""
    if call is not None:
        return build_absolute_url(reverse("harness_sessions:session-call", args=(call.session_pk, call.pk)))
    if entry.session_pk is not None:
        return build_absolute_url(reverse("harness_sessions:session", args=(entry.session_pk,)))
    return ""


def _format_match(matches: bool | None) -> str:
    """Say whether an entry matches; empty if there is nothing to compare it with."""
    if matches is None:
        return ""
    return "yes" if matches else "NO"
