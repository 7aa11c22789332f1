"""Notices about calls that one member hands over to another."""

from __future__ import annotations

from checkpoints.db import clock
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall
from harness_site.notifications.recipients import Recipient, find_email_recipient, list_webhook_recipients


def create_handover_notice(call: ToolCall, *, by: Membership, to: Membership, note: str) -> None:
    """Create the notice of a hand-over, due at once: for the colleague and for the webhooks that want it.

    Call it in the transaction that records the hand-over, so that both happen or neither.
    """
    person = find_email_recipient(to, Event.HANDED_OVER)
    recipients = [*list_webhook_recipients(to.workspace_id, Event.HANDED_OVER), *([person] if person else [])]
    if not recipients:
        return
    now = clock.read_database_time("default")
    notice = Notice.objects.create(
        workspace_id=to.workspace_id,
        event=Event.HANDED_OVER,
        tool=call.tool,
        send_at=now,
        closed=True,
        handed_by=by.user.get_username(),
        handed_to=to.user.get_username(),
        note=note,
    )
    NoticedCall.objects.create(notice=notice, tool_call=call, event=Event.HANDED_OVER, status=call.status)
    Delivery.objects.bulk_create([_build_delivery(notice, recipient) for recipient in recipients])


def _build_delivery(notice: Notice, recipient: Recipient) -> Delivery:
    return Delivery(
        notice=notice,
        webhook=recipient.webhook,
        user=recipient.user,
        recipient=recipient.label,
        due_at=notice.send_at,
    )
