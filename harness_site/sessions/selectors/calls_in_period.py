"""Calls that a session issued between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.models import ToolCall
from harness_site.core.epoch_microseconds import close_open_range
from harness_site.sessions.selectors import call_details
from harness_site.sessions.selectors.call_details import CallRecord

#: Maximum numbers of calls read and counted.
FIRST = 20
COUNTED = 1000


@dataclass(frozen=True, slots=True)
class CallsBetween:
    """The oldest `FIRST` calls without their results, and the number of all.

    If `uncounted`, there are more than `COUNTED`, and `count` is `COUNTED`.
    """

    first: tuple[CallRecord, ...] = ()
    count: int = 0
    uncounted: bool = False

    @property
    def count_further_calls(self) -> int:
        return self.count - len(self.first)


def load_calls_in_period(session_pk: int, after: datetime | None, upto: datetime) -> CallsBetween:
    """Load the calls issued after `after` (None: from the start) up to and including `upto`."""
    since, until = close_open_range(after, upto)
    rows = list(_query_first_calls(session_pk, since, until))
    count = len(rows) if len(rows) <= FIRST else _query_counted_calls(session_pk, since, until).count()
    first = call_details.attach_decisions(rows[:FIRST], results=False)
    return CallsBetween(first, min(count, COUNTED), uncounted=count > COUNTED)


def _query_first_calls(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    issued = _query_issued_calls(session, after, upto).order_by(keyset_pagination.order_oldest_first())
    return call_details.select_record_columns(issued.defer("result")[: FIRST + 1])


def _query_counted_calls(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    return _query_issued_calls(session, after, upto)[: COUNTED + 1]


def _query_issued_calls(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session=session, issued_at__gt=after, issued_at__lte=upto)
