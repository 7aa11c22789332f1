"""Calls of all sessions of a workspace, newest first.

Filters apply to the newest `LOOKED_AT` calls of the chosen time, so that the cost of a page is bounded. The page says
how far back that reaches and continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Final

from django.db.models import F, QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import Cursor
from checkpoints.models import Session, ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from harness_site.core.number_parameters import parse_whole_number_or_none
from harness_site.core.time_range_parameters import TimeRange
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, load_rows_or_mark_unreadable
from harness_site.search.hourly_call_and_decision_sums import COUNTED_INTERRUPTIONS, FINISHED_CALLS
from harness_site.search.passage_search import FoundCalls
from harness_site.sessions.selectors import call_records, calls_of_original_after_fork
from harness_site.sessions.selectors.call_records import CallFilter, CallRecord

LOOKED_AT = 10_000
PAGE = 30
#: Maximum number of matching calls that are counted.
COUNTED: Final = 1_000
#: Number of calls that an export loads at once.
_EXPORTED_AT_ONCE: Final = 200
#: Order of the list, which is that of an index.
NEWEST_FIRST: Final = ("-issued_at", "-pk")


@dataclass(frozen=True, slots=True)
class CallLogFilter:
    """Filters of the call list: `calls` as for one session; `agent` is an exact name; `times` are of the calls.

    Calls of sessions without times are in no time: they have that of their import.

    `session` is the id of a session, and `session_pk` its key, None if there is no such session. With a session,
    `with_copied` selects also the calls that a fork has copied; without a status also those that have not happened in
    the fork, because its original made them after the forked version.

    `interrupted` selects the calls that were interrupted, whatever has become of them since, and `finished` those that
    the overview counts as finished. `words` are those of a
    search, and `found` is what it has found; None without words.
    """

    calls: CallFilter = field(default_factory=CallFilter)
    agent: str = ""
    times: TimeRange = field(default_factory=TimeRange)
    interrupted: bool = False
    finished: bool = False
    words: str = ""
    found: FoundCalls | None = None
    session: str = ""
    session_pk: int | None = None
    with_copied: bool = False

    def __bool__(self) -> bool:
        return bool(self.has_filters_besides_times or self.times)

    @property
    def has_filters_besides_times(self) -> bool:
        """Return whether there is a filter besides the times."""
        return bool(self.agent or self.has_filters_ignored_by_rates)

    @property
    def has_filters_ignored_by_rates(self) -> bool:
        """Return whether there is a filter that the rates of the tools do not apply: they apply agent and times."""
        return bool(self.calls or self.interrupted or self.finished or self.session or self.found is not None)


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call with what its session is called. Without `has_times`, its times are those of an import."""

    record: CallRecord
    session_pk: int
    session_name: str
    session_id: str
    agent: str
    has_times: bool

    @property
    def pk(self) -> int:
        return self.record.pk


@dataclass(frozen=True, slots=True)
class CallLogPage:
    """A page of calls. `after` is the cursor of the next page. A call that was altered is a placeholder.

    If more calls may match than were examined, `oldest_examined` is the last of them, and `reach` its time on the last
    page of those that match.

    `total` is the number of examined calls that match the filters, on the first page of them, if a filter does not
    apply to the rates, whose report has it otherwise. It ends at `COUNTED`: `has_more_than_total` says that more were
    examined and match. `is_total_of_newest` says that older ones were not examined.
    """

    rows: tuple[LoggedCall | UnreadableRecord, ...]
    after: Cursor | None
    reach: datetime | None
    total: int | None = None
    has_more_than_total: bool = False
    is_total_of_newest: bool = False
    oldest_examined: ToolCall | None = None


