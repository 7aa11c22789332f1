"""Outcomes of the calls of each tool by day. A call is counted once, when it is indexed for the last time."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Any, TypeAlias

from django.db import connection

from checkpoints.db.column_names import build_insert, convert_values, quote_table
from checkpoints.enums import CallStatus
from harness_site.search.models import ToolDay

#: (Workspace, day, tool), and the amounts that a call adds to the columns.
Tally: TypeAlias = tuple[tuple[int, date, str], tuple[float, ...]]

_NUMBERS = ("calls", "failed", "interrupted", "timed", "seconds")
_FIELDS = ("workspace", "day", "tool", *_NUMBERS)
_ADD = f"{build_insert(ToolDay, _FIELDS)} ON CONFLICT (workspace_id, day, tool) DO UPDATE SET " + ", ".join(
    f"{name} = {quote_table(ToolDay)}.{name} + excluded.{name}" for name in _NUMBERS
)
#: Statuses that tell nothing about a tool: it did not run, or another row has the outcome.
_UNCOUNTED = frozenset({CallStatus.REJECTED, CallStatus.SUPERSEDED})


def compute_call_tally(workspace: int, call: Any) -> Tally | None:
    """Return the amounts of a call that is settled for good; `call` has the required fields of `ToolCall`."""
    if call.status in _UNCOUNTED:
        return None
    interrupted = call.interrupted_at is not None
    timed = not interrupted and call.settled_at is not None
    seconds = (call.settled_at - call.issued_at).total_seconds() if timed else 0.0
    numbers = (1, call.status == CallStatus.FAILED, interrupted, timed, max(seconds, 0.0))
    return (workspace, call.issued_at.date(), call.tool), numbers


def add_tallies(tallies: Iterable[Tally]) -> None:
    """Add tallies to the days.

    Each call has to be passed once, in the transaction that indexes it.
    """
    sums: defaultdict[tuple[int, date, str], list[float]] = defaultdict(lambda: [0] * len(_NUMBERS))
    for key, numbers in tallies:
        sums[key] = [total + number for total, number in zip(sums[key], numbers, strict=True)]
    rows = [
        convert_values(connection, ToolDay, dict(zip(_FIELDS, (*key, *totals), strict=True)))
        for key, totals in sorted(sums.items())
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, rows)
