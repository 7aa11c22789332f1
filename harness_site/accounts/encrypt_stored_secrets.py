"""Encryption of stored secrets that must be readable again: TOTP seeds, webhook secrets.

Each purpose has its own keys derived from SECRET_KEY: text encrypted for one purpose cannot be decrypted for another.
"""

import base64
import hashlib
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

_FACTORS: Final = "factors"


def encrypt_field(text: str, *, purpose: str = _FACTORS) -> str:
    """Encrypt `text` with the site's current key for this purpose."""
    return _build_key_ring(purpose).encrypt(text.encode()).decode()


def decrypt_field(text: str, *, purpose: str = _FACTORS) -> str:
    """Decrypt a text of `encrypt_field` with the current key or an old one. Raises `ImproperlyConfigured`."""
    try:
        return _build_key_ring(purpose).decrypt(text.encode()).decode()
    except InvalidToken:
        raise ImproperlyConfigured(
            f"What is stored was encrypted under another key ({purpose}). Put the former key into "
            "HARNESS_OLD_SECRET_KEYS, or reset the second factors of this account (or make the webhook anew)."
        ) from None


def _build_key_ring(purpose: str) -> MultiFernet:
    return MultiFernet(
        [_derive_key(secret, purpose) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    )


def _derive_key(secret: str, purpose: str) -> Fernet:
    key = hashlib.blake2b(secret.encode(), digest_size=32, person=f"harness {purpose}".encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
