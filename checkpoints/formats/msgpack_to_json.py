"""Readable JSON form of msgpack bytes, made without importing or calling anything that they name.

The serializer of LangGraph writes Python objects as extension types 0 to 7 whose content is msgpack again: a module, a
name and arguments. A loader would import the module and call the name. Here they become plain data:
`{"type": "module.name", "value": …}`. Bytes that no msgpack has are a text that says so.
"""

from __future__ import annotations

import base64
import math
import struct
from typing import Any

#: Extension types of LangGraph's serializer whose content is an array of a module, a name and the arguments.
_NAMED_EXTENSIONS = frozenset({0, 1, 2, 3, 4, 5})
_ARRAY_EXTENSION, _SNAPSHOT_EXTENSION = 6, 7
#: Deeper values are shown as a text.
_MAX_DEPTH = 100
#: Longer bytes are shown by their length.
_MAX_SHOWN_BYTES = 4096
#: Larger numbers lose digits in programs that read JSON.
_MAX_EXACT_INTEGER = 2**63

_FIXED_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
#: Format of the length, by the first byte.
_BYTES_LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
_TEXT_LENGTHS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_ARRAY_LENGTHS = {0xDC: ">H", 0xDD: ">I"}
_MAP_LENGTHS = {0xDE: ">H", 0xDF: ">I"}
_EXTENSION_LENGTHS = {0xC7: ">B", 0xC8: ">H", 0xC9: ">I"}
_FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def convert_msgpack_to_json_value(content: bytes) -> Any:
    """Return a JSON value that shows what msgpack bytes hold.

    Args:
        content: Bytes of one value, from any source: they are only read.

    Returns:
        A JSON value. Objects of a program are `{"type": "module.name", "value": …}`, bytes are
        `{"bytes": base64}`; what cannot be read is a text in round brackets.
    """
    try:
        reader = _Reader(content, 0)
        value = reader.read_value()
        reader.require_end()
    except (ValueError, struct.error, RecursionError) as error:
        return f"(not readable as msgpack: {error})"
    return value


class _Reader:
    def __init__(self, content: bytes, depth: int) -> None:
        self._content = memoryview(content)
        self._place = 0
        self._depth = depth

    def require_end(self) -> None:
        if self._place != len(self._content):
            raise ValueError("there is more than one value")

    def read_value(self) -> Any:
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
        self._depth += 1
        try:
            return self._read_value_with_first_byte(self._take_bytes(1)[0])
        finally:
            self._depth -= 1

    def _read_value_with_first_byte(self, first_byte: int) -> Any:
        if first_byte <= 0x7F:
            return first_byte
        if first_byte >= 0xE0:
            return first_byte - 0x100
        if first_byte in _CONSTANTS:
            return _CONSTANTS[first_byte]
        if first_byte in _FIXED_NUMBERS:
            return _to_json_number_or_text(self._unpack_number(_FIXED_NUMBERS[first_byte]))
        if first_byte in _FIXED_EXTENSIONS or first_byte in _EXTENSION_LENGTHS:
            return self._read_extension(first_byte)
        return self._read_length_prefixed_value(first_byte)

    def _read_length_prefixed_value(self, first_byte: int) -> Any:
        if first_byte in _BYTES_LENGTHS:
            return _convert_bytes_to_base64_dict_or_size_text(
                self._take_bytes(self._unpack_number(_BYTES_LENGTHS[first_byte]))
            )
        if 0xA0 <= first_byte <= 0xBF or first_byte in _TEXT_LENGTHS:
            length = first_byte & 0x1F if first_byte <= 0xBF else self._unpack_number(_TEXT_LENGTHS[first_byte])
            return bytes(self._take_bytes(length)).decode("utf-8", "replace")
        if 0x90 <= first_byte <= 0x9F or first_byte in _ARRAY_LENGTHS:
            return self._read_array(
                first_byte & 0x0F if first_byte <= 0x9F else self._unpack_number(_ARRAY_LENGTHS[first_byte])
            )
        if 0x80 <= first_byte <= 0x8F or first_byte in _MAP_LENGTHS:
            return self._read_map(
                first_byte & 0x0F if first_byte <= 0x8F else self._unpack_number(_MAP_LENGTHS[first_byte])
            )
        raise ValueError(f"byte {first_byte:#04x} begins no value")

    def _read_array(self, length: int) -> list[Any]:
        self._require_bytes_left(length)
        return [self.read_value() for _ in range(length)]

    def _read_map(self, length: int) -> dict[str, Any]:
        self._require_bytes_left(2 * length)
        value: dict[str, Any] = {}
        for _ in range(length):
            key = self.read_value()
            value[key if isinstance(key, str) else repr(key)] = self.read_value()
        return value

    def _read_extension(self, first_byte: int) -> Any:
        length = _FIXED_EXTENSIONS.get(first_byte)
        length = self._unpack_number(_EXTENSION_LENGTHS[first_byte]) if length is None else length
        (code,) = struct.unpack(">b", self._take_bytes(1))
        content = bytes(self._take_bytes(length))
        if code in _NAMED_EXTENSIONS or code in (_ARRAY_EXTENSION, _SNAPSHOT_EXTENSION):
            inner = _Reader(content, self._depth)
            value = inner.read_value()
            inner.require_end()
            return _convert_extension_to_json_value(code, value)
        return {"type": f"msgpack extension {code}", "value": _convert_bytes_to_base64_dict_or_size_text(content)}

    def _unpack_number(self, form: str) -> Any:
        return struct.unpack(form, self._take_bytes(struct.calcsize(form)))[0]

    def _take_bytes(self, length: int) -> memoryview:
        self._require_bytes_left(length)
        part = self._content[self._place : self._place + length]
        self._place += length
        return part

    def _require_bytes_left(self, length: int) -> None:
        """Raise `ValueError` if fewer bytes are left, so that a length that lies reserves no memory."""
        if length > len(self._content) - self._place:
            raise ValueError("it ends in the middle of a value")


def _convert_extension_to_json_value(code: int, value: Any) -> Any:
    if code == _SNAPSHOT_EXTENSION:
        return {"type": "snapshot", "value": value}
    if not isinstance(value, list) or len(value) < 3:
        return {"type": f"msgpack extension {code}", "value": value}
    if code == _ARRAY_EXTENSION:
        return {"type": "numpy.ndarray", "dtype": value[0], "shape": value[1]}
    return {"type": f"{value[0]}.{value[1]}", "value": value[2]}


def _convert_bytes_to_base64_dict_or_size_text(content: memoryview | bytes) -> Any:
    if len(content) > _MAX_SHOWN_BYTES:
        return f"({len(content):,} bytes)"
    return {"bytes": base64.b64encode(content).decode()}


def _to_json_number_or_text(number: int | float) -> Any:
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    return str(number) if abs(number) >= _MAX_EXACT_INTEGER else number
