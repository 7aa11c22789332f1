"""Success rates and durations of the tools of a workspace, over the newest of their calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from math import ceil
from operator import attrgetter
from statistics import median
from typing import Any, Final, NamedTuple

from django.db.models import Case, F, Q, QuerySet, When

from checkpoints.enums import IMPORTED_MARK, OPEN_CALL_STATUSES, CallStatus
from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS, IS_QUESTION, is_failed_command
from harness_site.core.epoch_microseconds import Instant, convert_to_datetime
from harness_site.search.hourly_call_and_decision_sums import ANSWERED_CALLS, COUNTED_INTERRUPTIONS
from harness_site.sessions.selectors.workspace_call_log import (
    NEWEST_FIRST,
    CallLogFilter,
    CallLogPage,
    filter_calls_by_agent,
    filter_calls_by_workspace_and_times,
    find_oldest_examined_call_if_more,
    leave_out_calls_before_oldest,
    leave_out_calls_without_times,
    select_calls_newest_first,
)

#: Number of the newest calls that the rates are computed from.
RATED = 2_000
#: Maximum number of tools listed with their rates.
_TOOLS: Final = 100
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

    `has_more_than_total` says that there are; otherwise older ones of the chosen agent or time were not examined.
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


def load_tool_success_rates(
    workspace_pk: int,
    wanted: CallLogFilter,
    first_page: CallLogPage | None = None,
    *,
    has_most_failed_first: bool = False,
) -> ToolRatesReport:
    """Load the rates of each tool over the newest calls of the chosen agent and time; other filters are ignored.

    Args:
        workspace_pk: Key of the workspace.
        wanted: Filters of the list.
        first_page: First page of the list with these filters, if it is loaded, whose calls were examined already.
        has_most_failed_first: Whether the tools with the most failed calls come first, instead of those with the most
            calls.
    """
    rated = filter_calls_by_workspace_and_times(_select_rated_calls_newest_first(), workspace_pk, wanted.times)
    oldest: ToolCall | None = None
    if wanted.agent or wanted.times:
        oldest = (
            find_oldest_examined_call_if_more(
                filter_calls_by_workspace_and_times(select_calls_newest_first(), workspace_pk, wanted.times)
            )
            if first_page is None
            else first_page.oldest_examined
        )
        rated = leave_out_calls_without_times(leave_out_calls_before_oldest(rated, oldest), wanted)
    if wanted.agent:
        rated = filter_calls_by_agent(rated, wanted)
    rows = list(map(_RatedCall._make, rated[: RATED + 1]))
    since = None if oldest is None else oldest.issued_at
    if len(rows) > RATED:
        since = convert_to_datetime(rows[RATED - 1].issued_at)
    by_tool: defaultdict[tuple[str, bool], list[_RatedCall]] = defaultdict(list)
    for row in rows[:RATED]:
        by_tool[row.tool, row.is_question].append(row)
    tools = [_build_tool_rates(*key, of_tool) for key, of_tool in by_tool.items()]
    tools.sort(key=lambda rates: (-rates.failed if has_most_failed_first else 0, -rates.calls, rates.tool))
    return ToolRatesReport(tuple(tools[:_TOOLS]), len(rows[:RATED]), since, has_more_than_total=len(rows) > RATED)


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
        .order_by(*NEWEST_FIRST)
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
