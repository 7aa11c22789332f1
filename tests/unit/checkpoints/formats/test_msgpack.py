"""The readable form of msgpack shows serialized objects without importing or calling them."""

import struct
import sys
from typing import Any

import pytest

from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.formats.msgpack_to_json import convert_msgpack_to_json_value


def _text(value: str) -> bytes:
    return bytes([0xD9, len(value)]) + value.encode()


def _array(*items: bytes) -> bytes:
    return bytes([0x90 | len(items)]) + b"".join(items)


def _extension(code: int, content: bytes) -> bytes:
    return bytes([0xC7, len(content)]) + struct.pack(">b", code) + content


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"\xc0", None),
        (b"\xc3", True),
        (b"\x07", 7),
        (b"\xff", -1),
        (b"\xd1\xff\x00", -256),
        (b"\xcb" + struct.pack(">d", 0.25), 0.25),
        (b"\xcb" + struct.pack(">d", float("nan")), "nan"),
        (b"\xcf" + b"\xff" * 8, str(2**64 - 1)),
        (b"\xa2hi", "hi"),
        (b"\xc4\x02\x00\xff", {"bytes": "AP8="}),
        (b"\x82\xa1a\x01\x02\x03", {"a": 1, "2": 3}),
        (_array(b"\x01", _array()), [1, []]),
        (_extension(5, _array(_text("my.models"), _text("Plan"), b"\x80")), {"type": "my.models.Plan", "value": {}}),
        (_extension(7, b"\x05"), {"type": "snapshot", "value": 5}),
        (_extension(42, b"\x05"), {"type": "msgpack extension 42", "value": {"bytes": "BQ=="}}),
    ],
)
def test_values_have_a_json_form(content: bytes, value: Any) -> None:
    assert convert_msgpack_to_json_value(content) == value
    to_canonical_json(convert_msgpack_to_json_value(content))


def test_serialized_function_is_shown_and_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    system = _extension(0, _array(_text("os"), _text("system"), _text("exit 1")))
    module = _extension(2, _array(_text("antigravity"), _text("fly"), b"\x80"))
    assert convert_msgpack_to_json_value(_array(system, module)) == [
        {"type": "os.system", "value": "exit 1"},
        {"type": "antigravity.fly", "value": {}},
    ]
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "content",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x01\x02", b"\x91" * 5000, b"\xd9\x05ab"],
)
def test_damaged_bytes_are_shown_as_a_sentence(content: bytes) -> None:
    assert str(convert_msgpack_to_json_value(content)).startswith("(not readable as msgpack:")
