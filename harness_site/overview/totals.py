"""Totals of a period, added up from the precomputed sums of its hours or days."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from django.db.models import QuerySet, Sum

from checkpoints.enums import UNSETTLED_CALL_STATUSES
from checkpoints.models import ToolCall
from harness_site.core.epoch_microseconds import Instant, convert_to_microseconds
from harness_site.overview.utc_periods import Period
from harness_site.search.call_and_decision_sums import convert_wait_class_to_seconds
from harness_site.search.hourly_sums_retention import get_start_of_kept_hourly_sums
from harness_site.search.models import DecisionSums, ModelSums, SessionSums, ToolSums

#: Number of agents and models, and of tools, that are listed; other agents and models are listed on request.
MAX_LISTED: Final = 8
#: Largest number of agents or models that a reader can have listed; others are only counted.
MAX_LISTED_ON_REQUEST: Final = 500
TOOLS: Final = 6
#: Minimum number of calls for a meaningful share.
ENOUGH: Final = 3
#: Largest number of unsettled interrupted calls that are counted.
_MAX_UNSETTLED: Final = 10_000
#: Smallest number of steps that are drawn if those before them are empty.
_FEWEST_STEPS: Final = 5
#: How much the clocks of database servers that followed one another may differ.
_CLOCK_DIFFERENCE: Final = timedelta(days=1)
_COUNTS: Final = ("sessions", "completed", "failed", "undecided", "ready", "estimated", "unpriced")
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Totals of the sessions that started in a period: number, outcomes, cost in US dollars.

    `undecided` is the number of those that wait for a decision now, and `ready` that of those that are ready to resume.
    The cost of `estimated` is an estimate from a price table, and that of `unpriced` is unknown.
    """

    sessions: int = 0
    completed: int = 0
    failed: int = 0
    undecided: int = 0
    ready: int = 0
    cost: Decimal = Decimal(0)
    estimated: int = 0
    unpriced: int = 0

    @property
    def is_cost_mostly_unknown(self) -> bool:
        """Return whether the cost of fewer than half of the sessions is known, so that sums of it mislead."""
        return self.unpriced * 2 > self.sessions

    @property
    def other_sessions(self) -> int:
        """Number of all other sessions: running, orphaned, paused, cancelled or quarantined."""
        return self.sessions - self.completed - self.failed - self.undecided - self.ready

    @property
    def failed_share(self) -> float:
        return self.failed / self.sessions if self.sessions else 0.0


@dataclass(frozen=True, slots=True)
class WaitingTimes:
    """Number of decisions of people, and the median and the 95th percentile of their waiting times in seconds."""

    decisions: int
    median: float | None
    p95: float | None


@dataclass(frozen=True, slots=True)
class ToolTotals:
    """Interrupted calls count before they are settled, other calls once they are.

    `mean` is in seconds, over the calls that ended without an interruption; None where there is none.
    """

    name: str
    calls: int
    failed: int
    interrupted: int
    mean: float | None

    @property
    def has_enough_calls(self) -> bool:
        """Whether there are enough calls for meaningful shares."""
        return self.calls >= ENOUGH

    @property
    def interrupted_share(self) -> float:
        return self.interrupted / self.calls

    @property
    def failed_share(self) -> float:
        return self.failed / self.calls


@dataclass(frozen=True, slots=True)
class AgentTotals:
    """`cost_share` is the share of the most expensive agent's cost, from 0 to 1."""

    name: str
    totals: SessionTotals
    cost_share: float


@dataclass(frozen=True, slots=True)
class ModelTotals:
    """Cost of one model in US dollars.

    `name` is empty if the model is unknown, or with `several` for the cost of sessions of several models that nothing
    divides. `cost_share` is the share of the most expensive row's cost, from 0 to 1.
    """

    name: str
    several: bool
    sessions: int
    cost: Decimal
    cost_share: float


