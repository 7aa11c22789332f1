"""Links that sign a user in once. Only the command line creates them.

A link is bound to the password and to the last login, so it stops working with the next login of its user.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.models import User
from django.core import signing
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from harness_site.site_address import build_absolute_url

LIFETIME: Final = timedelta(hours=12)
_SALT: Final = "harness.accounts.sign-in"


class LinkRefused(Exception):
    """Refusal of a sign-in link: damaged, expired, used, or of an inactive account."""


def build_sign_in_link(user: User) -> str:
    """Build a link that signs `user` in once, within `LIFETIME`; a second factor is still asked for."""
    token = signing.dumps([user.pk, _compute_login_fingerprint(user)], salt=_SALT)
    return build_absolute_url(reverse("harness_accounts:sign-in-link", args=[token]))


def redeem_sign_in_link(token: str) -> User:
    """Return the user of a link and use the link up. Of concurrent requests one succeeds. Raises `LinkRefused`."""
    try:
        pk, fingerprint = signing.loads(token, salt=_SALT, max_age=LIFETIME)
    except (signing.BadSignature, ValueError, TypeError):
        raise LinkRefused from None
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None or not constant_time_compare(fingerprint, _compute_login_fingerprint(user)):
        raise LinkRefused
    previous_login: datetime | None = user.last_login
    if not User.objects.filter(pk=user.pk, last_login=previous_login).update(last_login=Now()):
        raise LinkRefused
    user.refresh_from_db()
    return user


def _compute_login_fingerprint(user: User) -> str:
    return salted_hmac(_SALT, f"{user.pk} {user.password} {user.last_login}").hexdigest()