def load_call_log_page(
    workspace_pk: int, wanted: CallLogFilter, *, after: Cursor | None = None, size: int = PAGE
) -> CallLogPage:
    calls = _filter_calls_by_session_or_workspace_and_times(workspace_pk, wanted)
    if after is not None:
        calls = calls.filter(keyset_pagination.build_before_cursor_condition(after, "issued_at"))
    end = find_oldest_examined_call_if_more(calls) if wanted else None
    matches = _filter_matches(leave_out_calls_before_oldest(calls, end), wanted)
    call_rows = list(matches.only("pk")[: size + 1])
    rows = _load_logged_calls([call_row.pk for call_row in call_rows[:size]])
    total = _count_matches(matches, call_rows, size) if wanted.has_filters_ignored_by_rates and after is None else None
    is_last = len(call_rows) <= size
    return CallLogPage(
        rows,
        (None if end is None else _build_cursor(end)) if is_last else _build_cursor(call_rows[size - 1]),
        end.issued_at if is_last and end is not None else None,
        None if total is None else min(total, COUNTED),
        has_more_than_total=total is not None and total > COUNTED,
        is_total_of_newest=total is not None and end is not None,
        oldest_examined=end,
    )


def _filter_matches(calls: QuerySet[ToolCall], wanted: CallLogFilter) -> QuerySet[ToolCall]:
    """Filter the examined calls, whose session and times match already."""
    matches = wanted.calls.filter_calls(calls)
    if wanted.agent:
        matches = filter_calls_by_agent(matches, wanted)
    if wanted.interrupted:
        matches = matches.filter(COUNTED_INTERRUPTIONS)
    if wanted.finished:
        matches = matches.filter(FINISHED_CALLS)
    if wanted.found is not None:
        matches = matches.filter(pk__in=wanted.found.pks)
    return leave_out_calls_without_times(matches, wanted)


def leave_out_calls_without_times(calls: QuerySet[Any, Any], wanted: CallLogFilter) -> QuerySet[Any, Any]:
    """Leave out the calls of sessions without times if a time is chosen."""
    return calls.filter(session__has_times=True) if wanted.times else calls


def count_newest_calls_without_times(workspace_pk: int, wanted: CallLogFilter) -> int:
    """Count the calls of sessions without times that match all filters but the times, among the newest calls.

    The count ends at `COUNTED`. It is 0 for a search, which has found calls of the chosen time only.
    """
    if wanted.found is not None:
        return 0
    wanted = replace(wanted, times=TimeRange())
    calls = _filter_calls_by_session_or_workspace_and_times(workspace_pk, wanted)
    examined = leave_out_calls_before_oldest(calls, find_oldest_examined_call_if_more(calls))
    return _filter_matches(examined, wanted).filter(session__has_times=False).order_by()[:COUNTED].count()


def _count_matches(matches: QuerySet[ToolCall], found: Sequence[ToolCall], size: int) -> int:
    """Count the matches up to one more than `COUNTED`; without a query if the first page holds all of them."""
    return len(found) if len(found) <= size else matches.order_by()[: COUNTED + 1].count()


def iterate_call_log_pages(
    workspace_pk: int, wanted: CallLogFilter
) -> Iterator[tuple[LoggedCall | UnreadableRecord, ...]]:
    """Iterate over all calls that match, the newest first, however far back the filters have to look."""
    after: Cursor | None = None
    while True:
        page = load_call_log_page(workspace_pk, wanted, after=after, size=_EXPORTED_AT_ONCE)
        yield page.rows
        if page.after is None:
            return
        after = page.after


def find_session_pk_by_id_or_number(workspace_pk: int, session_id: str) -> int | None:
    """Find the session with an id; if there is none, the one with that number in addresses."""
    sessions = Session.objects.filter(workspace=workspace_pk)
    pk = sessions.filter(session_id=session_id.replace("\0", "")).values_list("pk", flat=True).first()
    number = parse_whole_number_or_none(session_id)
    if pk is not None or number is None:
        return pk
    return sessions.filter(pk=number).values_list("pk", flat=True).first()


def _filter_calls_by_session_or_workspace_and_times(workspace_pk: int, wanted: CallLogFilter) -> QuerySet[ToolCall]:
    """Filter the calls of the chosen session, or of all sessions of the workspace, by time.

    Those of a session are found by its key alone: with the workspace, a database may read the calls of all sessions
    in the order of time until it has found enough of this one.
    """
    if not wanted.session:
        return filter_calls_by_workspace_and_times(select_calls_newest_first(), workspace_pk, wanted.times)
    if wanted.session_pk is None:
        return ToolCall.objects.none()
    calls = _select_calls_and_copies_newest_first() if wanted.with_copied else select_calls_newest_first()
    if wanted.with_copied and wanted.calls.status:
        calls = calls.filter(~calls_of_original_after_fork.build_condition_of_calls_after_fork(wanted.session_pk))
    return _filter_calls_by_times(calls.filter(session=wanted.session_pk), wanted.times)


