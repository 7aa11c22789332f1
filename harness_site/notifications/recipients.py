"""Who is told what."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from checkpoints.enums import Role
from harness_site.accounts.models import Membership
from harness_site.notifications.models import Event, Preferences, Webhook


@dataclass(frozen=True)
class Recipient:
    """A person or a webhook; `label` is what the log shows of where it went."""

    label: str
    user: User | None = None
    webhook: Webhook | None = None


def recipients(workspace: int, event: Event) -> list[Recipient]:
    """Everybody and everything that is told of `event` in a workspace."""
    hooks = [hook for hook in Webhook.objects.filter(workspace=workspace).order_by("pk") if hook.wants(event)]
    return [*(Recipient(hook.host, webhook=hook) for hook in hooks), *_people(workspace, event)]


def preferences_of(user: User) -> Preferences:
    """What somebody wants; the usual, unsaved, where they have not said so."""
    found: Preferences | None = getattr(user, "notification_preferences", None)
    return found or Preferences(user=user)


def address_of(user: User) -> str:
    """Where their e-mail goes; empty where nobody knows."""
    return preferences_of(user).address or account_address(user)


def account_address(user: User) -> str:
    """The address of the account; empty where it is none, and where the sign-in provider says that nobody has confirmed
    it."""
    known = user.emailaddress_set.all()  # type: ignore[attr-defined]
    doubted = any(one.email.lower() == user.email.lower() for one in known if not one.verified)
    try:
        validate_email(user.email)  # one that came from elsewhere may be anything
    except ValidationError:
        return ""
    return "" if doubted else user.email


def may_be_told(member: Membership, event: Event) -> bool:
    """Messages go to those who can do something: after the deadline that is an admin."""
    return member.user.is_active and member.may(Role.ADMIN if event is Event.ESCALATION else Role.APPROVER)


def _people(workspace: int, event: Event) -> list[Recipient]:
    if not settings.MAIL_SERVER:
        return []
    members = Membership.objects.filter(workspace=workspace).select_related("user__notification_preferences")
    known = members.prefetch_related("user__emailaddress_set").order_by("pk")
    told = [one.user for one in known if may_be_told(one, event)]
    return [Recipient(address, user=user) for user in told if (address := _wanted_at(user, event))]


def _wanted_at(user: User, event: Event) -> str:
    return address_of(user) if preferences_of(user).wants(event) else ""
