"""Collection of pending calls into notices, with a delivery for each recipient.

Calls are found by their stored status and not by a hook in the agents' writes, so agents are not slowed down. A call is
new if it has no row in `NoticedCall`, so none is missed, whatever the order of commits. Calls of one tool with the same
event at about the same time become one notice, and one message for each recipient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from checkpoints.db import clock
from checkpoints.enums import UNDECIDED_CALL_STATUSES
from checkpoints.models import ToolCall, Workspace
from harness_site.core.unreadable_rows_and_quarantine import call_or_use_fallback
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall
from harness_site.notifications.recipients import Recipient, is_call_of_high_risk, list_recipients

#: Time in which a notice collects calls before it is sent: longer than two rounds of the sweeper, and long enough for a
#: verify hook to settle a call that nobody has to look at then.
GATHER: Final = timedelta(seconds=10)
#: Minimum time between two notices of the same tool and event; the second one collects calls meanwhile.
APART: Final = {Event.INTERRUPTED: timedelta(minutes=5), Event.AWAITING_APPROVAL: timedelta(minutes=1)}
#: A reminder is due in the last quarter of the time to decide, but at most an hour before its end.
LAST_PART: Final = 4
LAST_TIME: Final = timedelta(hours=1)
#: Maximum number of calls per workspace and round.
LIMIT: Final = 1000


class _Group(NamedTuple):
    """What the calls of one notice have in common. A message about a deadline is for all recipients, so its calls are
    not told apart by their risk."""

    event: Event
    tool: str
    is_high_risk: bool = False


def create_due_notices() -> int:
    """Create the due notices of all workspaces; return the number of calls. Safe to run concurrently."""
    workspaces_with_new_calls = set(_query_unnoticed_pending_calls().values_list("workspace_id", flat=True).distinct())
    return sum(
        _create_notices_of_workspace(workspace)
        for workspace in sorted(workspaces_with_new_calls | _find_workspaces_with_due_deadline_events())
    )


def _create_notices_of_workspace(workspace: int) -> int:
    with transaction.atomic():
        # One process at a time for each workspace; a concurrent one skips it.
        workspace_lock = Workspace.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=workspace)
        if not list(workspace_lock):
            return 0
        groups: defaultdict[_Group, list[ToolCall]] = defaultdict(list)
        for call in _query_unnoticed_pending_calls().filter(workspace=workspace).order_by("pk")[:LIMIT]:
            groups[_Group(Event(call.status), call.tool, is_call_of_high_risk(call))].append(call)
        now = clock.read_database_time("default")
        for call in _query_pending_calls_with_unescalated_deadline().filter(workspace=workspace).order_by("pk"):
            if (event := _find_due_deadline_event_if_readable(call, now)) is not None:
                groups[_Group(event, call.tool)].append(call)
        for group, calls in groups.items():
            _add_calls_to_open_or_new_notice(workspace, group, calls, now)
    return sum(map(len, groups.values()))


def _query_unnoticed_pending_calls() -> QuerySet[ToolCall]:
    """Select pending calls without a notice for their current status."""
    notices_of_call = NoticedCall.objects.filter(
        tool_call=OuterRef("pk"), event=OuterRef("status"), status=OuterRef("status")
    )
    return ToolCall.objects.filter(~Exists(notices_of_call), status__in=sorted(UNDECIDED_CALL_STATUSES))


def _query_pending_calls_with_unescalated_deadline() -> QuerySet[ToolCall]:
    """Select pending calls with a deadline and no escalation; `reminded` is True after a reminder."""
    notices_of_call = NoticedCall.objects.filter(tool_call=OuterRef("pk"), status=OuterRef("status"))
    calls = ToolCall.objects.filter(
        ~Exists(notices_of_call.filter(event=Event.ESCALATION)),
        status__in=sorted(UNDECIDED_CALL_STATUSES),
        decide_within__isnull=False,
    )
    return calls.annotate(reminded=Exists(notices_of_call.filter(event=Event.REMINDER)))


def _find_workspaces_with_due_deadline_events() -> set[int]:
    calls = list(_query_pending_calls_with_unescalated_deadline())
    if not calls:
        return set()
    now = clock.read_database_time("default")
    return {call.workspace_id for call in calls if _find_due_deadline_event_if_readable(call, now) is not None}


def _find_due_deadline_event_if_readable(call: ToolCall, now: datetime) -> Event | None:
    """Return the due event of a call's deadline; None if its record is unreadable, so that other calls are notified."""
    return call_or_use_fallback(f"The deadline of call {call.pk}", lambda: _find_due_deadline_event(call, now), None)


def _find_due_deadline_event(call: ToolCall, now: datetime) -> Event | None:
    deadline, time_limit = call.deadline, call.decide_within
    if deadline is None or time_limit is None:
        return None
    if deadline <= now:
        return Event.ESCALATION
    is_near = deadline - min(time_limit / LAST_PART, LAST_TIME) <= now
    return Event.REMINDER if is_near and not call.reminded else None  # type: ignore[attr-defined]


def _add_calls_to_open_or_new_notice(workspace: int, group: _Group, calls: Iterable[ToolCall], now: datetime) -> None:
    event = group.event
    similar_notices = Notice.objects.filter(workspace=workspace, **group._asdict()).order_by("-pk")
    # Locked until the commit, so that it cannot be closed and sent without these calls.
    notice = similar_notices.select_for_update().filter(closed=False).first()
    if notice is None:
        notice = _create_open_notice_with_deliveries(workspace, group, similar_notices.first(), now)
    elif not notice.deliveries.exists() and (recipients := _list_recipients_of_notice(notice)):
        # Nobody was to get it when it was created. Only a delivery closes a notice.
        notice.send_at = max(notice.send_at, now + GATHER)
        notice.save(update_fields=["send_at"])
        _create_deliveries(notice, recipients)
    NoticedCall.objects.bulk_create(
        [NoticedCall(notice=notice, tool_call=call, event=event, status=call.status) for call in calls]
    )


def _create_open_notice_with_deliveries(
    workspace: int, group: _Group, previous_notice: Notice | None, now: datetime
) -> Notice:
    send_at = now + GATHER
    if previous_notice is not None and group.event in APART:
        send_at = max(send_at, previous_notice.send_at + APART[group.event])
    notice = Notice.objects.create(workspace_id=workspace, **group._asdict(), send_at=send_at)
    _create_deliveries(notice, _list_recipients_of_notice(notice))
    return notice


def _list_recipients_of_notice(notice: Notice) -> list[Recipient]:
    return list_recipients(notice.workspace_id, Event(notice.event), tool=notice.tool, is_high_risk=notice.is_high_risk)


def _create_deliveries(notice: Notice, recipients: Iterable[Recipient]) -> None:
    Delivery.objects.bulk_create(
        [
            Delivery(
                notice=notice,
                webhook=recipient.webhook,
                user=recipient.user,
                recipient=recipient.label,
                due_at=notice.send_at,
            )
            for recipient in recipients
        ]
    )
