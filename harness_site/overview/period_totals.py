"""Totals of a period, added up from the precomputed sums of its hours or days."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache, reduce
from operator import or_
from typing import Any, Final, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from checkpoints.enums import UNSETTLED_CALL_STATUSES, CostBasis
from checkpoints.models import Session, ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from harness_site.core.epoch_microseconds import Instant, convert_to_microseconds
from harness_site.overview.periods import Period
from harness_site.search.hourly_call_and_decision_sums import convert_wait_class_to_seconds
from harness_site.search.hourly_sums_retention import get_start_of_kept_hourly_sums
from harness_site.search.models import SESSION_COUNTS, DecisionSums, Fact, ModelSums, SessionSums, ToolSums, Trait

#: Number of agents and models, and of tools, that are listed; other agents and models are listed on request.
MAX_LISTED: Final = 8
#: Largest number of agents or models that a reader can have listed; others are only counted.
MAX_LISTED_ON_REQUEST: Final = 500
TOOLS: Final = 6
#: Minimum number of calls or sessions for a meaningful share.
ENOUGH: Final = 3
#: Largest number of unsettled interrupted calls that are counted.
_MAX_UNSETTLED: Final = 10_000
#: How much the clocks of database servers that followed one another may differ.
_CLOCK_DIFFERENCE: Final = timedelta(days=1)
#: Hours (True, start) and days (False, start) with the steps that they belong to, as
#: `Period.map_hours_and_utc_days_to_signed_steps` returns them.
_PartsOfSteps = Mapping[tuple[bool, datetime], Sequence[tuple[datetime, int]]]


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Totals of the sessions that started in a period: number, outcomes, cost in US dollars, tokens.

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
    cancelled: int = 0
    tokens: int = 0

    @property
    def is_cost_mostly_unknown(self) -> bool:
        """Return whether the cost of fewer than half of the sessions is known, so that sums of it mislead."""
        return self.unpriced * 2 > self.sessions

    @property
    def known_cost(self) -> Decimal | None:
        """The cost of the sessions that have a known one; None if the cost of all is unknown. Without sessions, it is
        0."""
        return None if self.sessions and self.unpriced >= self.sessions else self.cost

    @property
    def other_sessions(self) -> int:
        """Number of all other sessions: running, paused, idle, orphaned or quarantined."""
        return self.sessions - self.completed - self.failed - self.undecided - self.ready - self.cancelled

    @property
    def has_enough_sessions(self) -> bool:
        """Whether there are enough sessions for meaningful shares."""
        return self.sessions >= ENOUGH

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

    `mean` is in seconds, over the calls that ended without an interruption; None where there is none. `unsettled` is
    the number of the interrupted calls whose outcome is unknown.
    """

    name: str
    calls: int
    failed: int
    interrupted: int
    mean: float | None
    unsettled: int = 0

    @property
    def finished(self) -> int:
        """Number of the calls that are settled; the list of calls filters by `FINISHED_CALLS`."""
        return self.calls - self.unsettled

    @property
    def has_enough_finished_calls(self) -> bool:
        """Whether there are enough finished calls for a meaningful share of failed ones."""
        return self.finished >= ENOUGH

    @property
    def failed_share_of_finished(self) -> float:
        return self.failed / self.finished if self.finished else 0.0

    @property
    def has_enough_calls(self) -> bool:
        """Whether there are enough calls for meaningful shares."""
        return self.calls >= ENOUGH

    @property
    def interrupted_share(self) -> float:
        return self.interrupted / self.calls


@dataclass(frozen=True, slots=True)
class AgentTotals:
    """`cost_share` is the share of the most expensive agent's cost, from 0 to 1."""

    name: str
    totals: SessionTotals
    cost_share: float


