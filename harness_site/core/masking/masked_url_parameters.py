"""Encrypted references to names that contain secrets, and keyed fingerprints of digests, in URLs and forms of readers
who may not see secrets."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Final
from urllib.parse import parse_qsl

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from django.conf import settings
from django.http import QueryDict
from django.utils.crypto import salted_hmac

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


def compute_keyed_fingerprint_of_digest(digest: str) -> str:
    """Return a keyed fingerprint of a digest, which cannot be computed from guessed content."""
    return salted_hmac("harness.fingerprint", digest, algorithm="sha256").hexdigest()[:32]


def replace_digest_by_fingerprint_if_masking(digest: str) -> str:
    """Return the digest, or its fingerprint for a reader who may not see secrets.

    The digest of a short secret would reveal it to a guessing reader.
    """
    return compute_keyed_fingerprint_of_digest(digest) if is_masking_active() else digest


def replace_file_digests_by_keyed_fingerprints(content: Any) -> Any:
    """Replace the digests of files in a JSON value as `replace_digest_by_fingerprint_if_masking` does."""
    if not is_masking_active():
        return content
    if isinstance(content, dict):
        return {
            key: compute_keyed_fingerprint_of_digest(inner)
            if key == "sha256" and isinstance(inner, str)
            else replace_file_digests_by_keyed_fingerprints(inner)
            for key, inner in content.items()
        }
    return (
        [replace_file_digests_by_keyed_fingerprints(item) for item in content] if isinstance(content, list) else content
    )


def _build_name_ciphers() -> list[AESSIV]:
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [AESSIV(hashlib.blake2b(key.encode(), digest_size=64, person=b"harness names").digest()) for key in secrets]