@dataclass(frozen=True, slots=True)
class PeriodTotals:
    """`others` is the number of agents that are not among `agents`, which are those with the highest cost; so are
    `models` and `other_models`. `agent_names` are all agents of the period, also those that are filtered out."""

    steps: tuple[tuple[datetime, SessionTotals], ...]
    total: SessionTotals
    preceding: SessionTotals
    agents: tuple[AgentTotals, ...]
    others: int
    agent_names: tuple[str, ...]
    models: tuple[ModelTotals, ...]
    other_models: int
    waits: WaitingTimes
    preceding_waits: WaitingTimes
    wait_steps: tuple[tuple[datetime, WaitingTimes], ...]
    interruptions: tuple[tuple[datetime, int], ...]
    tools: tuple[ToolTotals, ...]

    @property
    def interrupted_call_count(self) -> int:
        return sum(number for _, number in self.interruptions)

    @property
    def slowest_tools(self) -> list[ToolTotals]:
        timed = [tool for tool in self.tools if tool.mean is not None]
        return sorted(timed, key=lambda tool: (-(tool.mean or 0), tool.name))[:TOOLS]

    @property
    def most_interrupted_tools(self) -> list[ToolTotals]:
        """Tools by their share of interrupted calls; rarely called tools come last."""
        interrupted = [tool for tool in self.tools if tool.interrupted]
        interrupted.sort(key=lambda tool: (not tool.has_enough_calls, -tool.interrupted_share, tool.name))
        return interrupted[:TOOLS]


@dataclass(frozen=True, slots=True)
class _Scope:
    """Workspace and agent whose sums are loaded; an empty agent stands for all."""

    workspace: int
    agent: str


class _ToolSumsRow(NamedTuple):
    """Numbers of a tool's calls in an hour or a day; `seconds` is the sum over the `timed` ones."""

    start: datetime
    tool: str
    calls: int
    failed: int
    interrupted: int
    timed: int
    seconds: float


def load_period_totals(
    workspace: int, period: Period, agent: str = "", *, max_agents: int = MAX_LISTED, max_models: int = MAX_LISTED
) -> PeriodTotals:
    """Load everything about a period with six queries, each of which reads one range of an index.

    With `agent`, only the sessions and calls of this agent count.
    """
    scope = _Scope(workspace, agent)
    both_periods = replace(period, start=period.preceding_period.start)
    sessions, preceding_sessions = _split_into_period_and_preceding(
        period,
        {
            row["start"]: row
            for row in _filter_by_scope_and_period(_select_session_sums_by_column("start"), scope, both_periods)
        },
    )
    waits, preceding_waits = _split_into_period_and_preceding(period, _load_wait_counts_by_start(scope, both_periods))
    all_agents = _load_totals_of_agents(workspace, period)
    agents = tuple(each for each in all_agents if not agent or each.name == agent)
    models = _load_model_totals(scope, period)
    by_step = _combine_rows_by_step(period, sessions.items(), _sum_session_rows)
    wait_steps = _combine_rows_by_step(period, waits.items(), _sum_counters)
    tool_sums = [_ToolSumsRow(*row) for row in _filter_by_scope_and_period(_select_tool_sums(), scope, period)]
    unsettled = list(_query_unsettled_interruptions(scope, period))
    interruptions = Counter(_combine_rows_by_step(period, ((row.start, row.interrupted) for row in tool_sums), sum))
    interruptions.update(_count_moments_by_step(period, (issued_at for issued_at, _tool in unsettled)))
    return PeriodTotals(
        steps=tuple((step, by_step.get(step, SessionTotals())) for step in period.list_step_starts()),
        total=_sum_session_rows(sessions.values()),
        preceding=_sum_session_rows(preceding_sessions.values()),
        agents=agents[:max_agents],
        others=max(0, len(agents) - max_agents),
        agent_names=tuple(sorted(each.name for each in all_agents if each.name)),
        models=models[:max_models],
        other_models=max(0, len(models) - max_models),
        waits=compute_waiting_times_from_class_counts(_sum_counters(waits.values())),
        preceding_waits=compute_waiting_times_from_class_counts(_sum_counters(preceding_waits.values())),
        wait_steps=tuple(
            (step, compute_waiting_times_from_class_counts(wait_steps.get(step, Counter())))
            for step in period.list_step_starts()
        ),
        interruptions=tuple((step, interruptions[step]) for step in period.list_step_starts()),
        tools=tuple(_iterate_tool_totals(tool_sums, Counter(tool for _issued_at, tool in unsettled))),
    )


