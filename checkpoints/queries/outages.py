"""Calls that were lost together: of the same tool, each within a few minutes of the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Subquery, Value, When

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason
from checkpoints.models import LateResult, ToolCall, Workspace

#: Losses of the same tool that follow each other within this time are one outage.
GAP: Final = timedelta(minutes=5)
#: So many lost calls are looked at to find outages, and so many of one are on a page.
LOOKED_AT: Final = 2000
PAGE: Final = 100
#: Whether a call waits, as a number, so that those that do come first.
_WAITS: Final = Case(When(status=CallStatus.INTERRUPTED, then=Value(0)), default=Value(1), output_field=IntegerField())

#: Tool, time of the loss, key of the call.
Row: TypeAlias = tuple[str, datetime, int]


@dataclass(frozen=True, slots=True)
class Outage:
    """The undecided calls `pks` of `tool` that were lost from `first` to `last`, two or more of them."""

    tool: str
    first: datetime
    last: datetime
    pks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """A page of the calls of an outage, those that wait first. `total` and `undecided` count all of them, `following`
    those behind this page."""

    calls: tuple[ToolCall, ...]
    total: int
    undecided: int
    following: int


@dataclass(frozen=True, slots=True)
class Witness:
    """What late results say about a call when all of them say the same: that it happened, with `result`, or not."""

    kind: DecisionKind
    result: str
    late: LateResult


def open_outages(workspace: Workspace) -> list[Outage]:
    """The outages whose calls wait for a decision, the earliest first; one query."""
    lost = ToolCall.objects.filter(
        workspace=workspace, status=CallStatus.INTERRUPTED, reason=InterruptReason.RUN_LOST
    ).order_by("tool", "interrupted_at", "pk")
    found: list[list[Row]] = []
    for tool, at, pk in lost.values_list("tool", "interrupted_at", "pk")[:LOOKED_AT]:
        if at is None:
            continue
        row = (tool, at, pk)
        if found and _together(found[-1][-1], row):
            found[-1].append(row)
        else:
            found.append([row])
    outages = [Outage(rows[0][0], rows[0][1], rows[-1][1], tuple(row[2] for row in rows)) for rows in found]
    return sorted((one for one in outages if len(one.pks) > 1), key=lambda one: (one.first, one.tool))


def _together(one: Row, other: Row) -> bool:
    return one[0] == other[0] and other[1] - one[1] <= GAP


def calls_of(workspace: Workspace, tool: str, first: datetime, last: datetime, *, after: int | None = None) -> Lost:
    """The calls of `tool` that were lost from `first` to `last`, whatever became of them since, from the one behind the
    call `after` on; two queries, one more where there are several pages, and one for a later page."""
    lost = ToolCall.objects.filter(
        workspace=workspace,
        tool=tool,
        reason=InterruptReason.RUN_LOST,
        interrupted_at__gte=first,
        interrupted_at__lte=last,
    )
    counts = lost.aggregate(total=Count("pk"), undecided=Count("pk", filter=Q(status=CallStatus.INTERRUPTED)))
    behind = lost if after is None else _behind(lost, after)
    related = behind.select_related("session__owner", "session__workspace", "run")
    calls = tuple(related.order_by(_WAITS, "interrupted_at", "pk")[:PAGE])
    following = behind.count() - PAGE if counts["total"] > PAGE else 0
    return Lost(calls, counts["total"], counts["undecided"], max(following, 0))


def _behind(lost: QuerySet[ToolCall], after: int) -> QuerySet[ToolCall]:
    """From the one behind a call on; from the first one on where there is no such call."""
    place = lost.filter(pk=after)
    status = place.values_list("status", flat=True).first()
    if status is None:
        return lost
    # The database compares its own writing of a time; one that came through here may have other digits.
    at, waits = Subquery(place.values("interrupted_at")[:1]), Q(status=CallStatus.INTERRUPTED)
    later = Q(interrupted_at__gt=at) | Q(interrupted_at=at, pk__gt=after)
    return lost.filter(waits & later | ~waits if status == CallStatus.INTERRUPTED else ~waits & later)


def witness(late: Iterable[LateResult]) -> Witness | None:
    """What all of these late results of one call say; None where there is none, or they contradict each other."""
    said = {(one.success, one.result): one for one in late}
    if len({success for success, _ in said}) != 1 or (len(said) > 1 and any(success for success, _ in said)):
        return None
    one = next(iter(said.values()))
    kind = DecisionKind.CONFIRM_LANDED if one.success else DecisionKind.MARK_FAILED
    return Witness(kind, one.result_text or "", one)
