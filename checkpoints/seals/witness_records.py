"""Records of a witness: one noted head each, as a line with a keyed digest, which only who has the key can make."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from checkpoints.exceptions import SealKeyInvalid
from checkpoints.seals.seal_keys import SealKeys, get_seal_keys

#: Kinds of records: a head that is about to be written, that was written, and that is declared to be the newest one.
EXPECTED, CONFIRMED, ADOPTED = "e", "c", "a"
_RECORD_PARTS = 5
#: Number of hexadecimal digits of a record's digest, which begins with the id of its key.
_MAC_DIGITS = 32


@dataclass(frozen=True)
class WitnessedHead:
    """Head of a session: number of its last write, and its seal. `name` identifies the session in every database."""

    name: str
    number: int
    seal: bytes


def build_session_name(key_space: str, session_pk: int) -> str:
    """Build the name of a session in a witness."""
    return f"{key_space}:{session_pk}"


def parse_session_pk(name: str) -> int:
    """Return the key of a session by its name in a witness."""
    return int(name.rpartition(":")[2])


def is_session_name_not_digest(name: str) -> bool:
    """Return whether a name in a witness is that of a session, and not the digest of a name that users gave."""
    return ":" in name


def build_head_of_deleted_session(name: str) -> WitnessedHead:
    """Build what is noted as the newest head of a session that is gone: it has no writes and no seal."""
    return WitnessedHead(name, -1, b"")


@dataclass
class WitnessedSession:
    """Record of a witness about one session: the last confirmed seal, and the seals expected since.

    `number` is negative if no write was confirmed, and after the session was deleted.
    """

    number: int = -1
    seal: bytes = b""
    expected: dict[int, set[bytes]] = field(default_factory=dict)

    def knows_head(self, number: int, seal: bytes) -> bool:
        return (number, seal) == (self.number, self.seal) or seal in self.expected.get(number, ())

    def list_confirmed_and_expected_heads(self) -> list[tuple[int, bytes]]:
        """List the numbers and seals that are known."""
        confirmed = [] if self.number < 0 else [(self.number, self.seal)]
        return confirmed + [(number, seal) for number, seals in self.expected.items() for seal in seals]

    def apply_record(self, kind: str, head: WitnessedHead) -> None:
        """Take a record into account, in the order in which they were noted.

        A number that was confirmed already, or a lower one, is of a write to an old copy of the session.
        """
        if kind == ADOPTED:
            self.number, self.seal, self.expected = head.number, head.seal, {}
        elif head.number <= self.number:
            return
        elif kind == EXPECTED:
            self.expected.setdefault(head.number, set()).add(head.seal)
        else:
            self.number, self.seal = head.number, head.seal
            self.expected = {later: seals for later, seals in self.expected.items() if later > head.number}


def encode_record_with_mac(kind: str, head: WitnessedHead) -> bytes:
    """Return the line of a record, with its end. Raises `SealKeyInvalid` without a key."""
    content = f"{kind} {head.name} {head.number} {head.seal.hex()}"
    return f"{content} {_compute_mac(content)}\n".encode()


def write_record_or_raise_if_partial(descriptor: int, content: bytes) -> None:
    """Write a record to a file. Raises `OSError`, also if the file takes only a part of it, as on a full disk."""
    if os.write(descriptor, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def parse_and_verify_record(line: bytes) -> tuple[str, WitnessedHead] | None:
    """Return the kind and the head of a record; None for one whose writer lost power before it was whole.

    Raises `ValueError` for a record that was not written with a configured key.
    """
    parts = line.decode("ascii", "replace").rstrip("\n").split(" ")
    if len(parts) < _RECORD_PARTS or len(parts[-1]) < _MAC_DIGITS:
        return None
    *fields, mac = parts
    if len(fields) >= _RECORD_PARTS or mac not in _compute_record_macs_by_all_keys(" ".join(fields)):
        raise ValueError("the record has another digest")
    return fields[0], WitnessedHead(fields[1], int(fields[2]), bytes.fromhex(fields[3]))


def _compute_mac(content: str) -> str:
    return _get_seal_keys_or_raise().current.compute_seal("witness", content.encode()).hex()[:_MAC_DIGITS]


def _compute_record_macs_by_all_keys(content: str) -> set[str]:
    """List the digests of a line by all keys, the present one and former ones."""
    keys = _get_seal_keys_or_raise().by_id.values()
    return {key.compute_seal("witness", content.encode()).hex()[:_MAC_DIGITS] for key in keys}


def _get_seal_keys_or_raise() -> SealKeys:
    keys = get_seal_keys()
    if keys is None:
        raise SealKeyInvalid("a witness needs a key of seals, and there is none")
    return keys
