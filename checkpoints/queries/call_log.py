"""The calls of all sessions of a workspace, newest first, and how its tools do.

Whatever is asked for is looked for among the newest `LOOKED_AT` calls of the chosen days, so that a page takes the same
time however many there are. A page says how far back that reaches, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

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
#: Days that nobody has chosen.
_ALWAYS = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


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
    chosen = _issued(workspace_pk, *_days(wanted))
    if after is not None:
        chosen = chosen.filter(keyset.before(after, "issued_at"))
    chosen = _newest_first(chosen)
    end = _older(list(_place(chosen, LOOKED_AT))) if wanted.calls or wanted.agent else None
    found = chosen
    if end is not None:
        found = found.filter(issued_at__gte=end.issued_at).exclude(issued_at=end.issued_at, pk__lt=end.pk)
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
    since, until = _days(wanted)
    end = _older(list(_rated(workspace_pk, since, until)))
    grouped = _sums(workspace_pk, since if end is None else end.issued_at, until)
    tools = tuple(ToolRates(**row) for row in grouped)
    return Rates(tools, sum(tool.calls for tool in tools), None if end is None else end.issued_at)


def _rated(workspace: int, since: datetime, until: datetime) -> QuerySet[ToolCall]:
    return _place(_newest_first(_issued(workspace, since, until)), RATED)


def _sums(workspace: int, since: datetime, until: datetime) -> QuerySet[Any, Any]:
    ran = ExpressionWrapper(F("settled_at") - F("issued_at"), output_field=DurationField())
    completed = Q(status=CallStatus.COMPLETED)
    sums = (
        _issued(workspace, since, until)
        .values("tool")
        .annotate(
            calls=Count("pk"),
            completed=Count("pk", filter=completed),
            failed=Count("pk", filter=Q(status=CallStatus.FAILED)),
            interrupted=Count("interrupted_at"),
            replays=Count("pk", filter=Q(replay_count__gt=0)),
            took=Avg(ran, filter=completed & Q(interrupted_at=None)),
        )
    )
    return sums.order_by("-calls", "tool")[:_TOOLS]


def _days(wanted: LogFilter) -> tuple[datetime, datetime]:
    """From when and until when the chosen calls were issued, the end excluded."""
    since = _midnight(wanted.first) if wanted.first else _ALWAYS[0]
    return since, _midnight(wanted.last) + timedelta(days=1) if wanted.last else _ALWAYS[1]


def _issued(workspace: int, since: datetime, until: datetime) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(workspace=workspace, issued_at__gte=since, issued_at__lt=until)


def _newest_first(found: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    return found.annotate(stored_time=keyset.stored_text("issued_at")).order_by("-issued_at", "-pk")


def _place(found: QuerySet[ToolCall], most: int) -> QuerySet[ToolCall]:
    """The last of `most` calls, and the one behind it."""
    return found.only("pk", "issued_at")[most - 1 : most + 1]


def _older(last: Sequence[ToolCall]) -> ToolCall | None:
    """The last of the calls that count; None where there are no more than these."""
    return last[0] if len(last) > 1 else None


def _cursor(call: ToolCall) -> Cursor:
    return Cursor(str(call.stored_time), call.pk)  # type: ignore[attr-defined]


def _rows(pks: list[int]) -> tuple[LoggedCall, ...]:
    found = {record.pk: record for record in calls.these(pks)}
    named = _named(pks) if found else []
    logged = {
        pk: LoggedCall(found[pk], session_pk, title or name, agent)
        for pk, session_pk, title, name, agent in named
        if pk in found
    }
    return tuple(logged[pk] for pk in pks if pk in logged)


def _named(pks: list[int]) -> QuerySet[ToolCall, tuple[int, int, str, str, str]]:
    calls = ToolCall.objects.filter(pk__in=pks)
    return calls.values_list("pk", "session__pk", "session__title", "session__session_id", "session__agent")


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
