"""Sort orders of the review queue, with keyset pagination."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

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
from django.db.models.lookups import LessThan
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import Risk
from checkpoints.models import ToolCall

#: Deadline of calls without one, so that they sort last.
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
#: Upper bound of the time to decide, so that the deadline is representable.
_MAX_TIME_TO_DECIDE = timedelta(days=365_000)
#: Time since when a call waits, as the index of the undecided calls has it.
WAITING_SINCE: Final = Coalesce("interrupted_at", "issued_at")


def build_waiting_sort_key(since: datetime, pk: int) -> tuple[datetime, int]:
    """Build the key by which calls that have waited longest come first, as `QueueSort.OLDEST` orders them.

    Calls with equal times are in the order in which they were stored.
    """
    return since, pk


class QueueSort(TextChoices):
    OLDEST = "oldest", _("Due within a day, then longest waiting")
    DEADLINE = "deadline", _("Nearest deadline")
    RISK = "risk", _("Highest risk, then nearest deadline")


def build_deadline_expression() -> Any:
    """Build the expression for the deadline of a call that waits; NULL without one."""
    time_limit = Case(
        When(decide_within__gt=_MAX_TIME_TO_DECIDE, then=Value(_MAX_TIME_TO_DECIDE, output_field=DurationField())),
        default=F("decide_within"),
        output_field=DurationField(),
    )
    return ExpressionWrapper(WAITING_SINCE + time_limit, output_field=DateTimeField())


def list_sort_keys_of_queue_calls_after_key(
    calls: QuerySet[ToolCall], sort: QueueSort, *, after: int | None, limit: int
) -> list[tuple[Any, ...]]:
    """List the sort keys of the first `limit` waiting `calls`, in the order of the queue.

    The last part of a key is the primary key of the call. With `after`, the primary key of a call, the list begins
    below that call. It may have been decided since, because its sort keys do not change; if it no longer exists, the
    list begins at the first call.
    """
    ordered = select_sort_keys_of_queue_calls(calls, sort)
    if after is not None:
        keys = _build_sort_keys(sort)
        last_row = ToolCall.objects.filter(pk=after).annotate(**keys)
        if last_row.exists():
            ordered = ordered.filter(_build_after_row_condition(last_row, [*keys, "pk"]))
    return list(ordered[:limit])


def select_sort_keys_of_queue_calls(calls: QuerySet[ToolCall], sort: QueueSort) -> QuerySet[Any, Any]:
    """Select the sort keys of `calls`, which wait, in their order; each ends with the primary key."""
    keys = _build_sort_keys(sort)
    return calls.annotate(**keys).order_by(*keys, "pk").values_list(*keys, "pk")


def order_queue_calls_from_row_below(
    calls: QuerySet[ToolCall], sort: QueueSort, call: ToolCall, *, due_first_before: datetime | None
) -> QuerySet[ToolCall]:
    """Order `calls`, which wait, as a list in this order that begins below `call`.

    Those above it come last; their `place_above` is 1, and that of the others 0. With `due_first_before`, the calls
    with an earlier deadline are the first of the list, the nearest deadline before the others.
    """
    keys = {**_build_key_of_due_calls(due_first_before), **_build_sort_keys(sort)}
    row = ToolCall.objects.filter(pk=call.pk).annotate(**keys)
    is_below = When(_build_after_row_condition(row, [*keys, "pk"]), then=Value(0))
    above = Case(is_below, default=Value(1), output_field=IntegerField())
    return calls.annotate(**keys).annotate(place_above=above).order_by("place_above", *keys, "pk")


def _build_key_of_due_calls(before: datetime | None) -> dict[str, Any]:
    """Build the sort key by which the calls with a deadline before this time come first; none without a time."""
    if before is None:
        return {}
    deadline = build_deadline_expression()
    is_due = When(LessThan(deadline, Value(before, output_field=DateTimeField())), then=deadline)
    return {"place_due": Case(is_due, default=Value(_NEVER, output_field=DateTimeField()))}


def _build_sort_keys(sort: QueueSort) -> dict[str, Any]:
    """Build the sort keys of calls that wait."""
    waiting_since = {"place_since": WAITING_SINCE}
    if sort == QueueSort.OLDEST:
        return waiting_since
    never = Value(_NEVER, output_field=DateTimeField())
    by_deadline = {"place_deadline": Coalesce(build_deadline_expression(), never), **waiting_since}
    if sort == QueueSort.DEADLINE:
        return by_deadline
    ranks = [When(risk=risk, then=Value(rank)) for rank, risk in enumerate(reversed(Risk))]
    return {"place_risk": Case(*ranks, default=Value(0), output_field=IntegerField()), **by_deadline}


def _build_after_row_condition(last_row: QuerySet[ToolCall], keys: list[str]) -> Q:
    """Build the condition that the sort keys are greater than those of `last_row`."""
    condition = Q()
    for index, key in enumerate(keys):
        same = {name: Subquery(last_row.values(name)[:1]) for name in keys[:index]}
        condition |= Q(**same, **{f"{key}__gt": Subquery(last_row.values(key)[:1])})
    return condition
