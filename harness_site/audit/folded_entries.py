"""Pages of the audit trail on which consecutive entries that say the same are one row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeGuard

from checkpoints.enums import AuditKind
from harness_site.audit.audit_trail_query import PAGE_VIEWS, AuditEntry, AuditFilter, iterate_entries
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord

#: Largest number of rows of a page.
ROWS_PER_PAGE: Final = 40
#: Largest number of entries that are read for one page, however few rows they fold into.
MAX_ENTRIES_PER_PAGE: Final = 400
#: Number of entries that are read first; most pages need no more.
_FIRST_BATCH: Final = 2 * ROWS_PER_PAGE
#: Time between two decisions of one row: those about several calls at once are recorded one after the other.
_TIME_BETWEEN_DECISIONS: Final = timedelta(seconds=5)
#: Kind → the details in which entries of one row may differ, because they are facts of one session.
_DETAILS_OF_ONE_SESSION: Final[dict[str, frozenset[str]]] = {
    AuditKind.SESSION_FORKED: frozenset({"other"}),
    AuditKind.RUN_STARTED: frozenset({"pid"}),
    AuditKind.RUN_LOST: frozenset({"last_seen"}),
    AuditKind.RUN_RELEASED: frozenset({"idle_seconds"}),
    AuditKind.CALL_INTERRUPTED: frozenset({"call_id", "step", "attempt"}),
    AuditKind.CALL_DISCARDED: frozenset({"call_id"}),
    AuditKind.VERSIONS_REMOVED: frozenset({"versions", "messages"}),
    AuditKind.SESSION_DELETED: frozenset({"session_id", "versions", "messages"}),
    AuditKind.SESSION_SEALED: frozenset({"rows"}),
}


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry, or consecutive ones that say the same of their sessions, newest first."""

    entries: tuple[AuditEntry | UnreadableRecord, ...]

    @property
    def newest(self) -> AuditEntry | UnreadableRecord:
        return self.entries[0]

    @property
    def oldest(self) -> AuditEntry | UnreadableRecord:
        return self.entries[-1]

    @property
    def cursor_before_newest(self) -> int:
        """Key before which the row begins."""
        return int(self.newest.pk) + 1

    @property
    def is_folded(self) -> bool:
        return len(self.entries) > 1

    @property
    def decisions(self) -> tuple[AuditEntry, ...]:
        """The decisions among the entries, newest first."""
        return tuple(entry for entry in self.entries if _is_intact_decision(entry))

    @property
    def actor_kind(self) -> str:
        """Kind of the actor, who took the decisions if there are any."""
        entry = next(iter(self.decisions), self.newest)
        return entry.actor_kind if isinstance(entry, AuditEntry) else ""

    @property
    def spans_at_least_a_minute(self) -> bool:
        """Whether the oldest entry is much older than the newest one."""
        newest, oldest = self.newest, self.oldest
        if isinstance(newest, UnreadableRecord) or isinstance(oldest, UnreadableRecord):
            return False
        return newest.at - oldest.at >= timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Rows of a page, newest first. `before` is the key before which the next page starts; None on the last page.

    `hidden` counts the page views that the page leaves out.
    """

    rows: tuple[EntryRow, ...]
    hidden: int
    before: int | None


def load_page_of_folded_entries(
    workspace_pk: int,
    wanted: AuditFilter,
    *,
    before: int | None = None,
    oldest: int | None = None,
    hides_page_views: bool = False,
) -> AuditPage:
    """Load a page of `ROWS_PER_PAGE` rows at most, from at most `MAX_ENTRIES_PER_PAGE` entries.

    Args:
        workspace_pk: Key of the workspace.
        wanted: Filter that the entries match.
        before: Only entries with a smaller key.
        oldest: Only entries with at least this key, each in a row of its own: the entries of one folded row.
        hides_page_views: Whether to leave out what readers saw. Entries that are not intact are shown.
    """
    # One entry more than a page may have shows that there is another page.
    entries = iterate_entries(
        workspace_pk,
        wanted,
        before=before,
        oldest=oldest or 0,
        first_batch=_FIRST_BATCH,
        limit=MAX_ENTRIES_PER_PAGE + 1,
    )
    get_key = _get_fold_key if oldest is None else _get_pk
    rows: list[list[AuditEntry | UnreadableRecord]] = []
    hidden, last_pk, key = 0, None, None
    for number, entry in enumerate(entries):
        is_hidden = hides_page_views and _is_intact_page_view(entry)
        is_new_row = not is_hidden and get_key(entry) != key
        is_joined = is_new_row and oldest is None and number < MAX_ENTRIES_PER_PAGE and _join_same_decision(rows, entry)
        if is_joined:
            key, last_pk = get_key(entry), entry.pk
            continue
        if number == MAX_ENTRIES_PER_PAGE or (is_new_row and len(rows) == ROWS_PER_PAGE):
            return _build_page(rows, hidden, last_pk)
        if is_hidden:  # what is hidden does not separate the entries around it
            hidden += 1
        elif is_new_row:
            key = get_key(entry)
            rows.append([entry])
        else:
            rows[-1].append(entry)
        last_pk = entry.pk
    return _build_page(rows, hidden, None)


def _join_same_decision(rows: list[list[AuditEntry | UnreadableRecord]], entry: AuditEntry | UnreadableRecord) -> bool:
    """Add an entry to the last row if both are decisions that somebody took about several calls at once.

    After each of them, the trail may say that its session can continue; such an entry has become a row already, and
    moves into the row of the decisions.

    Args:
        rows: Rows of the page so far.
        entry: The next older entry.

    Returns:
        Whether the entry is in the last row now.
    """
    if not _is_intact_decision(entry):
        return False
    continued = rows.pop() if rows and _is_continuation_of(rows[-1], entry) else []
    if rows and _is_same_decision(rows[-1][-1], entry):
        if len(rows[-1]) == 1 and len(rows) > 1 and _is_continuation_of(rows[-2], rows[-1][0]):
            rows[-2:] = [rows[-2] + rows[-1]]
        rows[-1] += [*continued, entry]
        return True
    if continued:
        rows.append(continued)
    return False


def _is_intact_decision(entry: AuditEntry | UnreadableRecord) -> TypeGuard[AuditEntry]:
    return (
        isinstance(entry, AuditEntry)
        and entry.intact
        and entry.kind == AuditKind.DECIDED
        and isinstance(entry.details.get("decision"), str)
    )


def _is_continuation_of(row: list[AuditEntry | UnreadableRecord], decision: AuditEntry | UnreadableRecord) -> bool:
    """Return whether a row only says that the session of a decision can continue."""
    entry = row[0]
    return (
        len(row) == 1
        and isinstance(entry, AuditEntry)
        and isinstance(decision, AuditEntry)
        and entry.intact
        and entry.kind == AuditKind.SESSION_READY
        and entry.session_pk == decision.session_pk
    )


def _is_same_decision(newer: AuditEntry | UnreadableRecord, entry: AuditEntry) -> bool:
    return (
        _is_intact_decision(newer)
        and (newer.actor, newer.actor_kind) == (entry.actor, entry.actor_kind)
        and all(newer.details.get(name) == entry.details.get(name) for name in ("decision", "args_restored"))
        and newer.at - entry.at < _TIME_BETWEEN_DECISIONS
    )


def _build_page(rows: Iterable[Iterable[AuditEntry | UnreadableRecord]], hidden: int, before: int | None) -> AuditPage:
    return AuditPage(tuple(EntryRow(tuple(entries)) for entries in rows), hidden, before)


def _is_intact_page_view(entry: AuditEntry | UnreadableRecord) -> bool:
    return isinstance(entry, AuditEntry) and entry.intact and entry.kind in PAGE_VIEWS


def _get_pk(entry: AuditEntry | UnreadableRecord) -> Any:
    return entry.pk


def _get_fold_key(entry: AuditEntry | UnreadableRecord) -> tuple[Any, ...]:
    """Return what entries of one row have in common; entries that are not intact have a row of their own."""
    if isinstance(entry, UnreadableRecord) or not entry.intact:
        return (entry.pk,)
    if entry.kind == AuditKind.SESSION_IMPORTED:
        is_from_file = entry.details.get("format") is not None
        return entry.kind, entry.actor, entry.actor_kind, is_from_file, entry.details.get("prices")
    differing = _DETAILS_OF_ONE_SESSION.get(entry.kind, frozenset())
    common = (repr(item) for item in entry.details.items() if item[0] not in differing)
    return entry.kind, entry.actor, entry.actor_kind, tuple(sorted(common))
