"""CSV export of a session list."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import translation

from checkpoints.sessions.display_status import DisplayStatus
from harness_site.core import csv_rows, formatting
from harness_site.core.masking import mask_argument_secrets_throughout_session
from harness_site.core.masking.masker import use_masking_rules_with_extra_values
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord
from harness_site.search.models import Fact, Trait
from harness_site.sessions.selectors.session_rows import SessionRow
from harness_site.site_address import build_absolute_url

HEAD: Final = (
    "session",
    "title",
    "agent",
    "status",
    "calls_undecided",
    "version",
    "messages",
    "cost_usd",
    "tokens",
    "started",
    "updated",
    "ended",
    "host",
    "labels",
    "project",
    "branch",
    "model",
    "copied_cost_usd",
    "copied_tokens",
    "status_on_page",
    "page",
)

#: Traits of which a session may have several values, which one cell lists.
_TRAITS: Final = (Trait.PROJECT, Trait.BRANCH, Trait.MODEL)

#: Number of sessions whose secret values are loaded at once.
_SESSIONS_PER_BATCH: Final = 100


def generate_csv_lines(rows: Iterable[SessionRow | UnreadableRecord]) -> Iterator[str]:
    """Yield the header and one line for each session; the last line is marked."""
    return csv_rows.add_export_column_marking_last_row(_generate_lines(rows))


def _generate_lines(rows: Iterable[SessionRow | UnreadableRecord]) -> Iterator[str]:
    yield csv_rows.mask_and_format_csv_line(HEAD)
    remaining = iter(rows)
    while batch := list(islice(remaining, _SESSIONS_PER_BATCH)):
        pks = [row.pk for row in batch]
        secrets = mask_argument_secrets_throughout_session.load_known_secrets_of_sessions(pks)
        values = _load_values_by_session_and_trait(pks)
        for row in batch:
            with use_masking_rules_with_extra_values(secrets.get(row.pk, ())):
                yield csv_rows.mask_and_format_csv_line(
                    csv_rows.build_unreadable_row_cells(row, HEAD)
                    if isinstance(row, UnreadableRecord)
                    else _build_row_cells(row, values)
                )


def _load_values_by_session_and_trait(session_pks: list[int]) -> dict[tuple[int, str], list[str]]:
    """Load the values of these sessions that the search index knows, in one query."""
    values: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    facts: QuerySet[Any, Any] = Fact.objects.filter(session__in=session_pks, trait__in=_TRAITS).exclude(value="")
    for session, trait, value in facts.order_by("value").values_list("session", "trait", "value"):
        values[session, trait].append(value)
    return values


def _join_values(values: Iterable[str]) -> str:
    return "; ".join(values)


def _build_row_cells(row: SessionRow, values: Mapping[tuple[int, str], list[str]]) -> tuple[str, ...]:
    """Build the cells of a session; those of tokens, a cost or times that are unknown are empty.

    Cost and tokens are those of its own runs; what a fork has from its original is in cells of its own.

    A session that may go on has no end, although its last run has one.
    """
    ended_at = row.ended_at if row.is_finished_or_quarantined else None
    times = (row.created_at, row.updated_at, ended_at) if row.has_times else (None, None, None)
    return (
        row.session_id,
        row.title,
        row.agent,
        str(row.display_status),
        str(row.undecided),
        str(row.version),
        str(row.messages),
        "" if row.cost is None else str(row.cost),
        str(row.tokens or ""),
        *("" if time is None else formatting.format_iso_time(time) for time in times),
        row.owner.host if row.owner else "",
        _join_values(row.labels),
        *(_join_values(values.get((row.pk, trait), ())) for trait in _TRAITS),
        str(row.copied_cost) if row.copied_cost and row.cost is not None else "",
        str(row.copied_tokens or ""),
        _format_status(row),
        build_absolute_url(reverse("harness_sessions:session", args=(row.pk,))),
    )


def _format_status(row: SessionRow) -> str:
    """Return the words of the pages for a status, in English in each language; one of a newer version as it is."""
    with translation.override("en"):
        return str(dict(DisplayStatus.choices).get(row.display_status, row.display_status))
