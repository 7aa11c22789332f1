"""Pages of the audit trail. Consecutive entries that say the same are one row, and so are events of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Protocol, TypeGuard

from checkpoints.enums import ActorKind, AuditKind
from harness_site.audit.audit_trail_query import PAGE_VIEWS, RUN_EVENTS, AuditEntry, AuditFilter, iterate_entries
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
    AuditKind.VERIFY_REQUESTED: frozenset({"call_id", "step"}),
    AuditKind.VERSIONS_REMOVED: frozenset({"versions", "messages"}),
    AuditKind.SESSION_DELETED: frozenset({"session_id", "versions", "messages"}),
    AuditKind.SESSION_SEALED: frozenset({"rows"}),
}


class Routine(Enum):
    """Entries that a page may leave out: there are many, and nobody decided them."""

    PAGE_VIEW = auto()
    RUN_EVENT = auto()


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry, or consecutive ones that say the same of their sessions, newest first.

    `hidden` counts the entries that the page leaves out among them, and between them and the next row.
    """

    entries: tuple[AuditEntry | UnreadableRecord, ...]
    hidden: int = 0

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
    def has_gap(self) -> bool:
        """Whether there are entries between the newest and the oldest that are not in the row."""
        newest, oldest = self.newest, self.oldest
        if isinstance(newest, UnreadableRecord) or isinstance(oldest, UnreadableRecord):
            return False
        return None not in (newest.number, oldest.number) and (
            (newest.number or 0) - (oldest.number or 0) >= len(self.entries)
        )

    @property
    def run_event_counts_by_label(self) -> list[tuple[str, int]]:
        """Label and number of events of runs that do not say the same, the most frequent first; else empty."""
        if len({_get_fold_key(entry) for entry in self.entries}) == 1:
            return []
        labels = [
            entry.label
            for entry in self.entries
            if isinstance(entry, AuditEntry) and _classify_routine_entry(entry) is Routine.RUN_EVENT
        ]
        return Counter(labels).most_common() if len(labels) == len(self.entries) else []

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

    The page leaves out `hidden_views` page views and `hidden_runs` events of runs.
    """

    rows: tuple[EntryRow, ...]
    hidden_views: int
    hidden_runs: int
    before: int | None


@dataclass(slots=True)
class _OpenRow:
    """Row to which entries are still added."""

    entries: list[AuditEntry | UnreadableRecord]
    hidden: int = 0


@dataclass(slots=True)
class _OpenPage:
    rows: list[_OpenRow] = field(default_factory=list)
    hidden: Counter[Routine] = field(default_factory=Counter)

    def count_hidden_entry(self, routine: Routine) -> None:
        self.hidden[routine] += 1
        if self.rows:
            self.rows[-1].hidden += 1

    def build_audit_page(self, before: int | None) -> AuditPage:
        rows = tuple(EntryRow(tuple(row.entries), row.hidden) for row in self.rows)
        return AuditPage(rows, self.hidden[Routine.PAGE_VIEW], self.hidden[Routine.RUN_EVENT], before)


class EntrySearch(Protocol):
    """Search that ends before the end of the trail: then it can go on below the key `before`, None at the end."""

    before: int | None

    def iterate_entries(
        self, *, before: int | None, oldest: int, first_batch: int, limit: int
    ) -> Iterator[AuditEntry | UnreadableRecord]:
        """Iterate over the entries that are found, as `audit_trail_query.iterate_entries` does."""
        ...


def load_page_of_folded_entries(
    workspace_pk: int,
    wanted: AuditFilter,
    *,
    search: EntrySearch | None = None,
    before: int | None = None,
    oldest: int | None = None,
    hides: frozenset[Routine] = frozenset(),
    folds_runs: bool = True,
) -> AuditPage:
    """Load a page of `ROWS_PER_PAGE` rows at most, from at most `MAX_ENTRIES_PER_PAGE` entries.

    Args:
        workspace_pk: Key of the workspace.
        wanted: Filter that the entries match.
        search: Search that finds the entries for a filter with words.
        before: Only entries with a smaller key.
        oldest: Only entries with at least this key, each in a row of its own: the entries of one folded row.
        hides: What to leave out. Entries that are not intact are shown.
        folds_runs: Whether consecutive events of runs are one row, also if they do not say the same.
    """
    # One entry more than a page may have shows that there is another page.
    iterate = partial(iterate_entries, workspace_pk, wanted) if search is None else search.iterate_entries
    entries = iterate(before=before, oldest=oldest or 0, first_batch=_FIRST_BATCH, limit=MAX_ENTRIES_PER_PAGE + 1)
    get_key = _get_pk if oldest is not None else _get_fold_key_of_runs if folds_runs else _get_fold_key
    page = _OpenPage()
    rows, last_pk, key = page.rows, None, None
    for number, entry in enumerate(entries):
        routine = _classify_routine_entry(entry)
        is_hidden = routine in hides
        is_new_row = not is_hidden and get_key(entry) != key
        is_joined = (
            is_new_row
            and oldest is None
            and number < MAX_ENTRIES_PER_PAGE
            and _add_entry_to_last_row_if_same_decision(rows, entry)
        )
        if is_joined:
            key, last_pk = get_key(entry), entry.pk
            continue
        if number == MAX_ENTRIES_PER_PAGE or (is_new_row and len(rows) == ROWS_PER_PAGE):
            return page.build_audit_page(last_pk)
        if is_hidden and routine is not None:  # what is hidden does not separate the entries around it
            page.count_hidden_entry(routine)
        elif is_new_row:
            key = get_key(entry)
            rows.append(_OpenRow([entry]))
        else:
            rows[-1].entries.append(entry)
        last_pk = entry.pk
    return page.build_audit_page(None if search is None else search.before)


def _add_entry_to_last_row_if_same_decision(rows: list[_OpenRow], entry: AuditEntry | UnreadableRecord) -> bool:
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
    continued = rows.pop() if rows and _has_only_session_ready_entry(rows[-1], entry) else None
    if rows and _is_same_decision(rows[-1].entries[-1], entry) and not _has_decision_about_same_call(rows[-1], entry):
        if (
            len(rows[-1].entries) == 1
            and len(rows) > 1
            and _has_only_session_ready_entry(rows[-2], rows[-1].entries[0])
        ):
            decided = rows.pop()
            _merge_older_row(rows[-1], decided)
        if continued is not None:
            _merge_older_row(rows[-1], continued)
        rows[-1].entries.append(entry)
        return True
    if continued is not None:
        rows.append(continued)
    return False


def _merge_older_row(row: _OpenRow, older: _OpenRow) -> None:
    row.entries += older.entries
    row.hidden += older.hidden


def _is_intact_decision(entry: AuditEntry | UnreadableRecord) -> TypeGuard[AuditEntry]:
    return (
        isinstance(entry, AuditEntry)
        and entry.intact
        and entry.kind == AuditKind.DECIDED
        and isinstance(entry.details.get("decision"), str)
    )


def _has_only_session_ready_entry(row: _OpenRow, decision: AuditEntry | UnreadableRecord) -> bool:
    """Return whether a row only says that the session of a decision can continue."""
    entry = row.entries[0]
    return (
        len(row.entries) == 1
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


def _has_decision_about_same_call(row: _OpenRow, entry: AuditEntry) -> bool:
    """Return whether a row has a decision about the call of an entry: it counts each decision as another call."""
    call = _get_names_of_call(entry)
    return any(_is_intact_decision(other) and _get_names_of_call(other) == call for other in row.entries)


def _get_names_of_call(entry: AuditEntry) -> tuple[Any, ...]:
    return entry.session_pk, *(entry.details.get(name) for name in ("call_id", "step", "attempt"))


def _classify_routine_entry(entry: AuditEntry | UnreadableRecord) -> Routine | None:
    """Find as what an entry may be left out; None for an entry that is always shown."""
    if isinstance(entry, UnreadableRecord) or not entry.intact:
        return None
    if entry.kind in PAGE_VIEWS:
        return Routine.PAGE_VIEW
    is_run_event = entry.kind in RUN_EVENTS and entry.actor_kind == ActorKind.MACHINE
    return Routine.RUN_EVENT if is_run_event else None


def _get_pk(entry: AuditEntry | UnreadableRecord) -> Any:
    return entry.pk


def _get_fold_key_of_runs(entry: AuditEntry | UnreadableRecord) -> tuple[Any, ...]:
    """Return what entries of one row have in common, where all events of runs are one row."""
    routine = _classify_routine_entry(entry)
    return (routine,) if routine is Routine.RUN_EVENT else _get_fold_key(entry)


def _get_fold_key(entry: AuditEntry | UnreadableRecord) -> tuple[Any, ...]:
    """Return what entries of one row have in common.

    Entries that are not intact have a row of their own, and so do decisions, which share one by other rules.
    """
    if isinstance(entry, UnreadableRecord) or not entry.intact or _is_intact_decision(entry):
        return (entry.pk,)
    if entry.kind == AuditKind.SESSION_IMPORTED:
        is_from_file = entry.details.get("format") is not None
        return entry.kind, entry.actor, entry.actor_kind, is_from_file, entry.details.get("prices")
    differing = _DETAILS_OF_ONE_SESSION.get(entry.kind, frozenset())
    common = (repr(item) for item in entry.details.items() if item[0] not in differing)
    return entry.kind, entry.actor, entry.actor_kind, tuple(sorted(common))
