"""Sort orders of the review queue, with keyset pagination."""

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
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import CallStatus, Risk
from checkpoints.models import ToolCall

#: Deadline of calls without one, so that they sort last.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
#: Upper bound of the time to decide, so that the deadline is representable.
_MAX_TIME_TO_DECIDE = timedelta(days=365_000)
_SINCE = {CallStatus.INTERRUPTED: "interrupted_at", CallStatus.AWAITING_APPROVAL: "issued_at"}


class QueueSort(TextChoices):
    OLDEST = "oldest", _("Due within a day, then longest waiting")
    DEADLINE = "deadline", _("Nearest deadline")
    RISK = "risk", _("Highest risk, then longest waiting")


def get_waiting_since_column(status: CallStatus) -> str:
    """Return the column with the time since when a call waits in this status."""
    return _SINCE[status]


def build_deadline_expression(status: CallStatus | None) -> Any:
    """Build the expression for the deadline of a call that waits in a status, or in any (None); NULL without one."""
    since = Coalesce("interrupted_at", "issued_at") if status is None else F(get_waiting_since_column(status))
    time_limit = Case(
        When(decide_within__gt=_MAX_TIME_TO_DECIDE, then=Value(_MAX_TIME_TO_DECIDE, output_field=DurationField())),
        default=F("decide_within"),
        output_field=DurationField(),
    )
    return ExpressionWrapper(since + time_limit, output_field=DateTimeField())


def order_queue_calls_after_key(
    calls: QuerySet[ToolCall], sort: QueueSort, status: CallStatus, *, after: int | None
) -> QuerySet[ToolCall]:
    """Order `calls`; with `after`, only those after the call with that key.

    The call may have been decided since, because its sort keys do not change. If it no longer exists, all calls are
    returned.
    """
    keys = _build_sort_keys(sort, status)
    ordered = calls.alias(**keys)
    if after is not None:
        last_row = ToolCall.objects.filter(pk=after).annotate(**keys)
        if last_row.exists():
            ordered = ordered.filter(_build_after_row_condition(last_row, [*keys, "pk"]))
    return ordered.order_by(*keys, "pk")


def _build_sort_keys(sort: QueueSort, status: CallStatus) -> dict[str, Any]:
    waiting_since = {"place_since": F(get_waiting_since_column(status))}
    if sort == QueueSort.RISK:
        ranks = [When(risk=risk, then=Value(rank)) for rank, risk in enumerate(reversed(Risk))]
        return {"place_risk": Case(*ranks, default=Value(0), output_field=IntegerField()), **waiting_since}
    if sort == QueueSort.DEADLINE:
        never = Value(_NEVER, output_field=DateTimeField())
        return {"place_deadline": Coalesce(build_deadline_expression(status), never), **waiting_since}
    return waiting_since


def _build_after_row_condition(last_row: QuerySet[ToolCall], keys: list[str]) -> Q:
    """Build the condition that the sort keys are greater than those of the row `last`."""
    condition = Q()
    for index, key in enumerate(keys):
        same = {name: Subquery(last_row.values(name)[:1]) for name in keys[:index]}
        condition |= Q(**same, **{f"{key}__gt": Subquery(last_row.values(key)[:1])})
    return condition
