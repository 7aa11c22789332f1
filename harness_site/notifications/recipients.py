"""Recipients of notifications."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import QuerySet

from checkpoints.enums import Risk, Role
from checkpoints.models import ToolCall
from harness_site.accounts.models import Membership
from harness_site.notifications.models import CallFilter, Event, Preferences, Webhook
from harness_site.send_email import is_mail_configured

#: Lowest role that gets messages about an event, where it is not that of those who decide.
_ROLES_OF_EVENTS: Final = {Event.ESCALATION: Role.ADMIN, Event.MENTIONED: Role.AUDITOR}


@dataclass(frozen=True)
class Recipient:
    """User or webhook that gets a notification; `label` is its address in the log."""

    label: str
    user: User | None = None
    webhook: Webhook | None = None

    @property
    def call_filter(self) -> CallFilter:
        """Return what limits the calls that the recipient is told of."""
        if self.webhook is not None:
            return self.webhook
        return Preferences() if self.user is None else get_preferences_or_unsaved_defaults(self.user)


def is_call_of_high_risk(call: ToolCall) -> bool:
    """Return whether a call has a high risk, by which recipients may choose; a question has none."""
    return call.risk == Risk.HIGH and not call.is_question


def list_recipients(workspace: int, event: Event, *, tool: str, is_high_risk: bool) -> list[Recipient]:
    """List the recipients in a workspace who are told of `event` of calls of `tool`."""
    all_recipients = [*list_webhook_recipients(workspace, event), *list_email_recipients(workspace, event)]
    return [
        recipient
        for recipient in all_recipients
        if recipient.call_filter.lets_call_through(event, tool, is_high_risk=is_high_risk)
    ]


def list_recipients_without_filters(workspace: int, events: Iterable[Event]) -> dict[Event, list[Recipient]]:
    """List the recipients of each event in a workspace, whatever their filters leave out, in three queries."""
    hooks = list(Webhook.objects.filter(workspace=workspace))
    members = list(query_members_with_addresses(workspace)) if is_mail_configured() else []
    return {
        event: [
            *(Recipient(hook.host, webhook=hook) for hook in hooks if hook.wants_event(event)),
            *(recipient for member in members if (recipient := find_email_recipient(member, event))),
        ]
        for event in events
    }


def list_webhook_recipients(workspace: int, event: Event) -> list[Recipient]:
    hooks = Webhook.objects.filter(workspace=workspace).order_by("pk")
    return [Recipient(hook.host, webhook=hook) for hook in hooks if hook.wants_event(event)]


def find_email_recipient(member: Membership, event: Event) -> Recipient | None:
    """Return a member as the recipient of an e-mail; None if they get none about this event."""
    if not is_mail_configured() or not has_role_for_event(member, event):
        return None
    if not get_preferences_or_unsaved_defaults(member.user).wants_event(event):
        return None
    address = get_notification_address(member.user)
    return Recipient(address, user=member.user) if address else None


def get_preferences_or_unsaved_defaults(user: User) -> Preferences:
    """Return the preferences of a user, or unsaved defaults."""
    stored: Preferences | None = getattr(user, "notification_preferences", None)
    return stored or Preferences(user=user)


def get_notification_address(user: User) -> str:
    """Return the address for a user's notifications; empty if there is none."""
    return get_preferences_or_unsaved_defaults(user).address or get_usable_account_address(user)


def get_usable_account_address(user: User) -> str:
    """Return the address of the account; empty if it is invalid or known to be unconfirmed."""
    email_addresses = user.emailaddress_set.all()  # type: ignore[attr-defined]
    is_unconfirmed = any(
        email_address.email.lower() == user.email.lower()
        for email_address in email_addresses
        if not email_address.verified
    )
    try:
        validate_email(user.email)  # an address from an external provider may be malformed
    except ValidationError:
        return ""
    return "" if is_unconfirmed else user.email


def has_role_for_event(member: Membership, event: Event) -> bool:
    """Return True if an event concerns a member: only admins can decide after the deadline, and all read comments."""
    return member.user.is_active and member.has_role(_ROLES_OF_EVENTS.get(event, Role.APPROVER))


def list_email_recipients(workspace: int, event: Event) -> list[Recipient]:
    """List the members of a workspace who get an e-mail about `event`; nobody without a mail server."""
    if not is_mail_configured():
        return []
    recipients = [find_email_recipient(member, event) for member in query_members_with_addresses(workspace)]
    return [recipient for recipient in recipients if recipient is not None]


def query_members_with_addresses(workspace: int) -> QuerySet[Membership]:
    """Select the members of a workspace with what says whether and where they get e-mail, the oldest first."""
    members = Membership.objects.filter(workspace=workspace).select_related("user__notification_preferences")
    return members.prefetch_related("user__emailaddress_set").order_by("pk")
