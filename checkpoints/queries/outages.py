"""Calls that were lost together: of the same tool, each within a few minutes of the next."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
    Window,
)
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Coalesce, Lag, Lead, RowNumber

from checkpoints.enums import CallStatus, DecisionKind, InterruptReason
from checkpoints.models import LateResult, ToolCall, Workspace

#: Losses of the same tool that follow each other within this time are one outage.
GAP: Final = timedelta(minutes=5)
#: So many lost calls are looked at to find outages, the newest, and so many of one are on a page.
LOOKED_AT: Final = 2000
PAGE: Final = 100
#: Whether a call waits, as a number, so that those that do come first.
_WAITS: Final = Case(When(status=CallStatus.INTERRUPTED, then=Value(0)), default=Value(1), output_field=IntegerField())
#: Before any loss.
_EVER: Final = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Outage:
    """The undecided calls of `tool` that were lost from `first` to `last`: `number` of them, two or more."""

    tool: str
    first: datetime
    last: datetime
    number: int


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
    ends = iter(_ends(workspace.pk))
    found = [
        Outage(tool, first, last, place - before + 1)
        for (tool, first, before), (_, last, place) in zip(ends, ends, strict=True)
    ]
    return sorted(found, key=lambda one: (one.first, one.tool))


def together(calls: Iterable[ToolCall], found: Sequence[Outage]) -> dict[int, Outage]:
    """In which of these outages each call was lost, by its primary key; without those that were lost in none."""
    of_tool: defaultdict[str, list[Outage]] = defaultdict(list)
    for outage in sorted(found, key=lambda one: one.first):
        of_tool[outage.tool].append(outage)
    lost = [call for call in calls if call.status == CallStatus.INTERRUPTED and call.reason == InterruptReason.RUN_LOST]
    return {call.pk: one for call in lost if (one := _at(of_tool[call.tool], call.interrupted_at)) is not None}


def _at(outages: Sequence[Outage], moment: datetime | None) -> Outage | None:
    """The one that `moment` lies in. They are in order and do not overlap."""
    if moment is None:
        return None
    place = bisect_right(outages, moment, key=lambda one: one.first)
    return outages[place - 1] if place and moment <= outages[place - 1].last else None


def _ends(workspace: int) -> QuerySet[ToolCall, tuple[str, Any, int]]:
    """The first and the last call of each outage: tool, time of the loss, place among all that the tool lost."""
    lost = ToolCall.objects.filter(workspace=workspace, status=CallStatus.INTERRUPTED, reason=InterruptReason.RUN_LOST)
    newest = lost.exclude(interrupted_at=None).order_by("-interrupted_at").values("interrupted_at")
    oldest = Coalesce(Subquery(newest[LOOKED_AT - 1 : LOOKED_AT]), Value(_EVER, output_field=DateTimeField()))
    one_after_another: Any = {"partition_by": "tool", "order_by": ["interrupted_at", "pk"]}
    placed = lost.filter(interrupted_at__gte=oldest).annotate(
        before=_apart(F("interrupted_at") - Window(Lag("interrupted_at"), **one_after_another)),
        behind=_apart(Window(Lead("interrupted_at"), **one_after_another) - F("interrupted_at")),
        place=Window(RowNumber(), **one_after_another),
    )
    first, last = (Q(**{side: None}) | Q(**{f"{side}__gt": GAP}) for side in ("before", "behind"))
    ends = placed.filter((first & ~last) | (last & ~first))  # what is both was lost alone
    return ends.order_by("tool", "place").values_list("tool", "interrupted_at", "place")


def _apart(times: CombinedExpression) -> ExpressionWrapper[CombinedExpression]:
    return ExpressionWrapper(times, output_field=DurationField())


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
