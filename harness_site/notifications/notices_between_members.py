"""Notices about what one member writes to others: calls that are handed over, and comments that mention somebody."""

from __future__ import annotations

from collections.abc import Iterable

from checkpoints.db import clock
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.notifications.models import Delivery, Event, Notice, NoticedCall
from harness_site.notifications.recipients import Recipient, find_email_recipient, list_webhook_recipients


def create_handover_notice(call: ToolCall, *, by: Membership, to: Membership, note: str) -> None:
    """Create the notice of a hand-over, due at once: for the colleague and for the webhooks that want it.

    Call it in the transaction that records the hand-over, so that both happen or neither.
    """
    _create_notice_with_deliveries(
        call, Event.HANDED_OVER, by=by, members=[to], text=note, handed_to=to.user.get_username()
    )


def create_mention_notice(call: ToolCall, *, by: Membership, mentioned: Iterable[Membership], text: str) -> None:
    """Create the notice of a comment, due at once: for the members whom it mentions and the webhooks that want it.

    Call it in the transaction that records the comment, so that both happen or neither.
    """
    _create_notice_with_deliveries(call, Event.MENTIONED, by=by, members=mentioned, text=text)


def _create_notice_with_deliveries(
    call: ToolCall, event: Event, *, by: Membership, members: Iterable[Membership], text: str, handed_to: str = ""
) -> None:
    people = [recipient for member in members if (recipient := find_email_recipient(member, event))]
    recipients = [*list_webhook_recipients(by.workspace_id, event), *people]
    if not recipients:
        return
    now = clock.read_database_time("default")
    notice = Notice.objects.create(
        workspace_id=by.workspace_id,
        event=event,
        tool=call.tool,
        send_at=now,
        closed=True,
        author=by.user.get_username(),
        handed_to=handed_to,
        text=text,
    )
    NoticedCall.objects.create(notice=notice, tool_call=call, event=event, status=call.status)
    Delivery.objects.bulk_create([_build_delivery(notice, recipient) for recipient in recipients])


def _build_delivery(notice: Notice, recipient: Recipient) -> Delivery:
    return Delivery(
        notice=notice,
        webhook=recipient.webhook,
        user=recipient.user,
        recipient=recipient.label,
        due_at=notice.send_at,
    )
