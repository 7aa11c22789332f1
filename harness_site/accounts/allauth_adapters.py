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
from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from harness_site.accounts import encrypt_stored_secrets, first_admin, record_user_audit_events
from harness_site.accounts.recent_login import has_logged_in_recently_or_cannot_reauthenticate
from harness_site.accounts.second_factor_holders_and_requirements import FACTOR_TYPES, is_last_required_factor

_MISMATCH: Final = _("Wrong name or password. Both are case-sensitive.")
_PATIENCE: Final = _("Too many attempts. Wait a few minutes and try again.")
_WRONG_PASSWORD: Final = _("Wrong password. It is case-sensitive.")
_WRONG_CODE: Final = _("Wrong or expired code. Enter the code that the app shows now.")
_REQUIRED: Final = _(
    "A workspace requires a second factor of you, and this is your only one. Set up another one before you remove it."
)
#: Confirmations after a change of the own account, by the names of django-allauth's templates. Others are not shown.
_CONFIRMATIONS: Final = {
    "account/messages/password_changed.txt": _("Your password was changed."),
    "account/messages/password_set.txt": _("Your password was set."),
    "mfa/messages/totp_activated.txt": _("The authenticator app is now your second factor."),
    "mfa/messages/totp_deactivated.txt": _("The authenticator app is turned off."),
    "mfa/messages/webauthn_added.txt": _("The passkey was added."),
    "mfa/messages/webauthn_removed.txt": _("The passkey was removed."),
}
#: Width of the quiet zone around the QR code, without which cameras do not find it.
_QR_BORDER = 4


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": _MISMATCH,
        "email_password_mismatch": _MISMATCH,
        "too_many_login_attempts": _PATIENCE,
        "rate_limited": _PATIENCE,
        "incorrect_password": _WRONG_PASSWORD,
        "incorrect_code": _WRONG_CODE,
        "enter_current_password": _WRONG_PASSWORD,
    }

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return the start page of the site: a project that includes it may have another `LOGIN_REDIRECT_URL`."""
        return reverse("harness:home")

    def get_logout_redirect_url(self, request: HttpRequest) -> str:
        return reverse("harness_accounts:login")

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Return False: accounts come from invitations and from the OpenID Connect provider, not from a form."""
        return False

    def is_reauthentication_required(self, *, app: str, **options: Any) -> bool:
        """Return False soon after a login: asking for the password again right away protects nothing."""
        return not has_logged_in_recently_or_cannot_reauthenticate(self.request) and bool(
            super().is_reauthentication_required(app=app, **options)
        )

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        message_context: dict[str, Any] | None = None,
        extra_tags: str = "",
        message: str | None = None,
    ) -> None:
        """Show the confirmation of a change; a login or logout is visible without one."""
        if message_template in _CONFIRMATIONS:
            messages.success(request, _CONFIRMATIONS[message_template])

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
        record_user_audit_events.record_failed_login(request, name=credentials.get("username", ""))

    def post_login(self, request: HttpRequest, user: User, **options: Any) -> HttpResponse:
        first_admin.make_user_admin_if_superuser_and_no_admin(user, request=request)
        record_user_audit_events.record_login(request, user)
        response: HttpResponse = super().post_login(request, user, **options)
        return response


def _is_exempt_from_throttling(login: str, address: str) -> bool:
    """Return True if the account has a second factor, or a user session from this address.

    Runs one query, also for names without an account.
    """
    if "\0" in login:
        return False
    factors = Authenticator.objects.filter(user=OuterRef("pk"), type__in=FACTOR_TYPES)
    user_sessions = UserSession.objects.filter(user=OuterRef("pk"), ip=address)
    return User.objects.filter(Exists(factors) | Exists(user_sessions), username__iexact=login).exists()


class FactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": _WRONG_CODE,
        "rate_limited": _PATIENCE,
        "cannot_delete_authenticator": _REQUIRED,
    }

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Return False for the last factor of somebody of whom a workspace requires one."""
        return not is_last_required_factor(authenticator)

    def encrypt(self, text: str) -> str:
        return encrypt_stored_secrets.encrypt_field(text)

    def decrypt(self, encrypted_text: str) -> str:
        return encrypt_stored_secrets.decrypt_field(encrypted_text)

    def get_totp_label(self, user: User) -> str:
        return user.get_username()

    def build_totp_svg(self, url: str) -> SafeString:
        """Draw the QR code of the URL as an SVG without inline styles."""
        code = qrcode.QRCode(border=_QR_BORDER)
        code.add_data(url)
        rows = code.get_matrix()
        path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
        return format_html(
            '<svg class="qr" viewBox="0 0 {0} {0}" role="img" aria-label="{2}">'
            '<rect width="{0}" height="{0}" class="light"/><path d="{1}" class="dark"/></svg>',
            len(rows),
            path,
            gettext("QR code of the key below"),
        )

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user=user, type=type).count() + 1
        return gettext("Passkey %(number)d") % {"number": number}


class SingleSignOnAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Return the start page of the site: a project that includes it may have another `LOGIN_REDIRECT_URL`."""
        return reverse("harness:home")

    def get_logout_redirect_url(self, request: HttpRequest) -> str:
        return reverse("harness_accounts:login")

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        """Return True: everybody whom the provider accepts gets an account; an admin grants the roles."""
        return True
