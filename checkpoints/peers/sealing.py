"""Secrets inside of what is stored: each is sealed where it stands, so that the database alone does not tell it.

A text under a key that says that it is a secret (`auth_token`, `password`, `authorization`, …) is replaced by
`{"$sealed": "…"}`, and put back when it is read. The key is Django's `SECRET_KEY`, or where there is no Django project
`HARNESS_SECRET_KEY`, or what the file holds that `HARNESS_SECRET_KEY_FILE` names; former ones still open. Without a
key, or without the package `cryptography`, a value with a secret in it is refused.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from checkpoints.exceptions import CheckpointCorrupted, NotRepresentable, SecretsLocked
from checkpoints.serde.canonical import canonical, parse

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_MARK = "$sealed"
#: What people read where something is sealed.
HIDDEN = "‹sealed›"
#: Keys that end so hold secrets, however they are spelt: auth_token, X-Api-Key, clientSecret.
_SECRET = re.compile(
    r"(tokens?|secrets?|password|passwd|passphrase|authorization|api[-_]?key|private[-_]?key|credentials?|cookies?|jwt)$",
    re.IGNORECASE,
)


def stored(value: Any, what: str) -> str:
    """Canonical JSON text of `value`, its secrets sealed. Raises `SecretsLocked`, `NotRepresentable`, `TooLarge`."""
    canonical(value, what)
    return canonical(_walked(value, what, _seal), what)


def opened(text: str, session_id: str, what: str) -> Any:
    """What `stored` was given. Raises `SecretsLocked`, `CheckpointCorrupted`."""
    try:
        value = parse(text)
    except ValueError as error:
        raise CheckpointCorrupted(session_id, what, str(error)) from error
    return _unsealed(value, what)


def hidden(value: Any) -> Any:
    """A JSON value as it is stored, for people: what is sealed in it is said to be, and nothing of it shown."""
    if isinstance(value, dict):
        return HIDDEN if value.keys() == {_MARK} else {key: hidden(item) for key, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, list) else value


def _walked(value: Any, path: str, seal: Callable[[str, str], Any]) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            raise NotRepresentable(f"{path}.{_MARK}", "this key marks what is sealed")
        return {
            key: seal(item, f"{path}.{key}") if _is_secret(key, item) else _walked(item, f"{path}.{key}", seal)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walked(item, f"{path}[{index}]", seal) for index, item in enumerate(value)]
    return value


def _is_secret(key: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and _SECRET.search(key) is not None


def _seal(secret: str, path: str) -> dict[str, str]:
    return {_MARK: _keys(path).encrypt(secret.encode("utf-8", "surrogatepass")).decode()}


def _unsealed(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_MARK}:
            return _open(value[_MARK], path)
        return {key: _unsealed(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_unsealed(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _open(sealed: str, path: str) -> str:
    keys = _keys(path)
    from cryptography.fernet import InvalidToken

    try:
        return keys.decrypt(sealed.encode()).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise SecretsLocked(path, "it was sealed with another key") from None


def _keys(path: str) -> MultiFernet:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError:
        raise SecretsLocked(path, "the package cryptography, which seals it, is not installed") from None
    secrets = [secret for secret in _secret_keys() if secret]
    if not secrets:
        raise SecretsLocked(path, "there is no key to seal it with")
    derived = [hashlib.blake2b(secret.encode(), digest_size=32, person=b"harness peers").digest() for secret in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


def _secret_keys() -> list[str]:
    """The present key first."""
    with suppress(ImproperlyConfigured):  # what Django says of an empty one
        return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    file = os.environ.get("HARNESS_SECRET_KEY_FILE")
    own = Path(file).read_text().strip() if file else os.environ.get("HARNESS_SECRET_KEY", "")
    return [own, *(old.strip() for old in os.environ.get("HARNESS_OLD_SECRET_KEYS", "").split(","))]


def token_digest(token: str | None) -> str:
    """What is stored of an answer's token: SHA-256 in hex; empty for none."""
    return "" if token is None else hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
