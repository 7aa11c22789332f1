"""Digests of canonical text: BLAKE2b with 32 bytes, with a prefix per purpose so that digests of two kinds never
collide."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from hashlib import blake2b

from checkpoints.formats.canonical_json import to_canonical_json

DIGEST_SIZE = 32
#: Bytes of the digest of a blob, which only has to be unique in its session.
BLOB_DIGEST_SIZE = 16
#: Chain before the first message.
EMPTY_CHAIN = b""


#: What stands for the chain before the first message, so that each link covers as many bytes before its body.
_INITIAL_HASH = bytes(DIGEST_SIZE)
#: State that is copied: that is faster than to make each anew.
_NEW_LINK = blake2b(digest_size=DIGEST_SIZE, person=b"chain").copy


def extend_hash_chain(previous: bytes, body: str) -> bytes:
    """Return the chain after `body`: it depends on this message and on everything before it."""
    link = _NEW_LINK()
    link.update((previous or _INITIAL_HASH) + body.encode())
    return link.digest()


def compute_hash_chains(bodies: Iterable[str], previous: bytes = EMPTY_CHAIN) -> list[bytes]:
    """Return the chain after each of `bodies`, starting from `previous`."""
    links, previous = [], previous or _INITIAL_HASH
    for body in bodies:
        link = _NEW_LINK()
        link.update(previous + body.encode())
        previous = link.digest()
        links.append(previous)
    return links


def compute_last_hash_chain(bodies: Iterable[str], previous: bytes = EMPTY_CHAIN) -> bytes:
    """Return the chain after the last one of `bodies`, starting from `previous`, which it is if there are none."""
    chain, new_link = previous or _INITIAL_HASH, _NEW_LINK
    for body in bodies:
        link = new_link()
        link.update(chain + body.encode())
        chain = link.digest()
    return previous if chain is _INITIAL_HASH else chain


def digest_text(text: str) -> str:
    """Return the hex digest of a text, such as a call's canonical arguments or its result."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE, person=b"text").hexdigest()


def digest_outcome(result: str | None, error_message: str) -> str:
    """Return the hex digest of the outcome of a call: of its result, and of the message of its error if it has one.

    Empty if it has neither.
    """
    if error_message:
        return digest_text(to_canonical_json([result, error_message], "outcome"))
    return "" if result is None else digest_text(result)


def digest_key_parts(*parts: object) -> str:
    """Return the hex digest of an unambiguous encoding of `parts`: a JSON array keeps their borders and types apart."""
    return blake2b(to_canonical_json(list(parts), "key").encode(), digest_size=DIGEST_SIZE, person=b"key").hexdigest()


def digest_blob(type_: str, content: bytes) -> str:
    """Return the digest of opaque bytes and the name of their format: 32 hexadecimal digits."""
    return blake2b(content, digest_size=BLOB_DIGEST_SIZE, key=type_.encode()[:64], person=b"blob").hexdigest()


def digest_token(token: str | None) -> str:
    """Return the stored form of a response's token: SHA-256 in hex; empty if there is none."""
    return "" if token is None else hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
