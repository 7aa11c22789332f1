"""Traces of OTLP in the binary form of protobuf, read into the values of OTLP's JSON form.

Only the messages of an export of traces are read, by the numbers of their fields in opentelemetry-proto. Unknown fields
are skipped, as protobuf wants it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from checkpoints.exceptions import MalformedRequest

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Deepest nesting of values.
_DEEPEST: Final = 100

Value = int | bytes
#: Field of a message: its name in JSON, whether it repeats, and what reads its value at a depth.
Field = tuple[str, bool, Callable[[Any, int], Any]]


def parse_traces(data: bytes) -> dict[str, Any]:
    """Read an export of traces.

    Args:
        data: Message `ExportTraceServiceRequest`.

    Returns:
        The export, as its JSON form would be.

    Raises:
        MalformedRequest: It is not such a message.
    """
    try:
        return _parse_message(data, _EXPORT, 0)
    except (IndexError, ValueError, struct.error, TypeError) as error:
        raise MalformedRequest(f"it is no export of traces in protobuf ({error})") from None


def _parse_message(data: Any, fields: Mapping[int, Field], depth: int) -> dict[str, Any]:
    if not isinstance(data, bytes) or depth > _DEEPEST:
        raise ValueError("a message is nested too deep, or is none")
    message: dict[str, Any] = {}
    for number, value in _iterate_fields(data):
        field = fields.get(number)
        if field is None:
            continue
        name, repeats, read = field
        if repeats:
            message.setdefault(name, []).append(read(value, depth + 1))
        else:
            message[name] = read(value, depth + 1)
    return message


def _iterate_fields(data: bytes) -> Iterator[tuple[int, Value]]:
    position = 0
    while position < len(data):
        tag, position = _parse_varint(data, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _parse_varint(data, position)
            yield number, value
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            length, position = _parse_varint(data, position)
        if length is None or not number or position + length > len(data):
            raise ValueError(f"a field at byte {position} is cut off or of an unknown kind")
        yield number, data[position : position + length]
        position += length


def _parse_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise ValueError("a number is too long")


def _decode_text(value: Any, depth: int) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes) else _raise_not_text(value)


def _encode_as_hexadecimal(value: Any, depth: int) -> str:
    return value.hex() if isinstance(value, bytes) else _raise_not_text(value)


def _decode_signed_integer(value: Any, depth: int) -> int:
    number = value if isinstance(value, int) else int.from_bytes(value, "little")
    return number - (1 << 64) if number >= 1 << 63 else number


def _decode_double(value: Any, depth: int) -> Any:
    (number,) = struct.unpack("<d", value)
    return number if number - number == 0 else str(number)  # JSON has no infinity


def _decode_boolean(value: Any, depth: int) -> bool:
    return bool(value)


def _raise_not_text(value: Any) -> str:
    raise ValueError(f"{value!r} is no text")


def _build_message_parser(fields: Mapping[int, Field]) -> Callable[[Any, int], Any]:
    return lambda value, depth: _parse_message(value, fields, depth)


_ANY: dict[int, Field] = {}
_PAIR: Final[dict[int, Field]] = {1: ("key", False, _decode_text), 2: ("value", False, _build_message_parser(_ANY))}
_ANY |= {
    1: ("stringValue", False, _decode_text),
    2: ("boolValue", False, _decode_boolean),
    3: ("intValue", False, _decode_signed_integer),
    4: ("doubleValue", False, _decode_double),
    5: ("arrayValue", False, _build_message_parser({1: ("values", True, _build_message_parser(_ANY))})),
    6: ("kvlistValue", False, _build_message_parser({1: ("values", True, _build_message_parser(_PAIR))})),
    7: ("bytesValue", False, _encode_as_hexadecimal),
}
_ATTRIBUTES: Final[Field] = ("attributes", True, _build_message_parser(_PAIR))
_EVENT: Final[dict[int, Field]] = {
    1: ("timeUnixNano", False, _decode_signed_integer),
    2: ("name", False, _decode_text),
    3: _ATTRIBUTES,
}
_STATUS: Final[dict[int, Field]] = {2: ("message", False, _decode_text), 3: ("code", False, _decode_signed_integer)}
_SPAN: Final[dict[int, Field]] = {
    1: ("traceId", False, _encode_as_hexadecimal),
    2: ("spanId", False, _encode_as_hexadecimal),
    4: ("parentSpanId", False, _encode_as_hexadecimal),
    5: ("name", False, _decode_text),
    6: ("kind", False, _decode_signed_integer),
    7: ("startTimeUnixNano", False, _decode_signed_integer),
    8: ("endTimeUnixNano", False, _decode_signed_integer),
    9: _ATTRIBUTES,
    11: ("events", True, _build_message_parser(_EVENT)),
    15: ("status", False, _build_message_parser(_STATUS)),
}
_SCOPE_SPANS: Final[dict[int, Field]] = {2: ("spans", True, _build_message_parser(_SPAN))}
_RESOURCE_SPANS: Final[dict[int, Field]] = {
    1: ("resource", False, _build_message_parser({1: _ATTRIBUTES})),
    2: ("scopeSpans", True, _build_message_parser(_SCOPE_SPANS)),
}
_EXPORT: Final[dict[int, Field]] = {1: ("resourceSpans", True, _build_message_parser(_RESOURCE_SPANS))}


def encode_partial_success(rejected: int, message: str) -> bytes:
    """Write the message `ExportTraceServiceResponse`; it is empty if nothing was rejected."""
    if not rejected:
        return b""
    text = message.encode()
    partial = b"\x08" + _encode_varint(rejected) + b"\x12" + _encode_varint(len(text)) + text
    return b"\x0a" + _encode_varint(len(partial)) + partial


def _encode_varint(number: int) -> bytes:
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
