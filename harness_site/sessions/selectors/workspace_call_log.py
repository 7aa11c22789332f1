"""Calls of all sessions of a workspace, newest first, and success rates of its tools.

Filters apply to the newest `LOOKED_AT` calls of the chosen time, so that the cost of a page is bounded. The page says
how far back that reaches and continues from there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from math import ceil
from operator import attrgetter
from statistics import median
from typing import Any, Final, NamedTuple

from django.db.models import Case, F, Q, QuerySet, When

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import Cursor
from checkpoints.enums import IMPORTED_MARK, OPEN_CALL_STATUSES, CallStatus
from checkpoints.models import ToolCall
from checkpoints.models.tool_call import COPIED_CALLS, IS_QUESTION, is_failed_command
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime
from harness_site.core.time_range_parameters import TimeRange
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, load_rows_or_mark_unreadable
from harness_site.search.call_and_decision_sums import ANSWERED_CALLS, COUNTED_INTERRUPTIONS
from harness_site.search.passage_search import FoundCalls
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallFilter, CallRecord

LOOKED_AT = 10_000
#: Number of the newest calls that the rates are computed from.
RATED = 2_000
PAGE = 30
#: Maximum number of matching calls that are counted.
COUNTED: Final = 1_000
#: Maximum number of tools listed with their rates.
_TOOLS = 100
#: Number of calls that an export loads at once.
_EXPORTED_AT_ONCE: Final = 200
_IS_QUESTION: Final = Case(When(IS_QUESTION, then=True), default=False)
_IS_ANSWERED: Final = Case(When(ANSWERED_CALLS, then=True), default=False)
_IS_INTERRUPTED: Final = Case(When(COUNTED_INTERRUPTIONS, then=True), default=False)
_IS_TIMED: Final = Case(
    When(
        # A transcript may give one time for the start and the end.
        Q(interrupted_at=None, settled_at__isnull=False) & ~Q(side_effects=IMPORTED_MARK, settled_at=F("issued_at")),
        then=True,
    ),
    default=False,
)
_ENDED_STATUSES: Final = frozenset({CallStatus.COMPLETED, CallStatus.FAILED})
_NEWEST_FIRST: Final = ("-issued_at", "-pk")


@dataclass(frozen=True, slots=True)
class CallLogFilter:
    """Filters of the call list: `calls` as for one session; `agent` is an exact name; `times` are of the calls.

    `interrupted` selects the calls that were interrupted, whatever has become of them since. `words` are those of a
    search, and `found` is what it has found; None without words.
    """

    calls: CallFilter = field(default_factory=CallFilter)
    agent: str = ""
    times: TimeRange = field(default_factory=TimeRange)
    interrupted: bool = False
    words: str = ""
    found: FoundCalls | None = None

    def __bool__(self) -> bool:
        return bool(self.has_filters_besides_times or self.times)

    @property
    def has_filters_besides_times(self) -> bool:
        """Return whether there is a filter besides the times."""
        return bool(self.agent or self.has_filters_ignored_by_rates)

    @property
    def has_filters_ignored_by_rates(self) -> bool:
        """Return whether there is a filter that the rates of the tools do not apply: they apply agent and times."""
        return bool(self.calls or self.interrupted or self.found is not None)


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


#: Figures of a tool that are usually zero.
_RARE_FIGURES: Final = ("answered", "failed", "rejected", "open", "discarded", "interrupted", "replays")
#: Those of them that are so seldom that one column has them all.
_FIGURES_OF_ONE_COLUMN: Final = ("answered", "rejected", "open", "discarded", "replays")


@dataclass(frozen=True, slots=True)
class ToolRates:
    """Outcomes of the calls of a tool, or of the questions of frameworks (`is_question`).

    Each call has one of the outcomes from `completed` to `discarded`. `failed` contains the shell commands that failed,
    although their tool completed the calls. `answered` by a person, it never ran; `open`, it has none yet; `discarded`
    contains those that another attempt replaced. `interrupted` and `replays` count calls with any outcome. `median` and
    `p95` are the median and the 95th percentile of the durations of the `timed` ones: those that ran to their end,
    completed or failed, and whose two times differ.
    """

    tool: str
    is_question: bool
    calls: int
    completed: int
    answered: int
    failed: int
    rejected: int
    open: int
    discarded: int
    interrupted: int
    replays: int
    timed: int
    median: timedelta | None
    p95: timedelta | None

    @property
    def has_ended_calls_without_duration(self) -> bool:
        """Return whether the durations are those of some of the completed and failed calls only."""
        return 0 < self.timed < self.completed + self.failed


@dataclass(frozen=True, slots=True)
class ToolRatesReport:
    """Rates over `counted` calls; `since` is the time from which they are counted if there may be older ones.

    `has_more_than_total` says that there are; otherwise older ones of the chosen agent were not examined.
    """

    tools: tuple[ToolRates, ...]
    counted: int
    since: datetime | None
    has_more_than_total: bool

    @property
    def total(self) -> int:
        return self.counted

    @property
    def is_total_of_newest(self) -> bool:
        return self.since is not None

    @property
    def tool_names(self) -> list[str]:
        return [rates.tool for rates in self.tools]

    @property
    def rare_figure_presence_by_name(self) -> dict[str, bool]:
        """Return for each figure that is usually zero whether a tool has it."""
        return {name: any(getattr(rates, name) for rates in self.tools) for name in _RARE_FIGURES}

    @property
    def has_other_outcomes(self) -> bool:
        """Return whether a tool has one of the figures that share a column."""
        return any(getattr(rates, name) for rates in self.tools for name in _FIGURES_OF_ONE_COLUMN)

    @property
    def has_ended_calls_without_duration(self) -> bool:
        return any(rates.has_ended_calls_without_duration for rates in self.tools)


def load_call_log_page(
    workspace_pk: int, wanted: CallLogFilter, *, after: Cursor | None = None, size: int = PAGE
) -> CallLogPage:
    calls = _filter_by_workspace_and_times(_select_calls_newest_first(), workspace_pk, wanted.times)
    if after is not None:
        calls = calls.filter(keyset_pagination.build_before_cursor_condition(after, "issued_at"))
    end = _find_oldest_examined_call_if_more(calls) if wanted.has_filters_besides_times else None
    matches = wanted.calls.filter_calls(_leave_out_calls_before_oldest(calls, end))
    if wanted.agent:
        matches = _filter_by_agent(matches, wanted)
    if wanted.interrupted:
        matches = matches.filter(COUNTED_INTERRUPTIONS)
    if wanted.found is not None:
        matches = matches.filter(pk__in=wanted.found.pks)
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


def load_tool_success_rates(
    workspace_pk: int, wanted: CallLogFilter, first_page: CallLogPage | None = None
) -> ToolRatesReport:
    """Load the rates of each tool over the newest calls of the chosen agent and time; other filters are ignored.

    Args:
        workspace_pk: Key of the workspace.
        wanted: Filters of the list.
        first_page: First page of the list with these filters, if it is loaded, whose calls were examined already.
    """
    rated = _filter_by_workspace_and_times(_select_rated_calls_newest_first(), workspace_pk, wanted.times)
    oldest: ToolCall | None = None
    if wanted.agent:
        oldest = (
            _find_oldest_examined_call_if_more(
                _filter_by_workspace_and_times(_select_calls_newest_first(), workspace_pk, wanted.times)
            )
            if first_page is None
            else first_page.oldest_examined
        )
        rated = _filter_by_agent(_leave_out_calls_before_oldest(rated, oldest), wanted)
    rows = list(map(_RatedCall._make, rated[: RATED + 1]))
    since = None if oldest is None else oldest.issued_at
    if len(rows) > RATED:
        since = convert_to_datetime(rows[RATED - 1].issued_at)
    by_tool: defaultdict[tuple[str, bool], list[_RatedCall]] = defaultdict(list)
    for row in rows[:RATED]:
        by_tool[row.tool, row.is_question].append(row)
    tools = [_build_tool_rates(*key, of_tool) for key, of_tool in by_tool.items()]
    tools.sort(key=lambda rates: (-rates.calls, rates.tool))
    return ToolRatesReport(tuple(tools[:_TOOLS]), len(rows[:RATED]), since, has_more_than_total=len(rows) > RATED)


def _filter_by_agent(calls: QuerySet[ToolCall], wanted: CallLogFilter) -> QuerySet[ToolCall]:
    return calls.filter(session__agent=wanted.agent.replace("\0", ""))


class _RatedCall(NamedTuple):
    """Columns of a call that its rates need, times in microseconds since 1970."""

    tool: str
    is_question: bool
    status: str
    is_answered: bool
    is_interrupted: bool
    is_timed: bool
    exit_code: int | None
    replay_count: int
    issued_at: int
    settled_at: int | None


@cache
def _select_rated_calls_newest_first() -> QuerySet[Any, Any]:
    """Select the columns of `_RatedCall`."""
    return (
        ToolCall.objects.filter(~COPIED_CALLS)
        .order_by(*_NEWEST_FIRST)
        .values_list(
            "tool",
            _IS_QUESTION,
            "status",
            _IS_ANSWERED,
            _IS_INTERRUPTED,
            _IS_TIMED,
            "exit_code",
            "replay_count",
            Instant("issued_at"),
            Instant("settled_at"),
        )
    )


def _build_tool_rates(tool: str, is_question: bool, calls: Sequence[_RatedCall]) -> ToolRates:
    statuses = Counter(map(attrgetter("status"), calls))
    answered = sum(map(attrgetter("is_answered"), calls))
    failed_commands = sum(is_failed_command(call.status, call.exit_code) for call in calls)
    durations = sorted(
        call.settled_at - call.issued_at
        for call in calls
        if call.is_timed and call.settled_at is not None and call.status in _ENDED_STATUSES and not call.is_answered
    )
    return ToolRates(
        tool=tool,
        is_question=is_question,
        calls=len(calls),
        completed=statuses[CallStatus.COMPLETED] - answered - failed_commands,
        answered=answered,
        failed=statuses[CallStatus.FAILED] + failed_commands,
        rejected=statuses[CallStatus.REJECTED],
        open=sum(statuses[status] for status in OPEN_CALL_STATUSES),
        discarded=statuses[CallStatus.SUPERSEDED] + statuses[CallStatus.DISCARDED],
        interrupted=sum(map(attrgetter("is_interrupted"), calls)),
        replays=sum(call.replay_count > 0 for call in calls),
        timed=len(durations),
        median=timedelta(microseconds=median(durations)) if durations else None,
        p95=timedelta(microseconds=durations[ceil(0.95 * len(durations)) - 1]) if durations else None,
    )


@cache
def _select_calls_newest_first() -> QuerySet[ToolCall]:
    calls = ToolCall.objects.filter(~COPIED_CALLS).order_by(*_NEWEST_FIRST)
    return calls.annotate(stored_time=keyset_pagination.cast_field_to_text("issued_at"))


def _filter_by_workspace_and_times(calls: QuerySet[Any, Any], workspace: int, times: TimeRange) -> QuerySet[Any, Any]:
    calls = calls.filter(workspace=workspace)
    if times.since is not None:
        calls = calls.filter(issued_at__gte=times.since)
    return calls if times.until is None else calls.filter(issued_at__lt=times.until)


def _leave_out_calls_before_oldest(calls: QuerySet[ToolCall], oldest: ToolCall | None) -> QuerySet[ToolCall]:
    """Leave out the calls before the oldest one, if there is one."""
    if oldest is None:
        return calls
    return calls.filter(issued_at__gte=oldest.issued_at).exclude(issued_at=oldest.issued_at, pk__lt=oldest.pk)


def _find_oldest_examined_call_if_more(calls: QuerySet[ToolCall]) -> ToolCall | None:
    """Return the last call of the `LOOKED_AT` newest ones; None if there are no more.

    The columns are selected by key, because PostgreSQL would convert the times of all calls before it to text.
    """
    pks = calls.order_by(*_NEWEST_FIRST).values("pk")[LOOKED_AT - 1 : LOOKED_AT + 1]
    last = list(_select_calls_newest_first().filter(pk__in=pks).only("pk", "issued_at"))
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
