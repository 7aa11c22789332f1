"""Calls that were lost together: of the same tool, each within a few minutes of the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from django.db.models import Case, IntegerField, Value, When

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason
from checkpoints.models import LateResult, ToolCall, Workspace

#: Losses of the same tool that follow each other within this time are one outage.
GAP: Final = timedelta(minutes=5)
#: So many lost calls are looked at to find outages, and so many of one are shown.
LOOKED_AT: Final = 2000
PAGE: Final = 100

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


def calls_of(workspace: Workspace, tool: str, first: datetime, last: datetime) -> list[ToolCall]:
    """The calls of `tool` that were lost from `first` to `last`, whatever became of them since, and one more than a
    page of them where there are more. Those that wait come first."""
    lost = ToolCall.objects.filter(
        workspace=workspace,
        tool=tool,
        reason=InterruptReason.RUN_LOST,
        interrupted_at__gte=first,
        interrupted_at__lte=last,
    )
    waits = Case(When(status=CallStatus.INTERRUPTED, then=Value(0)), default=Value(1), output_field=IntegerField())
    related = lost.select_related("session__owner", "session__workspace", "run")
    return list(related.order_by(waits, "interrupted_at", "pk")[: PAGE + 1])


def witness(late: Iterable[LateResult]) -> Witness | None:
    """What all of these late results of one call say; None where there is none, or they contradict each other."""
    said = {(one.success, one.result): one for one in late}
    if len({success for success, _ in said}) != 1 or (len(said) > 1 and any(success for success, _ in said)):
        return None
    one = next(iter(said.values()))
    kind = DecisionKind.CONFIRM_LANDED if one.success else DecisionKind.MARK_FAILED
    return Witness(kind, one.result_text or "", one)
