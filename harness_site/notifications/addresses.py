"""E-mail goes to an address that somebody typed only once a link sent there was opened by who typed it."""

from __future__ import annotations

import smtplib
from datetime import timedelta
from email.message import EmailMessage
from enum import StrEnum
from typing import Final

from allauth.core import ratelimit
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from checkpoints.enums import AuditKind
from harness_site.accounts import trail
from harness_site.notifications import mails
from harness_site.notifications.messages import link
from harness_site.notifications.models import Preferences

#: How long a link can be opened.
LASTS: Final = timedelta(days=3)
_SALT: Final = "harness.notifications.address"


class LinkSent(StrEnum):
    """What became of sending one."""

    SENT = "sent"
    LATELY = "lately"
    FAILED = "failed"


class LinkRefused(Exception):
    """It was damaged, has expired, was used, or is another person's."""


def send_link(user: User, address: str, *, request: HttpRequest) -> LinkSent:
    """Send a link that confirms `address` to that address, and wait until the mail server has taken it."""
    if not ratelimit.consume(request, action="confirm_email", key=address.lower(), user=user):
        return LinkSent.LATELY
    place = link(reverse("confirm-address", args=[signing.dumps([user.pk, address], salt=_SALT)]))
    composed = EmailMessage()
    mails.head(composed, to=address, subject="Is this your address?")
    composed.set_content(_text(user, place))
    try:
        mails.hand_over(composed, place)
    except (OSError, smtplib.SMTPException, mails.NoMailServer, mails.HeaderBroken):
        return LinkSent.FAILED
    return LinkSent.SENT


def address_in(token: str, user: User) -> str:
    """The address that a link confirms for `user`. Raises `LinkRefused`."""
    try:
        owner, address = signing.loads(token, salt=_SALT, max_age=LASTS)
    except (signing.BadSignature, ValueError):
        raise LinkRefused from None
    if not Preferences.objects.filter(user=user, pk=owner, asked_address=address).exists():
        raise LinkRefused
    return str(address)


def confirm(token: str, user: User, *, request: HttpRequest) -> None:
    """From now on messages go to the address of this link. Raises `LinkRefused`."""
    address = address_in(token, user)
    with transaction.atomic():
        asked = Preferences.objects.filter(user=user, asked_address=address)
        if not asked.update(address=address, asked_address=""):
            raise LinkRefused
        trail.personal(user, AuditKind.ADDRESS_CONFIRMED, request=request)


def _text(user: User, place: str) -> str:
    return (
        f"{user.get_username()} asked Harness to send messages to this address.\n\n"
        f"If that was you, open this link within {LASTS.days} days, in the browser where you are signed in:\n\n"
        f"{place}\n\n"
        "If it was not you, do nothing: no messages will be sent here.\n"
    )
