"""Keys of seals, from configuration.

`HARNESS_SEAL_KEY` is a Django setting or an environment variable; `HARNESS_SEAL_KEY_FILE` names a file with its value.
Each key is 64 hexadecimal digits. If there are several, separated by commas or white space, the first one seals, and
the others only verify what they have sealed: a new key is put in front, and no row is written again.

A seal begins with the id of its key, a digest of the key, so that a seal by another key is not taken for tampering.
Whether rows without a seal are accepted is configuration too (`HARNESS_SEAL_REQUIRED`), because whoever can write to
the database could remove a mark that is stored in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from checkpoints.exceptions import SealKeyInvalid, SealKeyMissing
from checkpoints.seals.read_keys_from_setting_or_file import read_keys_from_setting_or_file

KEY_SETTING = "HARNESS_SEAL_KEY"
REQUIRED_SETTING = "HARNESS_SEAL_REQUIRED"
#: Number of bytes of a key's id at the beginning of each seal, and of a whole seal.
KEY_ID_SIZE = 4
SEAL_SIZE = 32
#: Number of bytes of a keyed number.
NUMBER_SIZE = 32
_KEY_PATTERN = re.compile(r"[0-9a-fA-F]{64}")
_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


class _DigestCopiers(dict[str, Callable[[], Any]]):
    """Functions that return a new keyed digest for a purpose: a copy of one that is kept, which takes less time."""

    def __init__(self, secret: bytes, size: int) -> None:
        super().__init__()
        self._secret, self._size = secret, size

    def __missing__(self, purpose: str) -> Callable[[], Any]:
        digest = blake2b(key=self._secret, digest_size=self._size, person=purpose.encode())
        return self.setdefault(purpose, digest.copy)


class SealKey:
    """One key. `id` is public: it does not reveal the key.

    What it computes is separate for each `purpose` of at most 16 characters.
    """

    def __init__(self, secret: bytes) -> None:
        self.id = blake2b(secret, digest_size=KEY_ID_SIZE, person=b"seal key id").digest()
        #: Functions that return a new digest of a seal and of a keyed number, by purpose.
        self.new_seals = _DigestCopiers(secret, SEAL_SIZE - KEY_ID_SIZE)
        self.new_numbers = _DigestCopiers(secret, NUMBER_SIZE)

    def compute_seal(self, purpose: str, content: bytes) -> bytes:
        """Return the seal of `content`: the id of this key, and a keyed digest."""
        state = self.new_seals[purpose]()
        state.update(content)
        return self.id + state.digest()  # type: ignore[no-any-return]

    def compute_keyed_number(self, purpose: str, content: bytes) -> int:
        """Return a keyed number of 256 bits for `content`."""
        state = self.new_numbers[purpose]()
        state.update(content)
        return int.from_bytes(state.digest(), "big")

    def __repr__(self) -> str:
        return f"<SealKey {self.id.hex()}>"


@dataclass(frozen=True)
class SealKeys:
    """Configured keys: `current` seals, each of `by_id` verifies. With `required`, rows without a seal are refused."""

    current: SealKey
    by_id: dict[bytes, SealKey]
    required: bool

    def get_key_of_seal(self, seal: bytes) -> SealKey:
        """Return the key that made a seal. Raises `SealKeyMissing`."""
        key = self.by_id.get(seal[:KEY_ID_SIZE])
        if key is None:
            unknown = seal[:KEY_ID_SIZE].hex()
            raise SealKeyMissing(
                f"there is a seal by the key {unknown}, and the configured keys are "
                f"{', '.join(sorted(key_id.hex() for key_id in self.by_id))}",
                unknown,
            )
        return key


@cache
def get_seal_keys() -> SealKeys | None:
    """Return the configured keys, or None if sealing is off. Read once per process.

    Raises `SealKeyInvalid` for a key that cannot be used, and `SealKeyMissing` if seals are required and there is no
    key.
    """
    secrets = read_keys_from_setting_or_file(KEY_SETTING, SealKeyInvalid)
    required = _read_seals_required_setting()
    if not secrets:
        if required:
            raise SealKeyMissing(f"{REQUIRED_SETTING} is on, and {KEY_SETTING} is empty")
        return None
    for place, secret in enumerate(secrets, 1):
        if not _KEY_PATTERN.fullmatch(secret):
            raise SealKeyInvalid(f"key {place} of {KEY_SETTING} is not 64 hexadecimal digits")
    keys = [SealKey(bytes.fromhex(secret)) for secret in secrets]
    by_id = {key.id: key for key in keys}
    if len(by_id) != len(keys):
        raise SealKeyInvalid(f"{KEY_SETTING} has the same key twice")
    return SealKeys(keys[0], by_id, required is not False)


def _read_seals_required_setting() -> bool | None:
    """Return whether rows without a seal are refused; None if that is not configured."""
    value = getattr(settings, REQUIRED_SETTING, None)
    if isinstance(value, bool):
        return value
    text = str(os.environ.get(REQUIRED_SETTING, "") if value is None else value).strip().lower()
    if text and text not in _FLAGS:
        raise SealKeyInvalid(f"{REQUIRED_SETTING} is {text!r}; use 1 or 0")
    return _FLAGS.get(text)


def _clear_key_cache_on_setting_change(*, setting: str, **_: Any) -> None:
    if setting in {KEY_SETTING, REQUIRED_SETTING}:
        get_seal_keys.cache_clear()


setting_changed.connect(_clear_key_cache_on_setting_change, dispatch_uid="checkpoints.seals.seal_keys")
