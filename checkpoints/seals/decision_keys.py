"""Keys of the signatures of decisions, from configuration.

The site has the private key (`HARNESS_DECISION_SIGNING_KEY`), agents have public keys only
(`HARNESS_DECISION_VERIFY_KEYS`): an agent host can verify that the site has recorded a decision, and cannot record one
in the name of a person. Each key is 64 hexadecimal digits of Ed25519. Several public keys, separated by commas or white
space, verify what the site has signed with former keys.

A signature begins with the id of its key, a digest of the public key. That signatures are required is configuration
too: they are where a process has any of these keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from django.core.signals import setting_changed

from checkpoints.exceptions import DecisionKeyInvalid
from checkpoints.seals.read_keys_from_setting_or_file import read_keys_from_setting_or_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNING_SETTING = "HARNESS_DECISION_SIGNING_KEY"
VERIFY_SETTING = "HARNESS_DECISION_VERIFY_KEYS"
#: Number of bytes of a key's id at the beginning of each signature, and of a whole signature.
KEY_ID_SIZE = 8
SIGNATURE_SIZE = KEY_ID_SIZE + 64
_KEY_PATTERN = re.compile(r"[0-9a-fA-F]{64}")


@dataclass(frozen=True)
class DecisionKeys:
    """Configured keys: each of `verifying`, by its id, verifies. `signing` is None where decisions cannot be signed."""

    verifying: dict[bytes, Ed25519PublicKey]
    signing: Ed25519PrivateKey | None = field(default=None, repr=False)
    signing_id: bytes = b""

    def sign(self, statement: bytes) -> bytes:
        """Return the signature of a statement: the id of the key, and 64 bytes of Ed25519."""
        assert self.signing is not None  # noqa: S101 - the caller has required it
        return self.signing_id + self.signing.sign(statement)


@dataclass(frozen=True)
class KeyPair:
    """New pair of keys, each as the text of its setting. `key_id` is public."""

    signing: str = field(repr=False)
    verifying: str
    key_id: str


@cache
def get_decision_keys() -> DecisionKeys | None:
    """Return the configured keys, or None if decisions are not signed. Read once per process.

    Raises `DecisionKeyInvalid` for a key that cannot be used.
    """
    secrets, public = _decode_keys_from_setting(SIGNING_SETTING), _decode_keys_from_setting(VERIFY_SETTING)
    if len(secrets) > 1:
        raise DecisionKeyInvalid(f"{SIGNING_SETTING} has several keys; a process signs with one")
    if not secrets and not public:
        return None
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ImportError:
        raise DecisionKeyInvalid(
            "the package cryptography, which verifies signatures, is not installed",
            hint='Install it: `pip install "harness-checkpoints[secrets]"`. Nothing was run.',
        ) from None
    verifying = {compute_key_id(raw): Ed25519PublicKey.from_public_bytes(raw) for raw in public}
    if len(verifying) != len(public):
        raise DecisionKeyInvalid(f"{VERIFY_SETTING} has the same key twice")
    if not secrets:
        return DecisionKeys(verifying)
    signing = Ed25519PrivateKey.from_private_bytes(secrets[0])
    raw = signing.public_key().public_bytes_raw()
    if secrets[0] in public:
        raise DecisionKeyInvalid(f"{VERIFY_SETTING} has the private key, which belongs only into {SIGNING_SETTING}")
    return DecisionKeys({**verifying, compute_key_id(raw): signing.public_key()}, signing, compute_key_id(raw))


def compute_key_id(public: bytes) -> bytes:
    """Return the id of a public key: the first bytes of its digest."""
    return blake2b(public, digest_size=KEY_ID_SIZE, person=b"decision key id").digest()


def create_key_pair() -> KeyPair:
    """Make a new pair of keys. Needs the package `cryptography`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signing = Ed25519PrivateKey.generate()
    public = signing.public_key().public_bytes_raw()
    return KeyPair(signing.private_bytes_raw().hex(), public.hex(), compute_key_id(public).hex())


def _decode_keys_from_setting(name: str) -> list[bytes]:
    words = read_keys_from_setting_or_file(name, DecisionKeyInvalid)
    for place, word in enumerate(words, 1):
        if not _KEY_PATTERN.fullmatch(word):
            raise DecisionKeyInvalid(f"key {place} of {name} is not 64 hexadecimal digits")
    return [bytes.fromhex(word) for word in words]


def _clear_key_cache_on_setting_change(*, setting: str, **_: Any) -> None:
    if setting in {SIGNING_SETTING, VERIFY_SETTING}:
        get_decision_keys.cache_clear()


setting_changed.connect(_clear_key_cache_on_setting_change, dispatch_uid="checkpoints.seals.decision_keys")
