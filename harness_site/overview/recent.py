"""The last days, from sums that are made in the background."""

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

#: Agents and tools that are named; the rest is one line.
NAMED: Final = 8
TOOLS: Final = 5
#: Of fewer calls, a share says nothing.
ENOUGH: Final = 3


@dataclass(frozen=True, slots=True)
class Sums:
    """Of sessions that began in some time: how many, what became of them, what they have cost."""

    sessions: int = 0
    completed: int = 0
    failed: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.sessions + other.sessions,
            self.completed + other.completed,
            self.failed + other.failed,
            self.cost + other.cost,
        )

    @property
    def open(self) -> int:
        """Neither completed nor failed."""
        return self.sessions - self.completed - self.failed


_NOTHING: Final = astuple(Sums())


@dataclass(frozen=True, slots=True)
class Days:
    """`others` are the agents that are not among the `by_agent`, which are those with the highest cost."""

    by_day: tuple[tuple[date, Sums], ...]
    by_agent: tuple[tuple[str, Sums], ...]
    others: int
    total: Sums

    @property
    def today(self) -> Sums:
        return self.by_day[-1][1]


@dataclass(frozen=True, slots=True)
class Tool:
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


def days(workspace: int, today: date) -> Days:
    first = today - timedelta(days=SHOWN - 1)
    day_sums: defaultdict[date, tuple[Any, ...]] = defaultdict(lambda: _NOTHING)
    agent_sums: defaultdict[str, tuple[Any, ...]] = defaultdict(lambda: _NOTHING)
    for day, agent, *amounts in _days(workspace, first, today):
        day_sums[day] = tuple(map(add, day_sums[day], amounts))
        agent_sums[agent] = tuple(map(add, agent_sums[agent], amounts))
    every = [first + timedelta(days=number) for number in range(SHOWN)]
    by_day = tuple((day, Sums(*day_sums[day])) for day in every)
    by_agent = [(agent, Sums(*sums)) for agent, sums in agent_sums.items()]
    ranked = sorted(by_agent, key=lambda pair: (-pair[1].cost, -pair[1].sessions, pair[0]))
    total = sum((sums for _, sums in by_agent), Sums())
    return Days(by_day, tuple(ranked[:NAMED]), max(0, len(ranked) - NAMED), total)


def tools(workspace: int, today: date) -> list[Tool]:
    first = today - timedelta(days=SHOWN - 1)
    return [
        Tool(row["tool"], row["all"], row["bad"], row["lost"], row["took"] / row["ended"] if row["ended"] else None)
        for row in _sums(workspace, first, today)
        if row["all"]
    ]


def _days(workspace: int, first: date, last: date) -> QuerySet[SessionDay, tuple[Any, ...]]:
    """Day, agent, and what `Sums` holds."""
    found = SessionDay.objects.filter(workspace=workspace, day__gte=first, day__lte=last)
    return found.values_list("day", "agent", "sessions", "completed", "failed", "cost")


def _sums(workspace: int, first: date, last: date) -> QuerySet[Any, Any]:
    rows = ToolDay.objects.filter(workspace=workspace, day__gte=first, day__lte=last).values("tool").order_by("tool")
    return rows.annotate(
        all=Sum("calls"), lost=Sum("interrupted"), bad=Sum("failed"), ended=Sum("timed"), took=Sum("seconds")
    )


def slowest(found: Iterable[Tool]) -> list[Tool]:
    timed = [tool for tool in found if tool.mean is not None]
    return sorted(timed, key=lambda tool: (-(tool.mean or 0), tool.name))[:TOOLS]


def most_interrupted(found: Iterable[Tool]) -> list[Tool]:
    """By their share; tools that are hardly called come last."""
    lost = [tool for tool in found if tool.interrupted]
    return sorted(lost, key=lambda tool: (tool.calls < ENOUGH, -tool.interrupted_share, tool.name))[:TOOLS]
