"""Template tags about notifications by e-mail."""

from collections.abc import Sequence

from django import template

from harness_site.accounts.models import Membership
from harness_site.mail_transport import is_mail_configured
from harness_site.notifications.email_recipients import (
    NotificationGap,
    explain_missing_notifications,
    load_email_addresses,
)

register = template.Library()


@register.simple_tag
def email_addresses(members: Sequence[Membership]) -> dict[int, str]:
    """Return the addresses for notifications of members, by the key of the user."""
    return load_email_addresses(members)


@register.filter
def address_of(addresses: dict[int, str], member: Membership) -> str:
    """Return the address of one member from the result of `email_addresses`."""
    return addresses.get(member.user_id, "")


@register.simple_tag
def notification_gap(member: Membership | None) -> NotificationGap | None:
    """Return why a member is not notified of calls that they could decide, or None."""
    return None if member is None else explain_missing_notifications(member)


@register.simple_tag
def mail_is_configured() -> bool:
    """Return whether this installation can send e-mail."""
    return is_mail_configured()
