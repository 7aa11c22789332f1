"""Template tags about notifications by e-mail."""

from collections.abc import Sequence

from django import template
from django.contrib.auth.models import User

from harness_site.accounts.models import Membership
from harness_site.notifications.email_reachability import (
    NotificationGap,
    find_notification_gap,
    map_users_to_notification_addresses,
)
from harness_site.notifications.recipients import get_notification_address, get_preferences_or_unsaved_defaults
from harness_site.send_email import is_mail_configured

register = template.Library()


@register.simple_tag(name="email_addresses")
def load_notification_addresses(members: Sequence[Membership]) -> dict[int, str]:
    """Return the addresses for notifications of members, by the key of the user."""
    return map_users_to_notification_addresses(members)


@register.filter("address_of")
def get_address_of_member(addresses: dict[int, str], member: Membership) -> str:
    """Return the address of one member from the result of `load_notification_addresses`."""
    return addresses.get(member.user_id, "")


@register.filter("notification_address")
def get_notification_address_of_user(user: User) -> str:
    """Return the address that notifications of a user go to; empty if there is none."""
    return get_notification_address(user)


@register.filter("unconfirmed_address")
def get_unconfirmed_address_of_user(user: User) -> str:
    """Return the new address of a user that waits for its confirmation; empty if there is none."""
    return get_preferences_or_unsaved_defaults(user).asked_address


@register.filter("call_filter_sentence")
def describe_call_filter_of_user(user: User) -> str:
    """Return the sentence that says of which calls a user is told; empty if it is all of them."""
    preferences = get_preferences_or_unsaved_defaults(user)
    return preferences.describe_call_filter() if preferences.has_call_filter else ""


@register.simple_tag(name="notification_gap")
def find_notification_gap_of_member(member: Membership | None) -> NotificationGap | None:
    """Return why a member is not notified of calls that they could decide, or None."""
    return None if member is None else find_notification_gap(member)


@register.simple_tag(name="mail_is_configured")
def is_mail_server_configured() -> bool:
    """Return whether this installation can send e-mail."""
    return is_mail_configured()