def drop_incomplete_comparison(sums: PeriodTotals, period: Period, oldest: datetime | None) -> PeriodTotals:
    """Remove the totals of the preceding period if sessions have been stored for a part of it only."""
    if oldest is not None and oldest <= period.preceding_period.start:
        return sums
    return replace(sums, preceding=SessionTotals(), preceding_waits=compute_waiting_times_from_class_counts({}))


def leave_out_long_empty_start(period: Period, sums: PeriodTotals) -> tuple[Period, PeriodTotals]:
    """Return the period and its totals without the steps before the first one in which anything happened.

    All steps stay if these are less than half of them, and the last `_FEWEST_STEPS` stay in any case.
    """
    by_step = zip(sums.steps, sums.wait_steps, sums.interruptions, strict=True)
    has_data = [
        bool(totals.sessions or totals.cost or waits.decisions or interrupted)
        for (_, totals), (_, waits), (_, interrupted) in by_step
    ]
    first = min(has_data.index(True), len(has_data) - _FEWEST_STEPS) if any(has_data) else 0
    if first * 2 < len(has_data):
        return period, sums
    return replace(period, start=sums.steps[first][0]), replace(
        sums,
        steps=sums.steps[first:],
        wait_steps=sums.wait_steps[first:],
        interruptions=sums.interruptions[first:],
    )


def find_start_of_oldest_session_sums(workspace: int, now: datetime) -> datetime | None:
    """Return the start of the oldest day in which a session was started, or of its hour; None without any."""
    starts = SessionSums.objects.filter(workspace=workspace).order_by("start").values_list("start", flat=True)
    day = starts.filter(hourly=False).first()
    has_hours = day is not None and day >= get_start_of_kept_hourly_sums(now)
    return (starts.filter(hourly=True).first() if has_hours else None) or day


def _split_into_period_and_preceding(
    period: Period, rows: Mapping[datetime, Row]
) -> tuple[dict[datetime, Row], dict[datetime, Row]]:
    """Split the rows of both periods into those of `period` and those of the preceding one."""
    of_period = {start: row for start, row in rows.items() if start >= period.start}
    return of_period, {start: row for start, row in rows.items() if start < period.start}


def compute_waiting_times_from_class_counts(classes: Mapping[int, int]) -> WaitingTimes:
    """Compute percentiles from the number of decisions in each class of waiting times."""
    decisions = sum(classes.values())
    return WaitingTimes(
        decisions, _compute_percentile_of_wait_classes(classes, 0.5), _compute_percentile_of_wait_classes(classes, 0.95)
    )


def _compute_percentile_of_wait_classes(classes: Mapping[int, int], share: float) -> float | None:
    needed, seen = share * sum(classes.values()), 0
    for wait in sorted(classes):
        seen += classes[wait]
        if seen >= needed:
            return convert_wait_class_to_seconds(wait)
    return None


def _combine_rows_by_step(period: Period, rows: Iterable[tuple[datetime, Any]], add: Any) -> dict[datetime, Any]:
    groups: defaultdict[datetime, list[Any]] = defaultdict(list)
    for start, row in rows:
        groups[period.get_step_start(start)].append(row)
    return {step: add(group) for step, group in groups.items()}


def _sum_session_rows(rows: Iterable[Mapping[str, Any]]) -> SessionTotals:
    rows = list(rows)
    counts = {name: sum(row[f"{name}_sum"] for row in rows) for name in _COUNTS}
    return SessionTotals(**counts, cost=sum((row["cost_sum"] for row in rows), Decimal(0)))


