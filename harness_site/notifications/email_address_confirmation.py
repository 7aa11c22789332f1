"""Confirmation of e-mail addresses: a new address is used after its owner has opened a link sent there."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Final

from allauth.core import ratelimit
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from checkpoints.enums import AuditKind
from harness_site.accounts import record_user_audit_events
from harness_site.compose_email_with_link import compose_link_email
from harness_site.mail_and_connection_error_sentences import log_mail_error
from harness_site.notifications.models import Preferences
from harness_site.send_email import MAIL_ERRORS, send_email_through_server
from harness_site.site_address import build_absolute_url

#: Validity of a link.
LASTS: Final = timedelta(days=3)
_SALT: Final = "harness.notifications.address"


class LinkResult(StrEnum):
    """Result of sending a confirmation link."""

    SENT = "sent"
    SENT_RECENTLY = "lately"
    FAILED = "failed"


class LinkRefused(Exception):
    """Refusal of a confirmation link: damaged, expired, already used, or of another user."""


def send_confirmation_link(user: User, address: str, *, request: HttpRequest) -> LinkResult:
    """Send a link that confirms `address` to that address, and wait until the mail server has accepted it."""
    if not ratelimit.consume(request, action="confirm_email", key=address.lower(), user=user):
        return LinkResult.SENT_RECENTLY
    link = build_absolute_url(
        reverse("harness_notifications:confirm-address", args=[signing.dumps([user.pk, address], salt=_SALT)])
    )
    values = {"name": user.get_username(), "days": LASTS.days}
    email = compose_link_email(
        to=address,
        subject=_("Confirm your e-mail address"),
        introduction=_("%(name)s asked Harness to send messages to this address.") % values,
        label=_("Confirm address"),
        link=link,
        explanation=_(
            "If that was you, open this link within %(days)d days, in the browser where you are signed in. "
            "If it was not you, do nothing. No messages will be sent to this address."
        )
        % values,
    )
    try:
        send_email_through_server(email, link)
    except MAIL_ERRORS as error:
        log_mail_error("A link that confirms an address", error)
        return LinkResult.FAILED
    return LinkResult.SENT


def get_confirmed_address_or_raise(token: str, user: User) -> str:
    """Return the address that a link confirms for `user`. Raises `LinkRefused`."""
    try:
        owner, address = signing.loads(token, salt=_SALT, max_age=LASTS)
    except (signing.BadSignature, ValueError):
        raise LinkRefused from None
    if not Preferences.objects.filter(user=user, pk=owner, asked_address=address).exists():
        raise LinkRefused
    return str(address)


def confirm_email_address(token: str, user: User, *, request: HttpRequest) -> None:
    """Use the address of this link for messages from now on. Raises `LinkRefused`."""
    address = get_confirmed_address_or_raise(token, user)
    with transaction.atomic():
        unconfirmed = Preferences.objects.filter(user=user, asked_address=address)
        if not unconfirmed.update(address=address, asked_address=""):
            raise LinkRefused
        record_user_audit_events.record_account_event(user, AuditKind.ADDRESS_CONFIRMED, request=request)
