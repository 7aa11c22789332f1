"""Names with secrets in addresses and forms: who may not see such a name follows and sends a token in its place."""

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

from harness_site.rendering.masking import masked, masks

_PREFIX: Final = "masked."


def reference(name: str) -> str:
    """Return what stands for `name` in an address or a form: itself, unless part of it is masked for who reads now.
    The same name has the same token, so that addresses stay as they are."""
    if masked(name) == name:
        return name
    sealed = _ciphers()[0].encrypt(name.encode("utf-8", "surrogatepass"), None)
    return _PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def resolve(given: str) -> str:
    """Return the name that `reference` was given; anything else as it is."""
    if not given.startswith(_PREFIX):
        return given
    token = given.removeprefix(_PREFIX)
    try:
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        return given
    for cipher in _ciphers():
        try:
            return cipher.decrypt(sealed, None).decode("utf-8", "surrogatepass")
        except (InvalidTag, ValueError):
            continue
    return given


def shown_query(query: str) -> str:
    """Return the query of an address as it may be shown: names by reference, and what is looked for masked."""
    if not masks():
        return query
    shown = QueryDict(mutable=True)
    for name, value in parse_qsl(query):
        shown[name] = masked(value) if name in {"q", "find"} else reference(value)
    return shown.urlencode()


def fingerprint(digest: str) -> str:
    """Return what tells two contents apart and nobody can compute from a guess, unlike `digest`."""
    return salted_hmac("harness.fingerprint", digest, algorithm="sha256").hexdigest()[:32]


def shown_digest(digest: str) -> str:
    """Return `digest` for who sees what it was made of, its fingerprint for anybody else: a short secret could be found
    by computing digests of guesses."""
    return fingerprint(digest) if masks() else digest


def without_digests(content: Any) -> Any:
    """Return JSON with the digests of files replaced as `shown_digest` does it."""
    if not masks():
        return content
    if isinstance(content, dict):
        return {
            key: fingerprint(inner) if key == "sha256" and isinstance(inner, str) else without_digests(inner)
            for key, inner in content.items()
        }
    return [without_digests(each) for each in content] if isinstance(content, list) else content


def _ciphers() -> list[AESSIV]:
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [AESSIV(hashlib.blake2b(key.encode(), digest_size=64, person=b"harness names").digest()) for key in secrets]
