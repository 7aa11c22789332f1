"""The calls that a session issued between two moments: the first of them, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from checkpoints.models import ToolCall
from checkpoints.queries import calls, keyset
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.instants import closed

#: So many are read, and so many counted.
FIRST = 20
COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Between:
    """The `FIRST` calls, the oldest first and without their results, and how many there are in all; with `uncounted`
    there are more than `COUNTED`, which is the `count` then."""

    first: tuple[CallRecord, ...] = ()
    count: int = 0
    uncounted: bool = False

    @property
    def further(self) -> int:
        return self.count - len(self.first)


def read(session_pk: int, after: datetime | None, upto: datetime) -> Between:
    """The calls issued after `after` (None: from the start) and not after `upto`."""
    since, until = closed(after, upto)
    rows = list(_first(session_pk, since, until))
    count = len(rows) if len(rows) <= FIRST else _counted(session_pk, since, until).count()
    first = calls.with_rulings(rows[:FIRST], results=False)
    return Between(first, min(count, COUNTED), uncounted=count > COUNTED)


def _first(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    issued = _issued(session, after, upto).order_by(keyset.oldest())
    return calls.logged(issued.defer("result")[: FIRST + 1])


def _counted(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    return _issued(session, after, upto)[: COUNTED + 1]


def _issued(session: int, after: datetime, upto: datetime) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(session=session, issued_at__gt=after, issued_at__lte=upto)
