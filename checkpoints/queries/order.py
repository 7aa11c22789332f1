"""In which order calls wait, and where a page of them goes on: after a row that the address names by its key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import (
    Case,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    Q,
    QuerySet,
    Subquery,
    TextChoices,
    Value,
    When,
)
from django.db.models.functions import Coalesce

from checkpoints.enums import CallStatus, Risk
from checkpoints.models import ToolCall

#: A call without a deadline comes after all that have one.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
#: A longer limit would lie beyond the end of time.
_LONGEST = timedelta(days=365_000)
_SINCE = {CallStatus.INTERRUPTED: "interrupted_at", CallStatus.AWAITING_APPROVAL: "issued_at"}


class Sort(TextChoices):
    OLDEST = "oldest", "Longest waiting"
    DEADLINE = "deadline", "Deadline"
    RISK = "risk", "Risk"


def since(status: CallStatus) -> str:
    """The column that says since when a call waits in this status."""
    return _SINCE[status]


def deadline(status: CallStatus) -> Any:
    """Until when a call has to be decided; NULL where there is no limit."""
    within = Case(
        When(decide_within__gt=_LONGEST, then=Value(_LONGEST, output_field=DurationField())),
        default=F("decide_within"),
        output_field=DurationField(),
    )
    return ExpressionWrapper(F(since(status)) + within, output_field=DateTimeField())


def ordered(calls: QuerySet[ToolCall], sort: Sort, status: CallStatus, *, after: int | None) -> QuerySet[ToolCall]:
    """`calls` in this order. With `after`, those behind the call of that key; it may have been decided since, because
    what it is ordered by stays. Where it is gone, from the beginning."""
    keys = _keys(sort, status)
    found = calls.alias(**keys)
    if after is not None:
        last = ToolCall.objects.filter(pk=after).annotate(**keys)
        if last.exists():
            found = found.filter(_behind(last, [*keys, "pk"]))
    return found.order_by(*keys, "pk")


def _keys(sort: Sort, status: CallStatus) -> dict[str, Any]:
    waiting_since = {"place_since": F(since(status))}
    if sort == Sort.RISK:
        ranks = [When(risk=risk, then=Value(rank)) for rank, risk in enumerate(reversed(Risk))]
        return {"place_risk": Case(*ranks, default=Value(0), output_field=IntegerField()), **waiting_since}
    if sort == Sort.DEADLINE:
        never = Value(_NEVER, output_field=DateTimeField())
        return {"place_deadline": Coalesce(deadline(status), never), **waiting_since}
    return waiting_since


def _behind(last: QuerySet[ToolCall], keys: list[str]) -> Q:
    """Greater than the row `last`, key by key."""
    found = Q()
    for index, key in enumerate(keys):
        same = {name: Subquery(last.values(name)[:1]) for name in keys[:index]}
        found |= Q(**same, **{f"{key}__gt": Subquery(last.values(key)[:1])})
    return found