@dataclass(frozen=True, slots=True)
class ModelTotals:
    """Tokens and cost (in US dollars) of one model.

    `name` is empty if the model is unknown, or with `several` for the tokens and the cost of sessions of several models
    that nothing divides. `share` is the share of the most expensive row's cost, from 0 to 1; without any cost, that of
    the most tokens. `has_known_cost` is False if the cost of all its sessions is unknown.
    """

    name: str
    several: bool
    sessions: int
    tokens: int
    cost: Decimal
    share: float
    has_known_cost: bool = True

    @property
    def known_cost(self) -> Decimal | None:
        return self.cost if self.has_known_cost else None


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
    def has_model_tokens(self) -> bool:
        """Return whether the tokens of any model are known."""
        return any(model.tokens for model in self.models)

    @property
    def most_failing_tools(self) -> list[ToolTotals]:
        """Tools by their share of failed calls among those with an outcome; rarely called tools come last."""
        failing = [tool for tool in self.tools if tool.failed]
        failing.sort(
            key=lambda tool: (
                not tool.has_enough_finished_calls,
                -tool.failed_share_of_finished,
                -tool.failed,
                tool.name,
            )
        )
        return failing[:TOOLS]

    @property
    def unlisted_failing_tool_count(self) -> int:
        """Number of tools with failed calls that are not among the listed ones."""
        return max(0, sum(tool.failed > 0 for tool in self.tools) - TOOLS)

    @property
    def tools_interrupted_most(self) -> list[ToolTotals]:
        """Tools by their share of interrupted calls; rarely called tools come last."""
        return self._tools_with_interrupted_calls[:TOOLS]

    @property
    def unlisted_interrupted_tool_count(self) -> int:
        """Number of tools with interrupted calls that are not among the listed ones."""
        return max(0, len(self._tools_with_interrupted_calls) - TOOLS)

    @property
    def _tools_with_interrupted_calls(self) -> list[ToolTotals]:
        interrupted = [tool for tool in self.tools if tool.interrupted]
        interrupted.sort(
            key=lambda tool: (not tool.has_enough_calls, -tool.interrupted_share, -tool.interrupted, tool.name)
        )
        return interrupted


@dataclass(frozen=True, slots=True)
class _Scope:
    """Workspace and agent whose sums are loaded; an empty agent stands for all."""

    workspace: int
    agent: str