def filter_calls_by_agent(calls: QuerySet[ToolCall], wanted: CallLogFilter) -> QuerySet[ToolCall]:
    return calls.filter(session__agent=wanted.agent.replace("\0", ""))


@cache
def select_calls_newest_first() -> QuerySet[ToolCall]:
    return _select_calls_and_copies_newest_first().filter(~COPIED_CALLS)


@cache
def _select_calls_and_copies_newest_first() -> QuerySet[ToolCall]:
    calls = ToolCall.objects.order_by(*NEWEST_FIRST)
    return calls.annotate(stored_time=keyset_pagination.cast_field_to_text("issued_at"))


def filter_calls_by_workspace_and_times(
    calls: QuerySet[Any, Any], workspace: int, times: TimeRange
) -> QuerySet[Any, Any]:
    return _filter_calls_by_times(calls.filter(workspace=workspace), times)


def _filter_calls_by_times(calls: QuerySet[Any, Any], times: TimeRange) -> QuerySet[Any, Any]:
    if times.since is not None:
        calls = calls.filter(issued_at__gte=times.since)
    return calls if times.until is None else calls.filter(issued_at__lt=times.until)


def leave_out_calls_before_oldest(calls: QuerySet[ToolCall], oldest: ToolCall | None) -> QuerySet[ToolCall]:
    """Leave out the calls before the oldest one, if there is one."""
    if oldest is None:
        return calls
    return calls.filter(issued_at__gte=oldest.issued_at).exclude(issued_at=oldest.issued_at, pk__lt=oldest.pk)


def find_oldest_examined_call_if_more(calls: QuerySet[ToolCall]) -> ToolCall | None:
    """Return the last call of the `LOOKED_AT` newest ones; None if there are no more.

    The columns are selected by key, because PostgreSQL would convert the times of all calls before it to text.
    """
    pks = calls.order_by(*NEWEST_FIRST).values("pk")[LOOKED_AT - 1 : LOOKED_AT + 1]
    last = list(_select_calls_and_copies_newest_first().filter(pk__in=pks).only("pk", "issued_at"))
    return last[0] if len(last) > 1 else None


def _build_cursor(call: ToolCall) -> Cursor:
    return Cursor(str(call.stored_time), call.pk)  # type: ignore[attr-defined]


def _load_logged_calls(pks: list[int]) -> tuple[LoggedCall | UnreadableRecord, ...]:
    if not pks:
        return ()
    rows = load_rows_or_mark_unreadable(_query_calls_with_session_names(pks), "call", session_column="session_id")
    records = call_records.build_calls_with_decisions_or_mark_unreadable(rows)
    calls = {row.pk: _build_logged_call(row, record) for row, record in zip(rows, records, strict=True)}
    return tuple(calls[pk] for pk in pks if pk in calls)


def _build_logged_call(
    row: ToolCall | UnreadableRecord, record: CallRecord | UnreadableRecord
) -> LoggedCall | UnreadableRecord:
    if isinstance(row, UnreadableRecord) or isinstance(record, UnreadableRecord):
        return record  # type: ignore[return-value]  # of a row that cannot be read, a placeholder
    title, name, agent = row.session_title, row.session_name, row.session_agent  # type: ignore[attr-defined]
    has_times: bool = row.session_has_times  # type: ignore[attr-defined]
    return LoggedCall(record, row.session_id, title or name, name, agent, has_times)


def _query_calls_with_session_names(pks: list[int]) -> QuerySet[ToolCall]:
    calls = call_records.select_call_records_without_results().filter(pk__in=pks)
    return calls.annotate(
        session_title=F("session__title"),
        session_name=F("session__session_id"),
        session_agent=F("session__agent"),
        session_has_times=F("session__has_times"),
    )
