"""Canonical JSON: the one form in which everything is stored, compared and digested.

Canonical means: keys sorted, no spaces, UTF-8, every value finite. A value without an exact JSON form is refused with
its path, before anything is written. Tuples become arrays; nothing else is converted. The text is safe for
every database: JSON escapes control characters, and lone surrogates are escaped here.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from checkpoints.constants import MAX_VALUE_BYTES
from checkpoints.exceptions import ConcurrentModification, NotRepresentable, TooLarge

_SURROGATE_PAIR_PATTERN = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
#: Types of values without members. The encoder refuses floats that are not finite.
_LEAF_TYPES = frozenset({str, int, bool, float, type(None)})
#: Deeper nesting would exhaust the interpreter's stack in the JSON encoder.
MAX_DEPTH = 200

_encode_json, _encode_json_unsorted = (
    json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"), check_circular=False
    ).encode
    for sort_keys in (True, False)
)


def to_canonical_json(value: Any, what: str = "value") -> str:
    """Encode `value` as canonical JSON text.

    `what` names it in errors: `NotRepresentable`, `TooLarge`, `ConcurrentModification`.
    """
    try:
        if not _is_plain_json(value, 0):
            _require_representable(value, what, 0)
        return _encode_or_raise_not_representable(value, what)
    except RuntimeError as error:
        raise build_concurrent_modification_or_same_error(error, what) from error


def encode_json_in_given_order(value: Any) -> str:
    """Encode a value that was read from canonical JSON; the members of its objects stay in their order."""
    return _escape_lone_surrogates(_encode_json_unsorted(value), "value")


def build_concurrent_modification_or_same_error(error: RuntimeError, what: str) -> Exception:
    """Build the error to raise for an error in reading `what`: Python notices if a dict changes while it is read."""
    return ConcurrentModification(what) if "during iteration" in str(error) else error


def _encode_or_raise_not_representable(value: Any, what: str) -> str:
    try:
        text = _encode_json(value)
    except ValueError as error:  # a float that is not finite, or an integer of thousands of digits
        _require_representable(value, what, 0)
        raise NotRepresentable(what, str(error)) from None
    if not text.isascii():
        text = _escape_lone_surrogates(text, what)
    if len(text) * 4 > MAX_VALUE_BYTES and (size := len(text.encode())) > MAX_VALUE_BYTES:
        raise TooLarge(what, size, MAX_VALUE_BYTES)
    return text


def _escape_lone_surrogates(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        if _SURROGATE_PAIR_PATTERN.search(text):
            raise NotRepresentable(what, "two surrogates in a row stand for one character in JSON") from None
        return _LONE_SURROGATE_PATTERN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return text


def _is_plain_json(value: Any, depth: int) -> bool:
    """Return whether a value consists of JSON's own types throughout: the common case, checked without building
    paths."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return kind in _LEAF_TYPES
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or (type(item) not in _LEAF_TYPES and not _is_plain_json(item, depth + 1)):
                return False
        return True
    for item in value:  # noqa: SIM110 - a generator would cost more than the work
        if type(item) not in _LEAF_TYPES and not _is_plain_json(item, depth + 1):
            return False
    return True


def _require_representable(value: Any, path: str, depth: int) -> None:
    """Refuse a value that has no JSON form, naming its path."""
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotRepresentable(path, f"{value} is not a JSON number")
    elif depth >= MAX_DEPTH:
        raise NotRepresentable(path, f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise NotRepresentable(f"{path}[{key!r}]", f"the key is a {type(key).__name__}, not text")
            _require_representable(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _require_representable(item, f"{path}[{index}]", depth + 1)
    else:
        raise NotRepresentable(path, f"a {type(value).__name__} has no JSON form")


def parse_json(text: str) -> Any:
    """Return the value of JSON text. Its depth and its numbers fit the canonical form.

    Raises `ValueError` for damaged text, for values nested more than `MAX_DEPTH` levels deep, and for numbers that
    no JSON can hold.
    """
    try:
        value = _decode_json(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP_MESSAGE) from None
    except ValueError as error:
        if "set_int_max_str_digits" in str(error):  # the interpreter's advice is for programmers
            raise ValueError(_TOO_MANY_DIGITS_MESSAGE) from None
        raise
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_nested_deeper_than(value, MAX_DEPTH):
        raise ValueError(_TOO_DEEP_MESSAGE)
    return value


def parse_json_or_return_text(stored: str) -> Any:
    """Return the value of stored JSON text for display; text that `parse_json` refuses is returned as it is."""
    try:
        return parse_json(stored)
    except ValueError:
        return stored


def _is_nested_deeper_than(value: Any, most: int) -> bool:
    """Return whether lists and objects are nested more than `most` levels deep.

    Iterates level by level: a recursion would end at the interpreter's own limit.
    """
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if type(item) is dict or type(item) is list]
        if not level:
            return False
        level = [item for outer in level for item in (outer.values() if type(outer) is dict else outer)]
    return True


def parse_json_object(text: str | None) -> dict[str, Any] | None:
    """Return the object of stored canonical text; None if nothing is stored (NULL).

    Raises `ValueError` if the text is damaged or is no object: JSON `null` is not the same as NULL.
    """
    if text is None:
        return None
    value = parse_json(text)
    if not isinstance(value, dict):
        kind = {type(None): "null", list: "a list", str: "a text", bool: "a boolean"}.get(type(value), "a number")
        raise ValueError(f"it is {kind}, not an object")
    return value


def _raise_for_nan_or_infinity(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite_float(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {number[:40]} is too large")
    return value


_TOO_MANY_DIGITS_MESSAGE = "a number has too many digits"
_TOO_DEEP_MESSAGE = f"it is nested more than {MAX_DEPTH} levels deep"
_decode_json = json.JSONDecoder(parse_constant=_raise_for_nan_or_infinity, parse_float=_parse_finite_float).decode


def decode_json_string_or_return_text(stored: str) -> str:
    """Return the text of a stored JSON string; any other JSON, and text that is no JSON, as it is."""
    value = parse_json_or_return_text(stored)
    return value if isinstance(value, str) else stored
