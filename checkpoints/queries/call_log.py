"""The calls of all sessions of a workspace, newest first, and how its tools do.

Whatever is asked for is looked for among the newest `LOOKED_AT` calls of the chosen days, so that a page takes the same
time however many there are. A page says how far back that reaches, and goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Avg, Count, DurationField, ExpressionWrapper, F, Q, QuerySet

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from checkpoints.queries import calls, keyset
from checkpoints.queries.calls import CallFilter, CallRecord
from checkpoints.queries.keyset import Cursor

LOOKED_AT = 10_000
#: The rates of the tools are those of so many of the newest calls.
RATED = 2_000
PAGE = 50
#: Tools that are listed with their rates.
_TOOLS = 100


@dataclass(frozen=True, slots=True)
class LogFilter:
    """`calls` as for one session; `agent` is a whole name; both days count."""

    calls: CallFilter = field(default_factory=CallFilter)
    agent: str = ""
    first: date | None = None
    last: date | None = None

    def __bool__(self) -> bool:
        return bool(self.calls or self.agent or self.first or self.last)


@dataclass(frozen=True, slots=True)
class LoggedCall:
    record: CallRecord
    session_pk: int
    session_name: str
    agent: str


@dataclass(frozen=True, slots=True)
class LogPage:
    """`after` is where the next page starts. Where more calls may match than were looked at, `reach` is when the
    oldest of these was issued."""

    rows: tuple[LoggedCall, ...]
    after: Cursor | None
    reach: datetime | None


@dataclass(frozen=True, slots=True)
class ToolRates:
    """What became of the calls of a tool; `took` is how long a completed one took on average."""

    tool: str
    calls: int
    completed: int
    failed: int
    interrupted: int
    replays: int
    took: timedelta | None


@dataclass(frozen=True, slots=True)
class Rates:
    """Over `counted` calls; `since` is when the oldest of them was issued, where there are older ones."""

    tools: tuple[ToolRates, ...]
    counted: int
    since: datetime | None


def page(workspace_pk: int, wanted: LogFilter, *, after: Cursor | None = None, size: int = PAGE) -> LogPage:
    chosen = _chosen(workspace_pk, wanted)
    if after is not None:
        chosen = chosen.filter(keyset.before(after, "issued_at"))
    chosen = _newest_first(chosen)
    end = _end(chosen, LOOKED_AT) if wanted.calls or wanted.agent else None
    found = chosen if end is None else chosen.filter(issued_at__gte=end.issued_at)
    found = wanted.calls.narrow(found)
    if wanted.agent:
        found = found.filter(session__agent=wanted.agent.replace("\0", ""))
    places = list(found.only("pk")[: size + 1])
    rows = _rows([place.pk for place in places[:size]])
    if len(places) > size:
        return LogPage(rows, _cursor(places[size - 1]), None)
    return LogPage(rows, None, None) if end is None else LogPage(rows, _cursor(end), end.issued_at)


def rates(workspace_pk: int, wanted: LogFilter) -> Rates:
    """How each tool did over the newest calls of the chosen days; other filters do not count."""
    chosen = _newest_first(_chosen(workspace_pk, wanted))
    end = _end(chosen, RATED)
    found = (chosen if end is None else chosen.filter(issued_at__gte=end.issued_at)).order_by()
    ran = ExpressionWrapper(F("settled_at") - F("issued_at"), output_field=DurationField())
    completed = Q(status=CallStatus.COMPLETED)
    grouped = found.values("tool").annotate(
        calls=Count("pk"),
        completed=Count("pk", filter=completed),
        failed=Count("pk", filter=Q(status=CallStatus.FAILED)),
        interrupted=Count("interrupted_at"),
        replays=Count("pk", filter=Q(replay_count__gt=0)),
        took=Avg(ran, filter=completed & Q(interrupted_at=None)),
    )
    tools = tuple(ToolRates(**row) for row in grouped.order_by("-calls", "tool")[:_TOOLS])
    return Rates(tools, sum(tool.calls for tool in tools), None if end is None else end.issued_at)


def _chosen(workspace_pk: int, wanted: LogFilter) -> QuerySet[ToolCall]:
    found = ToolCall.objects.filter(workspace=workspace_pk)
    if wanted.first:
        found = found.filter(issued_at__gte=_midnight(wanted.first))
    if wanted.last:
        found = found.filter(issued_at__lt=_midnight(wanted.last) + timedelta(days=1))
    return found


def _newest_first(found: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    return found.annotate(stored_time=keyset.stored_text("issued_at")).order_by("-issued_at", "-pk")


def _end(found: QuerySet[ToolCall], most: int) -> ToolCall | None:
    """The last of `most` calls; None where there are no more than that."""
    last = list(found.only("pk", "issued_at")[most - 1 : most + 1])
    return last[0] if len(last) > 1 else None


def _cursor(call: ToolCall) -> Cursor:
    return Cursor(str(call.stored_time), call.pk)  # type: ignore[attr-defined]


def _rows(pks: list[int]) -> tuple[LoggedCall, ...]:
    chosen = ToolCall.objects.filter(pk__in=pks)
    named = chosen.values_list("pk", "session__pk", "session__title", "session__session_id", "session__agent")
    found = {record.pk: record for record in calls.records(chosen, results=False)}
    logged = {
        pk: LoggedCall(found[pk], session_pk, title or name, agent)
        for pk, session_pk, title, name, agent in named
        if pk in found
    }
    return tuple(logged[pk] for pk in pks if pk in logged)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
