"""Digests of canonical text: BLAKE2b with 32 bytes, with a word for what is digested so that kinds never mix."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from checkpoints.serde.canonical import canonical

SIZE = 32
#: The chain before the first message.
EMPTY_CHAIN = b""


def link(previous: bytes, body: str) -> bytes:
    """The chain after `body`: it depends on this message and on everything before it."""
    content = blake2b(body.encode(), digest_size=SIZE, person=b"message").digest()
    return blake2b(previous + content, digest_size=SIZE, person=b"chain").digest()


def chain(bodies: Iterable[str], previous: bytes = EMPTY_CHAIN) -> list[bytes]:
    """The chain after each of `bodies`, starting from `previous`."""
    links = []
    for body in bodies:
        previous = link(previous, body)
        links.append(previous)
    return links


def text_digest(text: str) -> str:
    """Hex digest of a text, such as a call's canonical arguments or its result."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=SIZE, person=b"text").hexdigest()


def key_digest(*parts: object) -> str:
    """Hex digest of an unambiguous encoding of `parts`: a JSON array keeps their borders and types apart."""
    return blake2b(canonical(list(parts), "key").encode(), digest_size=SIZE, person=b"key").hexdigest()
