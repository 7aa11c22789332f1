"""Template tags about notifications by e-mail."""

from collections.abc import Sequence

from django import template

from harness_site.accounts.models import Membership
from harness_site.notifications.email_reachability import (
    NotificationGap,
    find_notification_gap,
    load_email_addresses,
)
from harness_site.send_email import is_mail_configured

register = template.Library()


@register.simple_tag(name="email_addresses")
def load_notification_addresses(members: Sequence[Membership]) -> dict[int, str]:
    """Return the addresses for notifications of members, by the key of the user."""
    return load_email_addresses(members)


@register.filter("address_of")
def get_address_of_member(addresses: dict[int, str], member: Membership) -> str:
    """Return the address of one member from the result of `load_notification_addresses`."""
    return addresses.get(member.user_id, "")


@register.simple_tag(name="notification_gap")
def explain_notification_gap(member: Membership | None) -> NotificationGap | None:
    """Return why a member is not notified of calls that they could decide, or None."""
    return None if member is None else find_notification_gap(member)


@register.simple_tag(name="mail_is_configured")
def is_mail_server_configured() -> bool:
    """Return whether this installation can send e-mail."""
    return is_mail_configured()
