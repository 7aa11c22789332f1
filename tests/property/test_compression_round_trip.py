"""Bytes that are compressed, alone or as the difference from others, are read back exactly."""

from __future__ import annotations

import random

from hypothesis import example, given
from hypothesis import strategies as st

from checkpoints.formats.plain_and_delta_compression import (
    compress_difference,
    compress_if_shorter_or_none,
    compress_with_preset_dictionary,
    decompress,
    decompress_difference,
    decompress_with_preset_dictionary,
)

#: What states and messages of frameworks consist of, so that there is much to refer to at any distance.
PARTS = [
    b'{"type":"assistant","message":{"content":[',
    b"\x81\xa8messages\x91\xc8\x05\x94",
    b'"uuid":"',
    b"refund ",
    b"\x00",
]
#: Sizes on both sides of where the format changes: no bytes, no compression, a chunk, and the window of zlib.
SIZES = st.sampled_from([0, 1, 255, 256, 257, 600, 4_096, 16_383, 16_384, 16_385, 32_768, 40_000]) | st.integers(
    0, 70_000
)


def build_content(size: int, seed: int, is_repetitive: bool) -> bytes:
    """Build bytes that are the same for the same arguments."""
    choose = random.Random(seed)
    content = bytearray()
    while len(content) < size:
        content += (
            choose.choice(PARTS) if is_repetitive and choose.random() < 0.8 else choose.randbytes(choose.randrange(40))
        )
    return bytes(content[:size])


contents = st.builds(build_content, SIZES, st.integers(0, 999), st.booleans())


def change(content: bytes, seed: int, count: int) -> bytes:
    """Return bytes in which parts are replaced, removed and added."""
    choose = random.Random(seed)
    changed = bytearray(content)
    for _ in range(count):
        start = choose.randrange(len(changed) + 1)
        changed[start : start + choose.randrange(300)] = choose.randbytes(choose.randrange(300))
    return bytes(changed)


@given(contents)
@example(b"")
def test_bytes_that_are_compressed_alone_are_read_back(content: bytes) -> None:
    packed = compress_if_shorter_or_none(content)
    if packed is not None:
        assert len(packed) < len(content)
        assert decompress(packed) == content
        assert packed.startswith(b"\x78")  # what reads the database takes other bytes for no text
    assert decompress_with_preset_dictionary(compress_with_preset_dictionary(content)) == content


@given(contents, st.integers(0, 999), st.integers(0, 12))
@example(b"", 0, 0)
def test_bytes_that_are_compressed_as_a_difference_are_read_back(content: bytes, seed: int, count: int) -> None:
    changed = change(content, seed, count)
    assert decompress_difference(compress_difference(changed, content), content) == changed
    assert decompress_difference(compress_difference(changed, b""), b"") == changed
    assert decompress_difference(compress_difference(content, content), content) == content
