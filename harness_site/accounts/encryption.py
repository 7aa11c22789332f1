"""Keeping what has to be read again (the seeds of one-time codes) so that the database alone does not tell it."""

import base64
import hashlib

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


def encrypt(text: str) -> str:
    """`text` under the site's key."""
    return _keys().encrypt(text.encode()).decode()


def decrypt(text: str) -> str:
    """What `encrypt` was given, under the present key or one of the old ones. Raises `ImproperlyConfigured`."""
    try:
        return _keys().decrypt(text.encode()).decode()
    except InvalidToken:
        raise ImproperlyConfigured(
            "A stored second factor was encrypted under another key. Put the former key into "
            "HARNESS_OLD_SECRET_KEYS, or reset the second factors of this account."
        ) from None


def _keys() -> MultiFernet:
    return MultiFernet([_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    derived = hashlib.blake2b(secret.encode(), digest_size=32, person=b"harness factors").digest()
    return Fernet(base64.urlsafe_b64encode(derived))
