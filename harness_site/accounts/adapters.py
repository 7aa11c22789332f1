"""How django-allauth behaves here: its words, what it keeps encrypted, and what becomes part of the audit trail."""

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

from harness_site.accounts import encryption, trail

_MISMATCH: Final = "This name and password do not belong together. Mind capital letters in both."
_PATIENCE: Final = "Too many attempts. Nothing is locked for good: try again in a few minutes."
#: Light squares around the code, without which cameras do not find it.
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
        """Accounts come from invitations and from the OpenID Connect provider, not from a form."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        # A site behind a Unix socket knows no address.
        return str(get_client_ip(request) or "0.0.0.0")  # noqa: S104 - a name for "unknown", nothing listens

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count an attempt before its password is looked at. Raises `ValidationError` where there were too many.

        Guesses from many addresses stop a name for a while only where a password alone opens the account, and never for
        an address from which its person is signed in: nobody can lock somebody else out.
        """
        super().pre_authenticate(request, **credentials)
        self._anywhere = None
        login = credentials.get("username", "")
        if not _needs_no_limit(login, self.get_client_ip(request)):
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
        """Count for a name from one address: wrong passwords from elsewhere do not keep its person out."""
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{ratelimit.get_ip(request)}"

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        trail.sign_in_failed(request, name=credentials.get("username", ""))

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        trail.signed_in(request, user)
        response: HttpResponse = super().post_login(request, user, **options)
        return response


def _needs_no_limit(login: str, address: str) -> bool:
    """Whether an account has a second factor, or a sign-in from this address. One query, also for names nobody has."""
    if "\0" in login:
        return False
    factors = Authenticator.objects.filter(
        user=OuterRef("pk"), type__in=[Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN]
    )
    sign_ins = UserSession.objects.filter(user=OuterRef("pk"), ip=address)
    return User.objects.filter(Exists(factors) | Exists(sign_ins), username__iexact=login).exists()


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is not right, or no longer. Type the one that is shown now.",
        "rate_limited": _PATIENCE,
    }

    def encrypt(self, text: str) -> str:
        return encryption.encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return encryption.decrypt(encrypted_text)

    def get_totp_label(self, user: User) -> str:
        return user.get_username()

    def build_totp_svg(self, url: str) -> SafeString:
        """The address as a drawing that needs no style of its own."""
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
        """Whom the provider lets in has an account; what they may do here is up to an admin."""
        return True
