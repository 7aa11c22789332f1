"""Reachability of people by e-mail: the address that notifications go to, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import prefetch_related_objects
from django.urls import reverse
from django.utils.translation import gettext as _

from checkpoints.enums import Role
from harness_site.accounts.models import Membership
from harness_site.notifications.recipients import get_notification_address, get_preferences_or_unsaved_defaults
from harness_site.send_email import is_mail_configured


@dataclass(frozen=True)
class NotificationGap:
    """Reason why a member who decides gets no e-mail, and where to change that; `url` may be empty."""

    sentence: str
    url: str = ""
    action: str = ""


def map_users_to_notification_addresses(members: Sequence[Membership]) -> dict[int, str]:
    """Return the address for notifications of each member, by the key of the user, in two queries."""
    users = [member.user for member in members]
    prefetch_related_objects(users, "notification_preferences", "emailaddress_set")
    return {user.pk: get_notification_address(user) for user in users}


def find_notification_gap(member: Membership) -> NotificationGap | None:
    """Return why `member` is not notified of calls, and what they can do about it; None if there is nothing to do."""
    if not member.has_role(Role.APPROVER):
        return None
    if not is_mail_configured():
        return _build_missing_mail_server_gap() if member.has_role(Role.ADMIN) else None
    return _find_own_notification_gap(member.user)


def _build_missing_mail_server_gap() -> NotificationGap:
    sentence = _("You get no e-mail about waiting calls: no mail server is set up.")
    return NotificationGap(sentence, f"{reverse('harness_installation:system')}#mail", _("Set up mail"))


def _find_own_notification_gap(user: User) -> NotificationGap | None:
    url, preferences = (
        reverse("harness_notifications:notification-preferences"),
        get_preferences_or_unsaved_defaults(user),
    )
    if not preferences.email:
        return NotificationGap(_("You turned off e-mail about waiting calls."), url, _("Change"))
    if get_notification_address(user):
        return None
    if preferences.asked_address:
        sentence = _("You get no e-mail about waiting calls: your address is not confirmed yet.")
        return NotificationGap(sentence, url, _("Confirm it"))
    sentence = _("You get no e-mail about waiting calls: your account has no address.")
    return NotificationGap(sentence, url, _("Add one"))
