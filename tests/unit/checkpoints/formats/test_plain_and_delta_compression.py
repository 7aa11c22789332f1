"""Short bytes are packed and unpacked equal, and bytes that nobody has packed are refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpoints.formats import plain_and_delta_compression

_STATE = (
    b"\x84\xa1v\x04\xa2ts\xd9 2026-11-26T06:39:02.470188+00:00\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81"
    b"\xa9__start__\xb30000000178.727c9512\xa6answer\x81\xb0branch:to:answer\xb30000000179.b6aa8669\xb0updated_channels"
    b"\x91\xa8messages"
)


@given(st.one_of(st.binary(max_size=100), st.binary(max_size=40).map(lambda content: _STATE + content)))
def test_packed_bytes_come_back_equal(content: bytes) -> None:
    packed = plain_and_delta_compression.compress_with_preset_dictionary(content)
    assert plain_and_delta_compression.decompress_with_preset_dictionary(packed) == content
    assert len(packed) <= len(content) + 1


def test_state_of_a_framework_is_less_than_half_as_long() -> None:
    assert len(plain_and_delta_compression.compress_with_preset_dictionary(_STATE)) < len(_STATE) // 2


@pytest.mark.parametrize("kind", ["cut", "extended", "unknown"])
def test_bytes_that_are_not_whole_are_refused(kind: str) -> None:
    packed = plain_and_delta_compression.compress_with_preset_dictionary(_STATE)
    altered = {"cut": packed[:-1], "extended": packed + b"x", "unknown": b"\x02" + packed[1:]}[kind]
    with pytest.raises(ValueError, match="not whole"):
        plain_and_delta_compression.decompress_with_preset_dictionary(altered)


@pytest.mark.parametrize("size", [0, 300, 70_000])
def test_a_difference_comes_back_equal(size: int) -> None:
    base = "".join(map(str, range(size)))[:size].encode()
    content = b"before " + base + b" behind"
    difference = plain_and_delta_compression.compress_difference(content, base)
    assert plain_and_delta_compression.decompress_difference(difference, base) == content
    for altered in (difference[:-1], difference + b"x"):
        with pytest.raises(ValueError, match=r"early|Error"):
            plain_and_delta_compression.decompress_difference(altered, base)


def test_what_is_around_the_text_of_a_message_is_short() -> None:
    text = b" ".join(b"%d" % number for number in range(100))
    line = b'[{"parentUuid":"=uuid","sessionId":"=","type":"user","message":{"role":"user","content":"%s"}}]' % text
    assert len(plain_and_delta_compression.compress_difference(line, text)) < 40


def test_a_difference_of_an_older_version_is_read() -> None:
    base = b"a text, which is also in the difference"
    packer = zlib.compressobj(9, zdict=base)
    difference = packer.compress(b"before " + base) + packer.flush()
    assert plain_and_delta_compression.decompress_difference(difference, base) == b"before " + base


@pytest.mark.parametrize("size", [0, 1, 249, 250, 255, 256, 1_000, 3_834, 32_505, 32_506, 32_768, 300_000])
def test_bytes_are_no_longer_than_with_the_largest_buffers(size: int) -> None:
    content = (b" ".join(b"word %d" % (number * 7 % 1_000) for number in range(size // 6 + 1)))[:size]
    packed = plain_and_delta_compression.compress_if_shorter_or_none(content)
    if packed is not None:
        assert plain_and_delta_compression.decompress(packed) == zlib.decompress(packed) == content
        assert len(packed) <= len(zlib.compress(content, 6))
    assert (packed is None) == (size < plain_and_delta_compression.MIN_COMPRESSED_SIZE)

    # the whole base has to be in the window, from its first byte on
    base = content[:16_000]
    difference = plain_and_delta_compression.compress_difference(b"new " + base, base)
    assert plain_and_delta_compression.decompress_difference(difference, base) == b"new " + base
    assert len(difference) < 200
