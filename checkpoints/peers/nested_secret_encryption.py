"""Encryption of secrets inside stored values, so that the database alone does not reveal them.

A text under a key that names a secret (`auth_token`, `password`, `authorization`, …) is replaced by
`{"$encrypted": "…"}`, and restored when it is read. The key is Django's `SECRET_KEY`, or without a Django project
`HARNESS_SECRET_KEY`, or the content of the file that `HARNESS_SECRET_KEY_FILE` names; former keys still decrypt.
Without a key, or without the package `cryptography`, a value with a secret in it is refused.
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
from checkpoints.formats.canonical_json import parse_json, to_canonical_json

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_ENCRYPTED_KEY = "$encrypted"
#: Text shown in place of an encrypted secret.
HIDDEN_TEXT = "‹encrypted›"
#: Endings of keys that hold secrets, in any spelling: auth_token, X-Api-Key, clientSecret.
_SECRET_NAME_PATTERN = re.compile(
    r"(tokens?|secrets?|password|passwd|passphrase|authorization|api[-_]?key|private[-_]?key|credentials?|cookies?|jwt)$",
    re.IGNORECASE,
)


def dump_with_encrypted_secrets(value: Any, what: str) -> str:
    """Encode `value` as canonical JSON text, its secrets encrypted. Raises `SecretsLocked`, `NotRepresentable`,
    `TooLarge`."""
    to_canonical_json(value, what)
    return to_canonical_json(_encrypt_nested_secrets(value, what, _encrypt_secret), what)


def parse_json_and_decrypt_nested_secrets(text: str, session_id: str, what: str) -> Any:
    """Decode the output of `dump_with_encrypted_secrets`. Raises `SecretsLocked`, `CheckpointCorrupted`."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise CheckpointCorrupted(session_id, what, str(error)) from error
    return _decrypt_nested_secrets(value, what)


def hide_encrypted_secrets(value: Any) -> Any:
    """Replace the encrypted secrets of a stored JSON value by a placeholder, for display."""
    if isinstance(value, dict):
        return (
            HIDDEN_TEXT
            if value.keys() == {_ENCRYPTED_KEY}
            else {key: hide_encrypted_secrets(item) for key, item in value.items()}
        )
    return [hide_encrypted_secrets(item) for item in value] if isinstance(value, list) else value


def _encrypt_nested_secrets(value: Any, path: str, encrypt: Callable[[str, str], Any]) -> Any:
    if isinstance(value, dict):
        if _ENCRYPTED_KEY in value:
            raise NotRepresentable(f"{path}.{_ENCRYPTED_KEY}", "this key marks what is encrypted")
        return {
            key: encrypt(item, f"{path}.{key}")
            if _has_nonempty_text_and_secret_name(key, item)
            else _encrypt_nested_secrets(item, f"{path}.{key}", encrypt)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_encrypt_nested_secrets(item, f"{path}[{index}]", encrypt) for index, item in enumerate(value)]
    return value


def _has_nonempty_text_and_secret_name(key: str, value: Any) -> bool:
    return isinstance(value, str) and bool(value) and _SECRET_NAME_PATTERN.search(key) is not None


def _encrypt_secret(secret: str, path: str) -> dict[str, str]:
    return {
        _ENCRYPTED_KEY: _build_cipher_from_site_keys(path).encrypt(secret.encode("utf-8", "surrogatepass")).decode()
    }


def _decrypt_nested_secrets(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ENCRYPTED_KEY}:
            return _decrypt_secret(value[_ENCRYPTED_KEY], path)
        return {key: _decrypt_nested_secrets(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_decrypt_nested_secrets(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return value


def _decrypt_secret(ciphertext: str, path: str) -> str:
    keys = _build_cipher_from_site_keys(path)
    from cryptography.fernet import InvalidToken

    try:
        return keys.decrypt(ciphertext.encode()).decode("utf-8", "surrogatepass")
    except InvalidToken:
        raise SecretsLocked(path, "it was encrypted with another key") from None


def _build_cipher_from_site_keys(path: str) -> MultiFernet:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError:
        raise SecretsLocked(path, "the package cryptography, which encrypts it, is not installed") from None
    secrets = [secret for secret in _read_site_secret_keys() if secret]
    if not secrets:
        raise SecretsLocked(path, "there is no key to encrypt it with")
    keys = [hashlib.blake2b(secret.encode(), digest_size=32, person=b"harness peers").digest() for secret in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])


def _read_site_secret_keys() -> list[str]:
    """List the keys, the present one first."""
    with suppress(ImproperlyConfigured):  # raised by Django for an empty key
        return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    file = os.environ.get("HARNESS_SECRET_KEY_FILE")
    present_key = Path(file).read_text().strip() if file else os.environ.get("HARNESS_SECRET_KEY", "")
    return [
        present_key,
        *(former_key.strip() for former_key in os.environ.get("HARNESS_OLD_SECRET_KEYS", "").split(",")),
    ]
