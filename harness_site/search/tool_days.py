"""How the calls of each tool went, day by day: a call is added when it is read for the last time, so that each counts
once."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import Any, TypeAlias

from django.db import connection

from checkpoints.enums import CallStatus
from checkpoints.saving.naming import inserting, prepared, table
from harness_site.search.models import ToolDay

#: Workspace, day, tool; and what a call adds to the numbers there.
Tally: TypeAlias = tuple[tuple[int, date, str], tuple[float, ...]]

_NUMBERS = ("calls", "failed", "interrupted", "timed", "seconds")
_FIELDS = ("workspace", "day", "tool", *_NUMBERS)
_ADD = f"{inserting(ToolDay, _FIELDS)} ON CONFLICT (workspace_id, day, tool) DO UPDATE SET " + ", ".join(
    f"{name} = {table(ToolDay)}.{name} + excluded.{name}" for name in _NUMBERS
)
#: These say nothing about a tool: it was never asked, or another row says how it went.
_UNCOUNTED = frozenset({CallStatus.REJECTED, CallStatus.SUPERSEDED})


def tally(workspace: int, call: Any) -> Tally | None:
    """What a call adds that is settled for good; `call` has the fields of `ToolCall` that say so."""
    if call.status in _UNCOUNTED:
        return None
    interrupted = call.interrupted_at is not None
    timed = not interrupted and call.settled_at is not None
    seconds = (call.settled_at - call.issued_at).total_seconds() if timed else 0.0
    numbers = (1, call.status == CallStatus.FAILED, interrupted, timed, max(seconds, 0.0))
    return (workspace, call.issued_at.date(), call.tool), numbers


def add(tallies: Iterable[Tally]) -> None:
    """The caller sees to it that each call comes once: it goes into the index with this, and nobody else writes
    that."""
    sums: defaultdict[tuple[int, date, str], list[float]] = defaultdict(lambda: [0] * len(_NUMBERS))
    for place, numbers in tallies:
        sums[place] = [one + other for one, other in zip(sums[place], numbers, strict=True)]
    rows = [
        prepared(connection, ToolDay, dict(zip(_FIELDS, (*place, *added), strict=True)))
        for place, added in sorted(sums.items())
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, rows)
