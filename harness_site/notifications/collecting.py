"""Noticing that calls wait, and writing down whom to tell.

Nothing here is in the way of an agent: calls are found by what the store says of them, not by a hook in its writes. A
call that was not told of yet is one without a row in `NoticedCall`, so nothing is missed whatever committed when. What
happens to many calls of a tool at about the same time is one notice, and one message for each recipient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from checkpoints import clock
from checkpoints.enums import UNDECIDED_CALL
from checkpoints.models import ToolCall, Workspace
from checkpoints.queries.unreadable import read_part
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall
from harness_site.notifications.recipients import recipients

#: How long a notice takes in more of the same before it is sent: longer than two rounds of the sweeper, and long
#: enough for a verify hook to settle a call that nobody has to look at then.
GATHER: Final = timedelta(seconds=10)
#: So long after one notice, another one of the same tool and event waits and takes in what comes.
APART: Final = {Event.INTERRUPTED: timedelta(minutes=5), Event.AWAITING_APPROVAL: timedelta(minutes=1)}
#: A reminder comes when this part of the time is left, and not earlier than the other.
LAST_PART: Final = 4
LAST_TIME: Final = timedelta(hours=1)
#: Calls that one round takes in for each workspace; the next one goes on.
LIMIT: Final = 1000


def collect() -> int:
    """Write down what there is to tell, in all workspaces; returns of how many calls. Any number of processes may do
    this at once."""
    fresh = set(_fresh().values_list("workspace_id", flat=True).distinct())
    return sum(_collect(workspace) for workspace in sorted(fresh | _with_deadlines()))


def _collect(workspace: int) -> int:
    with transaction.atomic():
        # One process at a time for each workspace; another one that comes meanwhile finds it done.
        turn = Workspace.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=workspace)
        if not list(turn):
            return 0
        groups: defaultdict[tuple[Event, str], list[ToolCall]] = defaultdict(list)
        for call in _fresh().filter(workspace=workspace).order_by("pk")[:LIMIT]:
            groups[Event(call.status), call.tool].append(call)
        now = clock.database_now("default")
        for call in _limited().filter(workspace=workspace).order_by("pk"):
            if (event := _readable_deadline_event(call, now)) is not None:
                groups[event, call.tool].append(call)
        for (event, tool), calls in groups.items():
            _tell(workspace, event, tool, calls, now)
    return sum(map(len, groups.values()))


def _fresh() -> QuerySet[ToolCall]:
    """Calls that wait, and nobody was told that they do."""
    told = NoticedCall.objects.filter(tool_call=OuterRef("pk"), event=OuterRef("status"), status=OuterRef("status"))
    return ToolCall.objects.filter(~Exists(told), status__in=sorted(UNDECIDED_CALL))


def _limited() -> QuerySet[ToolCall]:
    """Calls that wait with a deadline whose passing was not told yet; `reminded` says whether its nearness was."""
    told = NoticedCall.objects.filter(tool_call=OuterRef("pk"), status=OuterRef("status"))
    limited = ToolCall.objects.filter(
        ~Exists(told.filter(event=Event.ESCALATION)), status__in=sorted(UNDECIDED_CALL), decide_within__isnull=False
    )
    return limited.annotate(reminded=Exists(told.filter(event=Event.REMINDER)))


def _with_deadlines() -> set[int]:
    calls = list(_limited())
    if not calls:
        return set()
    now = clock.database_now("default")
    return {call.workspace_id for call in calls if _readable_deadline_event(call, now) is not None}


def _readable_deadline_event(call: ToolCall, now: datetime) -> Event | None:
    """The same, and None where a record cannot be read: it keeps nobody from being told of others."""
    return read_part(f"The deadline of call {call.pk}", lambda: _deadline_event(call, now), None)


def _deadline_event(call: ToolCall, now: datetime) -> Event | None:
    deadline, within = call.deadline, call.decide_within
    if deadline is None or within is None:
        return None
    if deadline <= now:
        return Event.ESCALATION
    near = deadline - min(within / LAST_PART, LAST_TIME) <= now
    return Event.REMINDER if near and not call.reminded else None  # type: ignore[attr-defined]


def _tell(workspace: int, event: Event, tool: str, calls: Iterable[ToolCall], now: datetime) -> None:
    alike = Notice.objects.filter(workspace=workspace, event=event, tool=tool).order_by("-pk")
    # Locked until this commits: it cannot be closed, and sent, without these calls.
    notice = alike.select_for_update().filter(closed=False).first()
    if notice is None:
        notice = _opened(workspace, event, tool, alike.first(), now)
    NoticedCall.objects.bulk_create(
        [NoticedCall(notice=notice, tool_call=call, event=event, status=call.status) for call in calls]
    )


def _opened(workspace: int, event: Event, tool: str, last: Notice | None, now: datetime) -> Notice:
    send_at = now + GATHER
    if last is not None and event in APART:
        send_at = max(send_at, last.send_at + APART[event])
    notice = Notice.objects.create(workspace_id=workspace, event=event, tool=tool, send_at=send_at)
    Delivery.objects.bulk_create(
        [
            Delivery(notice=notice, webhook=one.webhook, user=one.user, recipient=one.label, due_at=send_at)
            for one in recipients(workspace, event)
        ]
    )
    return notice
