"""Keeping what has to be read again (the seeds of one-time codes, the secrets of webhooks) so that the database alone
does not tell it.

Each purpose has keys of its own: what was sealed for one is nothing to another.
"""

import base64
import hashlib
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

_FACTORS: Final = "factors"


def encrypt(text: str, *, purpose: str = _FACTORS) -> str:
    """`text` under the site's key."""
    return _keys(purpose).encrypt(text.encode()).decode()


def decrypt(text: str, *, purpose: str = _FACTORS) -> str:
    """What `encrypt` was given, under the present key or one of the old ones. Raises `ImproperlyConfigured`."""
    try:
        return _keys(purpose).decrypt(text.encode()).decode()
    except InvalidToken:
        raise ImproperlyConfigured(
            f"What is stored was encrypted under another key ({purpose}). Put the former key into "
            "HARNESS_OLD_SECRET_KEYS, or reset the second factors of this account (or make the webhook anew)."
        ) from None


def _keys(purpose: str) -> MultiFernet:
    return MultiFernet([_key(secret, purpose) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str, purpose: str) -> Fernet:
    derived = hashlib.blake2b(secret.encode(), digest_size=32, person=f"harness {purpose}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(derived))
