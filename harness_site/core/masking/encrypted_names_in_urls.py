"""Encrypted references to names that contain secrets, in URLs and forms of readers who may not see secrets."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final
from urllib.parse import parse_qsl

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings
from django.http import QueryDict

from harness_site.core.masking.masker import is_masking_active, mask_text

_PREFIX: Final = "masked."


def encrypt_name_if_masked(name: str) -> str:
    """Return the value for `name` in a URL or a form: itself, or a token if part of it is masked for the current
    reader.

    The same name always has the same token, so that URLs are stable.
    """
    if mask_text(name) == name:
        return name
    sealed = _build_name_ciphers()[0].encrypt(name.encode("utf-8", "surrogatepass"), None)
    return _PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def decrypt_name_if_encrypted(given: str) -> str:
    """Return the name of a token; any other text is returned as is."""
    if not given.startswith(_PREFIX):
        return given
    token = given.removeprefix(_PREFIX)
    try:
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        return given
    for cipher in _build_name_ciphers():
        try:
            return cipher.decrypt(sealed, None).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            continue
    return given


def mask_query_string(query: str) -> str:
    """Mask a query string for display: names as tokens, search words masked."""
    if not is_masking_active():
        return query
    masked_query = QueryDict(mutable=True)
    for name, value in parse_qsl(query):
        masked_query[name] = mask_text(value) if name in {"q", "find"} else encrypt_name_if_masked(value)
    return masked_query.urlencode()


def _build_name_ciphers() -> list[AESSIV]:
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [AESSIV(hashlib.blake2b(key.encode(), digest_size=64, person=b"harness names").digest()) for key in secrets]
