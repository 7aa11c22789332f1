"""Compression of opaque bytes: alone, or as the difference from bytes that they resemble."""

from __future__ import annotations

import zlib
from typing import Any, Final

from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.formats.canonical_json import parse_json

#: Shorter bytes are stored as they are.
MIN_COMPRESSED_SIZE: Final = 256
#: Bytes that a difference compresses at once, and those around the same place in the base that it may refer to.
#: Together they are less than the 32 KB that zlib looks back.
_CHUNK_SIZE, _MARGIN = 16_384, 4_096

#: First bytes of what is packed.
_PLAIN: Final = b"\x00"
_PACKED: Final = b"\x01"
_RAW_DEFLATE: Final = -15
#: Header of a stream of zlib with the largest window. Compressed texts are recognized by its first byte.
_ZLIB_HEADER: Final = b"\x78\x9c"
#: Number of bytes at the end of a window that a match may not begin in.
_MIN_LOOKAHEAD: Final = 262
#: Parts of the states of frameworks, the most frequent ones last. Stored bytes are unpacked with them, so a change of
#: them needs another first byte.
_COMMON_PARTS: Final = (
    b'{"size":,"header":{"checkpoint_id":"run_id":"langgraph_'
    b"\x84\xa1v\x04\xa2ts\xd9 2026-01-01T00:00:00.000000+00:00\xadversions_seen\x84\xa9__input__\x80\xa9__start__\x81"
    b"\xa9__start__\xb3__interrupt__\xa5agent\x81\xafbranch:to:agent\xa5tools\x81\xafbranch:to:tools\xa5model\x81"
    b"\xafbranch:to:model\xb300000000\xb0updated_channels\x92\xafbranch:to:\xa9__start__\xa8messages"
    b"\x83\xa6source\xa5input\xa6update\xa4loop\xa4step\xcc\xa7parents\x80"
    b'{"__start__":["00000000,null],"branch:to:model":["00000000"],"branch:to:tools":["00000000"],"messages":["00000000'
)

#: First byte of a difference. What begins like a stream of zlib was stored by an older version, without common parts.
_DIFFERENCE: Final = b"\x02"
#: Parts of messages around their texts: of lines of Claude Code, and of LangChain's in MessagePack. What is said of
#: `_COMMON_PARTS` holds for them too.
_COMMON_MESSAGE_PARTS: Final = (
    b'"permissionMode":"default","toolUseResult":{"stdout":"","stderr":"","interrupted":false,"isImage":false},'
    b'"sourceToolAssistantUUID":"=uuid","requestId":"req_01","slug":"=","attributionAgent":"="'
    b'"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":1,"cache_creation_input_tokens":0,'
    b'"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},'
    b'"output_tokens":1,"service_tier":"standard"}},"uuid":"","timestamp":"2026-01-01T00:00:00.000Z"}]'
    b'[{"parentUuid":"=uuid","isSidechain":false,"userType":"=","entrypoint":"=","cwd":"=","sessionId":"=",'
    b'"version":"=","gitBranch":"=","type":"assistant","message":{"model":"claude-","id":"msg_01","type":"message",'
    b'"role":"assistant","content":[{"type":"text","text":""}]'
    b"\xbdlangchain_core.messages.tool\xabToolMessage\x88\xa7content\xactool_call_id\xa6status\xa7success"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9$\xaatool_calls\x90"
    b"\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\xb3model_validate_json"
    b"\x05\x94\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xda"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xc0\xb3model_validate_json"
    b"\x81\xa8messages\x91\xc8\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda"
)


def compress_if_shorter_or_none(content: bytes) -> bytes | None:
    """Compress bytes. Returns None if that makes them no shorter."""
    packed = _deflate(content, 6) if len(content) >= MIN_COMPRESSED_SIZE else content
    return packed if len(packed) < len(content) else None


def _deflate(content: bytes, level: int, *, raw_with_dictionary: bytes | None = None) -> bytes:
    """Compress bytes as `zlib.compress` does, in buffers of their size.

    Those of the largest window have 268 KB. To get and clear them takes several times as long as to compress a short
    value. A stream that refers to a smaller window is also one of the largest, whose header it gets.

    Args:
        content: The bytes.
        level: Level of zlib.
        raw_with_dictionary: Bytes that the result may refer to, which then has no header and checksum.
    """
    dictionary = raw_with_dictionary or b""
    size = len(dictionary) + len(content)
    window_bits = min(max((size + _MIN_LOOKAHEAD).bit_length(), 9), zlib.MAX_WBITS)
    memory_level = min(max(size.bit_length() - 6, 1), zlib.DEF_MEM_LEVEL)
    if raw_with_dictionary is None:
        packer = zlib.compressobj(level, zlib.DEFLATED, window_bits, memory_level)
        packed = packer.compress(content) + packer.flush()
        return _ZLIB_HEADER + packed[len(_ZLIB_HEADER) :]
    packer = zlib.compressobj(level, zlib.DEFLATED, -window_bits, memory_level, zdict=dictionary)
    return packer.compress(content) + packer.flush()