def _sum_counters(counters: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _load_totals_of_agents(workspace: int, period: Period) -> tuple[AgentTotals, ...]:
    rows = _filter_by_scope_and_period(_select_session_sums_by_column("agent"), _Scope(workspace, ""), period)
    agents = [(row["agent"], _sum_session_rows([row])) for row in rows]
    highest = max((totals.cost for _, totals in agents), default=Decimal(0))
    ranked = sorted(agents, key=lambda pair: (-pair[1].cost, -pair[1].sessions, pair[0]))
    return tuple(AgentTotals(name, totals, float(totals.cost / highest) if highest else 0.0) for name, totals in ranked)


def _load_model_totals(scope: _Scope, period: Period) -> tuple[ModelTotals, ...]:
    totals = list(_filter_by_scope_and_period(_select_model_sums(), scope, period))
    highest = max((row["spent"] for row in totals), default=Decimal(0))
    return tuple(
        ModelTotals(
            row["model"], row["several"], row["number"], row["spent"], float(row["spent"] / highest) if highest else 0.0
        )
        for row in sorted(totals, key=lambda row: (-row["spent"], -row["number"], row["model"]))
    )


def _load_wait_counts_by_start(scope: _Scope, period: Period) -> dict[datetime, Counter[int]]:
    waits: defaultdict[datetime, Counter[int]] = defaultdict(Counter)
    for start, wait, decisions in _filter_by_scope_and_period(_select_decision_sums(), scope, period):
        waits[start][wait] += decisions
    return dict(waits)


def _iterate_tool_totals(rows: Iterable[_ToolSumsRow], unsettled: Counter[str]) -> Iterator[ToolTotals]:
    """Iterate over the totals of each tool; `unsettled` are its interrupted calls that the sums do not contain."""
    numbers_of_tools: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for row in rows:
        numbers_of_tools[row.tool].append(row[2:])
    for tool, number in unsettled.items():
        numbers_of_tools[tool].append((number, 0, number, 0, 0.0))
    for tool, numbers in numbers_of_tools.items():
        calls, failed, interrupted, timed, seconds = map(sum, zip(*numbers, strict=True))
        if calls:
            yield ToolTotals(tool, int(calls), int(failed), int(interrupted), seconds / timed if timed else None)


def _filter_by_scope_and_period(sums: QuerySet[Any, Any], scope: _Scope, period: Period) -> QuerySet[Any, Any]:
    of_period = sums.filter(
        workspace=scope.workspace,
        start__gte=period.start,
        start__lt=period.end,
        hourly=period.has_hourly_steps,
    )
    return of_period.filter(agent=scope.agent) if scope.agent else of_period


@cache
def _select_session_sums_by_column(column: str) -> QuerySet[Any, Any]:
    """Select the sums for each value of `column`: `start` or `agent`."""
    rows: QuerySet[Any, Any] = SessionSums.objects.order_by().values(column)
    sums: QuerySet[Any, Any] = rows.annotate(**{f"{name}_sum": Sum(name) for name in (*_COUNTS, "cost")})
    return sums


@cache
def _select_model_sums() -> QuerySet[Any, Any]:
    rows = ModelSums.objects.order_by().values("model", "several")
    return rows.annotate(number=Sum("sessions"), spent=Sum("cost"))


@cache
def _select_decision_sums() -> QuerySet[Any, Any]:
    return DecisionSums.objects.order_by().values_list("start", "wait").annotate(number=Sum("decisions"))


@cache
def _select_tool_sums() -> QuerySet[Any, Any]:
    """Select the columns of `_ToolSumsRow`."""
    rows: QuerySet[Any, Any] = ToolSums.objects.order_by().values_list("start", "tool")
    sums: QuerySet[Any, Any] = rows.annotate(*map(Sum, ("calls", "failed", "interrupted", "timed", "seconds")))
    return sums


def _count_moments_by_step(period: Period, moments: Iterable[int]) -> Counter[datetime]:
    """Count moments, in microseconds since 1970, by the step of the period that contains them."""
    end, step = convert_to_microseconds(period.end), period.step // timedelta(microseconds=1)
    numbers = Counter((moment - end) // step for moment in moments)
    return Counter({max(period.start, period.end + number * period.step): count for number, count in numbers.items()})


def _query_unsettled_interruptions(scope: _Scope, period: Period) -> QuerySet[ToolCall, tuple[int, str]]:
    """Query the interrupted calls that the sums do not contain, because they are not settled yet.

    Each is the time at which it was issued, in microseconds since 1970, and its tool.
    """
    # Each was interrupted after it was issued, so the second bound changes nothing, except that an index has it.
    unsettled = ToolCall.objects.filter(
        workspace=scope.workspace,
        status__in=sorted(UNSETTLED_CALL_STATUSES),
        interrupted_at__gte=period.start - _CLOCK_DIFFERENCE,
    )
    unsettled = unsettled.filter(session__agent=scope.agent) if scope.agent else unsettled
    in_period = unsettled.filter(issued_at__gte=period.start, issued_at__lt=period.end)
    return in_period.order_by("interrupted_at", "pk").values_list(Instant("issued_at"), "tool")[:_MAX_UNSETTLED]