class _ToolSumsRow(NamedTuple):
    """Numbers of a tool's calls in an hour or a day; `seconds` is the sum over the `timed` ones."""

    hourly: bool
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

    If the cost of some sessions is unknown, two more tell for which of the listed models without a cost it is.

    With `agent`, only the sessions and calls of this agent count.
    """
    scope = _Scope(workspace, agent)
    parts = period.map_hours_and_utc_days_to_signed_steps()
    sessions = _load_session_totals_by_step(scope, parts)
    preceding = sessions.pop(period.preceding_start, SessionTotals())
    waits = _load_wait_counts_by_step(scope, parts)
    preceding_waits = waits.pop(period.preceding_start, Counter())
    all_agents = _load_totals_of_agents(workspace, period)
    agents = tuple(each for each in all_agents if not agent or each.name == agent)
    models = _load_model_totals(scope, period)
    total = _sum_session_totals(sessions.values())
    listed_models = _mark_models_of_unknown_cost(models[:max_models], total, scope, period)
    tools, interruptions = _load_tool_totals_and_interruptions_by_step(scope, period, parts)
    return PeriodTotals(
        steps=tuple((step, sessions.get(step, SessionTotals())) for step in period.step_starts),
        total=total,
        preceding=preceding,
        agents=agents[:max_agents],
        others=max(0, len(agents) - max_agents),
        agent_names=tuple(sorted(each.name for each in all_agents if each.name)),
        models=listed_models,
        other_models=max(0, len(models) - max_models),
        waits=compute_waiting_times_from_class_counts(_sum_counters(waits.values())),
        preceding_waits=compute_waiting_times_from_class_counts(preceding_waits),
        wait_steps=tuple(
            (step, compute_waiting_times_from_class_counts(waits.get(step, Counter()))) for step in period.step_starts
        ),
        interruptions=tuple((step, interruptions[step]) for step in period.step_starts),
        tools=tools,
    )


def list_agent_names_of_all_periods(workspace: int) -> list[str]:
    """List the agents of all periods, for a period without sessions."""
    agents = SessionSums.objects.filter(workspace=workspace, hourly=False).exclude(agent="").order_by("agent")
    return list(agents.values_list("agent", flat=True).distinct())


def drop_incomplete_comparison(sums: PeriodTotals, period: Period, oldest: datetime | None) -> PeriodTotals:
    """Remove the totals of the preceding period if sessions have been stored for a part of it only."""
    if oldest is not None and period.is_preceding_period_complete_since(oldest):
        return sums
    return replace(sums, preceding=SessionTotals(), preceding_waits=compute_waiting_times_from_class_counts({}))


def find_start_of_oldest_session_sums(workspace: int, now: datetime) -> datetime | None:
    """Return the start of the oldest day in which a session was started, or of its hour; None without any."""
    starts = SessionSums.objects.filter(workspace=workspace).order_by("start").values_list("start", flat=True)
    day = starts.filter(hourly=False).first()
    has_hours = day is not None and day >= get_start_of_kept_hourly_sums(now)
    return (starts.filter(hourly=True).first() if has_hours else None) or day


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


def _load_session_totals_by_step(scope: _Scope, parts: _PartsOfSteps) -> dict[datetime, SessionTotals]:
    rows: defaultdict[datetime, list[tuple[Mapping[str, Any], int]]] = defaultdict(list)
    for row in _filter_by_scope_and_parts(_select_session_sums_by_columns("hourly", "start"), scope, parts):
        for step, sign in parts[row["hourly"], row["start"]]:
            rows[step].append((row, sign))
    return {step: _sum_signed_session_rows(of_step) for step, of_step in rows.items()}


def _sum_signed_session_rows(rows: Sequence[tuple[Mapping[str, Any], int]]) -> SessionTotals:
    """Add up rows with their signs, 1 or -1."""
    counts = {name: sum(sign * int(row[f"{name}_sum"]) for row, sign in rows) for name in SESSION_COUNTS}
    return SessionTotals(**counts, cost=sum((sign * row["cost_sum"] for row, sign in rows), Decimal(0)))


def _sum_session_totals(totals: Iterable[SessionTotals]) -> SessionTotals:
    totals = list(totals)
    counts = {name: sum(getattr(each, name) for each in totals) for name in SESSION_COUNTS}
    return SessionTotals(**counts, cost=sum((each.cost for each in totals), Decimal(0)))


def _sum_counters(counters: Iterable[Counter[int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _load_totals_of_agents(workspace: int, period: Period) -> tuple[AgentTotals, ...]:
    rows = _filter_by_scope_and_period(_select_session_sums_by_columns("agent"), _Scope(workspace, ""), period)
    agents = [(row["agent"], _sum_signed_session_rows([(row, 1)])) for row in rows]
    highest = max((totals.cost for _, totals in agents), default=Decimal(0))
    ranked = sorted(agents, key=lambda pair: (-pair[1].cost, -pair[1].tokens, -pair[1].sessions, pair[0]))
    return tuple(AgentTotals(name, totals, float(totals.cost / highest) if highest else 0.0) for name, totals in ranked)


def _load_model_totals(scope: _Scope, period: Period) -> tuple[ModelTotals, ...]:
    totals = list(_filter_by_scope_and_period(_select_model_sums(), scope, period))
    measure = "cost_sum" if any(row["cost_sum"] for row in totals) else "token_sum"
    highest = max((row[measure] for row in totals), default=0)
    return tuple(
        ModelTotals(
            row["model"],
            row["several"],
            row["session_count"],
            row["token_sum"],
            row["cost_sum"],
            float(row[measure] / highest) if highest else 0.0,
        )
        for row in sorted(
            totals, key=lambda row: (-row["cost_sum"], -row["token_sum"], -row["session_count"], row["model"])
        )
    )


def _mark_models_of_unknown_cost(
    models: tuple[ModelTotals, ...], total: SessionTotals, scope: _Scope, period: Period
) -> tuple[ModelTotals, ...]:
    """Mark the models without a cost whose sessions all have an unknown cost."""
    free = [model for model in models if not model.cost]
    if not free or not total.unpriced:
        return models
    names = {model.name for model in free if model.name}
    sessions = Session.objects.filter(
        ~Q(cost_basis=CostBasis.UNKNOWN),
        workspace=scope.workspace,
        has_times=True,
        created_at__gte=period.start,
        created_at__lt=period.end,
        **({"agent": scope.agent} if scope.agent else {}),
    )
    facts = Fact.objects.filter(workspace=scope.workspace, trait=Trait.MODEL)
    of_models = facts.filter(value__in=names, session__in=sessions.values("pk")).order_by()
    known = set(of_models.values_list("value", flat=True).distinct()) if names else set()
    if len(names) < len(free):
        of_unknown_model = sessions.filter(~Exists(facts.filter(session=OuterRef("pk"))))
        known |= {""} if of_unknown_model.exists() else set()
    # What is not divided between several models has a row only if a session states it.
    return tuple(
        replace(model, has_known_cost=bool(model.cost) or model.several or model.name in known) for model in models
    )


def _load_wait_counts_by_step(scope: _Scope, parts: _PartsOfSteps) -> dict[datetime, Counter[int]]:
    waits: defaultdict[datetime, Counter[int]] = defaultdict(Counter)
    for hourly, start, wait, decisions in _filter_by_scope_and_parts(
        _count_decisions_by_start_and_waiting_time(), scope, parts
    ):
        for step, sign in parts[hourly, start]:
            waits[step][wait] += sign * decisions
    return dict(waits)


def _load_tool_totals_and_interruptions_by_step(
    scope: _Scope, period: Period, parts: _PartsOfSteps
) -> tuple[tuple[ToolTotals, ...], Counter[datetime]]:
    """Load the totals of each tool, and the number of interrupted calls in each step.

    Interrupted calls that are not settled yet are not in the sums, and are counted one by one.
    """
    of_period = {
        part: kept for part, steps in parts.items() if (kept := [pair for pair in steps if pair[0] >= period.start])
    }
    numbers: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0, 0, 0.0])
    interruptions: Counter[datetime] = Counter()
    for row in map(_ToolSumsRow._make, _filter_by_scope_and_parts(_select_tool_sums(), scope, of_period)):
        steps = of_period[row.hourly, row.start]
        for step, sign in steps if row.interrupted else ():
            interruptions[step] += sign * row.interrupted
        if weight := sum(sign for _step, sign in steps):
            numbers[row.tool] = [
                total + weight * number for total, number in zip(numbers[row.tool], row[3:], strict=True)
            ]
    bounds = [convert_to_microseconds(bound) for bound in period.bounds]
    unsettled: Counter[str] = Counter()
    for issued_at, tool in _query_unsettled_interruptions(scope, period):
        interruptions[period.bounds[bisect_right(bounds, issued_at) - 1]] += 1
        numbers[tool][0] += 1
        numbers[tool][2] += 1
        unsettled[tool] += 1
    tools = (
        ToolTotals(
            tool,
            int(calls),
            int(failed),
            int(interrupted),
            max(seconds, 0.0) / timed if timed else None,
            unsettled[tool],
        )
        for tool, (calls, failed, interrupted, timed, seconds) in numbers.items()
        if calls
    )
    return tuple(tools), interruptions


def _filter_by_scope_and_period(sums: QuerySet[Any, Any], scope: _Scope, period: Period) -> QuerySet[Any, Any]:
    ranges = [
        Q(hourly=hourly, start__gte=since, start__lt=until)
        for hourly, since, until in period.list_ranges_of_hours_and_utc_days()
    ]
    return _filter_by_scope(sums, scope, ranges)


def _filter_by_scope_and_parts(sums: QuerySet[Any, Any], scope: _Scope, parts: _PartsOfSteps) -> QuerySet[Any, Any]:
    """Select the sums of hours and days, whose keys are (is an hour, start)."""
    conditions = []
    if days := [start for hourly, start in parts if not hourly]:
        conditions.append(Q(hourly=False, start__gte=min(days), start__lte=max(days)))
    if hours := [start for hourly, start in parts if hourly]:
        # Days need few hours, which an index looks up; those of the newest hours are one range.
        conditions.append(
            Q(hourly=True, start__in=hours) if days else Q(hourly=True, start__gte=min(hours), start__lte=max(hours))
        )
    return _filter_by_scope(sums, scope, conditions)


def _filter_by_scope(sums: QuerySet[Any, Any], scope: _Scope, conditions: Sequence[Q]) -> QuerySet[Any, Any]:
    selected = sums.filter(reduce(or_, conditions), workspace=scope.workspace)
    return selected.filter(agent=scope.agent) if scope.agent else selected


@cache
def _select_session_sums_by_columns(*columns: str) -> QuerySet[Any, Any]:
    """Select the sums for each hour or day, or for each agent."""
    rows: QuerySet[Any, Any] = SessionSums.objects.order_by().values(*columns)
    sums: QuerySet[Any, Any] = rows.annotate(**{f"{name}_sum": Sum(name) for name in (*SESSION_COUNTS, "cost")})
    return sums


@cache
def _select_model_sums() -> QuerySet[Any, Any]:
    rows = ModelSums.objects.order_by().values("model", "several")
    return rows.annotate(session_count=Sum("sessions"), token_sum=Sum("tokens"), cost_sum=Sum("cost"))


@cache
def _count_decisions_by_start_and_waiting_time() -> QuerySet[Any, Any]:
    return DecisionSums.objects.order_by().values_list("hourly", "start", "wait").annotate(number=Sum("decisions"))


@cache
def _select_tool_sums() -> QuerySet[Any, Any]:
    """Select the columns of `_ToolSumsRow`."""
    rows: QuerySet[Any, Any] = ToolSums.objects.order_by().values_list("hourly", "start", "tool")
    sums: QuerySet[Any, Any] = rows.annotate(*map(Sum, ("calls", "failed", "interrupted", "timed", "seconds")))
    return sums


def _query_unsettled_interruptions(scope: _Scope, period: Period) -> QuerySet[ToolCall, tuple[int, str]]:
    """Query when the interrupted calls that are not settled yet were issued, in microseconds since 1970, and their
    tools."""
    # Each was interrupted after it was issued, so the last bound changes nothing, except that an index has it.
    in_period = _select_unsettled_calls().filter(
        workspace=scope.workspace,
        issued_at__gte=period.start,
        issued_at__lt=period.end,
        interrupted_at__gte=period.start - _CLOCK_DIFFERENCE,
        **({"session__agent": scope.agent} if scope.agent else {}),
    )
    return in_period[:_MAX_UNSETTLED]


@cache
def _select_unsettled_calls() -> QuerySet[ToolCall, tuple[int, str]]:
    unsettled = ToolCall.objects.filter(~COPIED_CALLS, status__in=sorted(UNSETTLED_CALL_STATUSES))
    return unsettled.order_by("interrupted_at", "pk").values_list(Instant("issued_at"), "tool")
