"""How the calls of each tool went, day by day: a call is added when it is read for the last time, so that each counts
once."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date

from django.db import connection

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from checkpoints.saving.naming import inserting, prepared, table
from harness_site.search.models import Kind, Passage, ToolDay

_NUMBERS = ("calls", "failed", "interrupted", "timed", "seconds")
_FIELDS = ("workspace", "day", "tool", *_NUMBERS)
_ADD = f"{inserting(ToolDay, _FIELDS)} ON CONFLICT (workspace_id, day, tool) DO UPDATE SET " + ", ".join(
    f"{name} = {table(ToolDay)}.{name} + excluded.{name}" for name in _NUMBERS
)
#: These say nothing about a tool: it was never asked, or another row says how it went.
_UNCOUNTED = frozenset({CallStatus.REJECTED, CallStatus.SUPERSEDED})


def count(keys: Iterable[int]) -> None:
    """Add these calls, which are settled for good, unless they are in the index as such. The caller holds the lock that
    lets one process at a time write the index."""
    calls = ToolCall.objects.filter(pk__in=list(keys)).exclude(status__in=_UNCOUNTED)
    counted = Passage.objects.filter(kind=Kind.CALL, part=0, open=False, source__in=calls.values("pk"))
    new = calls.exclude(pk__in=set(counted.values_list("source", flat=True)))
    sums: defaultdict[tuple[int, date, str], list[float]] = defaultdict(lambda: [0] * len(_NUMBERS))
    for call in new.defer("args", "result"):
        place = (call.workspace_id, call.issued_at.date(), call.tool)
        sums[place] = [one + other for one, other in zip(sums[place], _numbers(call), strict=True)]
    rows = [
        prepared(connection, ToolDay, dict(zip(_FIELDS, (*place, *added), strict=True)))
        for place, added in sorted(sums.items())
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, rows)


def _numbers(call: ToolCall) -> tuple[float, ...]:
    interrupted = call.interrupted_at is not None
    timed = not interrupted and call.settled_at is not None
    seconds = (call.settled_at - call.issued_at).total_seconds() if timed and call.settled_at else 0.0
    return 1, call.status == CallStatus.FAILED, interrupted, timed, max(seconds, 0.0)