def decompress(packed: bytes) -> bytes:
    """Return the bytes that `compress_if_shorter_or_none` got. Raises `ValueError`, also above `MAX_VALUE_BYTES`."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, MAX_VALUE_BYTES + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    _require_size_within_limit(len(content))
    if not unpacker.eof:
        raise ValueError("it ends early")
    return content


class TextToCompress(str):
    """Text that a statement compresses before it stores it."""

    __slots__ = ()

    def compress_if_shorter(self) -> str | bytes:
        """Return the compressed text, or the text itself if that is no longer."""
        packed = compress_if_shorter_or_none(self.encode("utf-8", "surrogatepass"))
        return str(self) if packed is None else packed


def decompress_text(packed: bytes) -> str:
    """Return the text that `TextToCompress` was. Raises `ValueError`."""
    return decompress(packed).decode("utf-8", "surrogatepass")


def compress_with_preset_dictionary(content: bytes) -> bytes:
    """Compress short bytes with the dictionary `_COMMON_PARTS`, if that makes them shorter."""
    if len(content) <= MAX_VALUE_BYTES:
        packed = _deflate(content, 9, raw_with_dictionary=_COMMON_PARTS)
        if len(packed) < len(content):
            return _PACKED + packed
    return _PLAIN + content


def decompress_with_preset_dictionary(packed: bytes) -> bytes:
    """Return the bytes that `compress_with_preset_dictionary` got. Raises `ValueError`."""
    if packed[:1] == _PLAIN:
        return packed[1:]
    unpacker = zlib.decompressobj(wbits=_RAW_DEFLATE, zdict=_COMMON_PARTS)
    try:
        content = unpacker.decompress(packed[1:], MAX_VALUE_BYTES + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    _require_size_within_limit(len(content))
    if packed[:1] != _PACKED or not unpacker.eof or unpacker.unused_data:
        raise ValueError("the bytes are not whole, or a newer version has packed them")
    return content


def compress_difference(content: bytes, base: bytes) -> bytes:
    """Compress bytes as the difference from `base`, which has most of them at about the same places."""
    parts = [_DIFFERENCE]
    for start in range(0, len(content), _CHUNK_SIZE):
        dictionary = _COMMON_MESSAGE_PARTS + _get_window_of_base(base, start)
        parts.append(_deflate(content[start : start + _CHUNK_SIZE], 9, raw_with_dictionary=dictionary))
    return b"".join(parts)


def decompress_difference(packed: bytes, base: bytes) -> bytes:
    """Return the bytes that `compress_difference` got with the same base.

    Raises `ValueError`, also for more than `MAX_VALUE_BYTES`.
    """
    content = bytearray()
    format_, common = (zlib.MAX_WBITS, b"") if packed[:1] == _ZLIB_HEADER[:1] else (_RAW_DEFLATE, _COMMON_MESSAGE_PARTS)
    packed = packed.removeprefix(_DIFFERENCE)
    try:
        while packed:
            unpacker = zlib.decompressobj(wbits=format_, zdict=common + _get_window_of_base(base, len(content)))
            content += unpacker.decompress(packed, _CHUNK_SIZE + 1)
            _require_size_within_limit(len(content))
            if not unpacker.eof:
                raise ValueError("it ends early, or a part of it is too long")
            packed = unpacker.unused_data
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return bytes(content)


def _require_size_within_limit(size: int) -> None:
    if size > MAX_VALUE_BYTES:
        raise ValueError(f"it has more than {MAX_VALUE_BYTES:,} bytes")


def _get_window_of_base(base: bytes, start: int) -> bytes:
    return base[max(0, start - _MARGIN) : start + _CHUNK_SIZE + _MARGIN]


def build_compression_base_from_message(type_: str, body: str) -> bytes:
    """Return the bytes that a value with the content of a message resembles.

    Args:
        type_: Format of the value. JSON has the texts of the message escaped as its body has, others have them as they
            are.
        body: JSON text of the message.

    Raises:
        ValueError: The body is no JSON.
    """
    if type_ == "json":
        return body.encode()
    texts = list[str]()
    _collect_texts(parse_json(body), texts)
    return "\n".join(texts).encode("utf-8", "surrogatepass")


def _collect_texts(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect_texts(item, texts)
    elif isinstance(value, list):
        for item in value:
            _collect_texts(item, texts)
