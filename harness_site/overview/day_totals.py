"""Sums of the last days, precomputed by the indexer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import date, timedelta
from decimal import Decimal
from operator import add
from typing import Any, Final

from django.db.models import QuerySet, Sum

from harness_site.search.models import SessionDay, ToolDay
from harness_site.search.session_days import SHOWN

#: Number of agents and of tools that are listed; other agents are summed up.
NAMED: Final = 8
TOOLS: Final = 5
#: Minimum number of calls for a meaningful share.
ENOUGH: Final = 3


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Totals of the sessions that began in a period: number, outcomes, cost."""

    sessions: int = 0
    completed: int = 0
    failed: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: SessionTotals) -> SessionTotals:
        return SessionTotals(
            self.sessions + other.sessions,
            self.completed + other.completed,
            self.failed + other.failed,
            self.cost + other.cost,
        )

    @property
    def open(self) -> int:
        """Number of sessions that neither completed nor failed."""
        return self.sessions - self.completed - self.failed


_NOTHING: Final = astuple(SessionTotals())


@dataclass(frozen=True, slots=True)
class DayTotals:
    """`others` are the agents that are not among the `by_agent`, which are those with the highest cost."""

    by_day: tuple[tuple[date, SessionTotals], ...]
    by_agent: tuple[tuple[str, SessionTotals], ...]
    others: int
    total: SessionTotals

    @property
    def today(self) -> SessionTotals:
        return self.by_day[-1][1]


@dataclass(frozen=True, slots=True)
class ToolTotals:
    """`mean` is in seconds, over the calls that ended without an interruption; None where there is none."""

    name: str
    calls: int
    failed: int
    interrupted: int
    mean: float | None

    @property
    def interrupted_share(self) -> float:
        return self.interrupted / self.calls

    @property
    def failed_share(self) -> float:
        return self.failed / self.calls


def load_day_totals(workspace: int, today: date) -> DayTotals:
    first_day = today - timedelta(days=SHOWN - 1)
    day_sums: defaultdict[date, tuple[Any, ...]] = defaultdict(lambda: _NOTHING)
    agent_sums: defaultdict[str, tuple[Any, ...]] = defaultdict(lambda: _NOTHING)
    for day, agent, *amounts in _query_session_days(workspace, first_day, today):
        day_sums[day] = tuple(map(add, day_sums[day], amounts))
        agent_sums[agent] = tuple(map(add, agent_sums[agent], amounts))
    all_days = [first_day + timedelta(days=offset) for offset in range(SHOWN)]
    by_day = tuple((day, SessionTotals(*day_sums[day])) for day in all_days)
    by_agent = [(agent, SessionTotals(*sums)) for agent, sums in agent_sums.items()]
    ranked = sorted(by_agent, key=lambda pair: (-pair[1].cost, -pair[1].sessions, pair[0]))
    total = sum((sums for _, sums in by_agent), SessionTotals())
    return DayTotals(by_day, tuple(ranked[:NAMED]), max(0, len(ranked) - NAMED), total)


def load_tool_totals(workspace: int, today: date) -> list[ToolTotals]:
    first_day = today - timedelta(days=SHOWN - 1)
    return [
        ToolTotals(
            row["tool"], row["all"], row["bad"], row["lost"], row["took"] / row["ended"] if row["ended"] else None
        )
        for row in _query_tool_sums(workspace, first_day, today)
        if row["all"]
    ]


def _query_session_days(workspace: int, first_day: date, last_day: date) -> QuerySet[SessionDay, tuple[Any, ...]]:
    """Select day, agent and the fields of `SessionTotals`."""
    session_days = SessionDay.objects.filter(workspace=workspace, day__gte=first_day, day__lte=last_day)
    return session_days.values_list("day", "agent", "sessions", "completed", "failed", "cost")


def _query_tool_sums(workspace: int, first_day: date, last_day: date) -> QuerySet[Any, Any]:
    rows = (
        ToolDay.objects.filter(workspace=workspace, day__gte=first_day, day__lte=last_day)
        .values("tool")
        .order_by("tool")
    )
    return rows.annotate(
        all=Sum("calls"), lost=Sum("interrupted"), bad=Sum("failed"), ended=Sum("timed"), took=Sum("seconds")
    )


def sort_slowest_tools(found: Iterable[ToolTotals]) -> list[ToolTotals]:
    tools_with_mean = [tool for tool in found if tool.mean is not None]
    return sorted(tools_with_mean, key=lambda tool: (-(tool.mean or 0), tool.name))[:TOOLS]


def sort_most_interrupted_tools(found: Iterable[ToolTotals]) -> list[ToolTotals]:
    """Sort tools by their share of interrupted calls; rarely called tools come last."""
    interrupted_tools = [tool for tool in found if tool.interrupted]
    return sorted(interrupted_tools, key=lambda tool: (tool.calls < ENOUGH, -tool.interrupted_share, tool.name))[:TOOLS]
