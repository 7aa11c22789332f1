"""Adapters of django-allauth: error texts, encryption of factors, login throttling, audit events."""

from typing import Any, Final

import qrcode
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.internal import ratelimit
from allauth.core.internal.httpkit import get_client_ip
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.usersessions.models import UserSession
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from harness_site.accounts import audit_events, field_encryption

_MISMATCH: Final = "This name and password do not belong together. Mind capital letters in both."
_PATIENCE: Final = "Too many attempts. Nothing is locked for good: try again in a few minutes."
#: Width of the quiet zone around the QR code, without which cameras do not find it.
_QUIET = 4


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": _MISMATCH,
        "email_password_mismatch": _MISMATCH,
        "too_many_login_attempts": _PATIENCE,
        "rate_limited": _PATIENCE,
        "incorrect_password": "This is not your password.",
        "incorrect_code": "This code is not right, or no longer. Type the one that is shown now.",
        "enter_current_password": "This is not your password.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Return False: accounts come from invitations and from the OpenID Connect provider, not from a form."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        # A site behind a Unix socket has no client address.
        return str(get_client_ip(request) or "0.0.0.0")  # noqa: S104 - a name for "unknown", nothing listens

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count a login attempt before its password is checked.

        Guesses from many addresses throttle a name only if a password alone opens the account, and never for an address
        with a valid session of its user, so that nobody can lock somebody else out.

        Raises:
            ValidationError: There were too many attempts.
        """
        super().pre_authenticate(request, **credentials)
        self._anywhere = None
        login = credentials.get("username", "")
        if not _is_exempt_from_throttling(login, self.get_client_ip(request)):
            self._anywhere = ratelimit.consume(
                request, app="allauth.account", action="login_failed_anywhere", key=login.lower()
            )
            if not self._anywhere:
                raise self.validation_error("too_many_login_attempts")

    def authenticate(self, request: HttpRequest, **credentials: Any) -> AbstractBaseUser | None:
        user: AbstractBaseUser | None = super().authenticate(request, **credentials)
        if user is not None and self._anywhere:
            self._anywhere.rollback()
        return user

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return a cache key per name and address, so that attempts from elsewhere do not lock the user out."""
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{ratelimit.get_ip(request)}"

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        audit_events.record_failed_login(request, name=credentials.get("username", ""))

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        audit_events.record_login(request, user)
        response: HttpResponse = super().post_login(request, user, **options)
        return response


def _is_exempt_from_throttling(login: str, address: str) -> bool:
    """Return True if the account has a second factor, or a user session from this address.

    Runs one query, also for names without an account.
    """
    if "\0" in login:
        return False
    factors = Authenticator.objects.filter(
        user=OuterRef("pk"), type__in=[Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
    )
    user_sessions = UserSession.objects.filter(user=OuterRef("pk"), ip=address)
    return User.objects.filter(Exists(factors) | Exists(user_sessions), username__iexact=login).exists()


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is not right, or no longer. Type the one that is shown now.",
        "rate_limited": _PATIENCE,
    }

    def encrypt(self, text: str) -> str:
        return field_encryption.encrypt_field(text)

    def decrypt(self, encrypted_text: str) -> str:
        return field_encryption.decrypt_field(encrypted_text)

    def get_totp_label(self, user: User) -> str:
        return user.get_username()

    def build_totp_svg(self, url: str) -> SafeString:
        """Draw the QR code of the URL as an SVG without inline styles."""
        code = qrcode.QRCode(border=_QUIET)
        code.add_data(url)
        rows = code.get_matrix()
        path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
        return format_html(
            '<svg class="qr" viewBox="0 0 {0} {0}" role="img" aria-label="QR code of the key below">'
            '<rect width="{0}" height="{0}" class="light"/><path d="{1}" class="dark"/></svg>',
            len(rows),
            path,
        )

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user=user, type=type).count() + 1
        return f"Passkey {number}"


class ForeignAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Return True: everybody whom the provider accepts gets an account; an admin grants the roles."""
        return True
