"""Second factors of test users."""

from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.contrib.auth.models import User


def make_totp(user: User) -> str:
    """Activate TOTP for `user`; return its secret."""
    secret = str(generate_totp_secret())
    TOTP.activate(user, secret)
    return secret


def compute_current_totp_code(secret: str) -> str:
    """Return the current code of a TOTP secret."""
    counter = sorted(yield_hotp_counters_from_time())[1]
    return str(format_hotp_value(hotp_value(secret, counter)))


def create_recovery_codes(user: User) -> list[str]:
    """Create recovery codes for `user`; return them."""
    return list(RecoveryCodes.activate(user).get_unused_codes())


def list_factor_types(user: User) -> list[str]:
    return sorted(Authenticator.objects.filter(user=user).values_list("type", flat=True))
