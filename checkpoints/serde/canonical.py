"""The one JSON form in which everything is stored, compared and digested.

Canonical: keys sorted, no spaces, UTF-8, every value finite. What has no exact JSON form is refused with the
path to it, before anything is written. Tuples become arrays; nothing else is converted. The text is safe for
every database: JSON escapes control characters, and lone surrogates are escaped here.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from checkpoints.conf import MAX_VALUE_BYTES
from checkpoints.exceptions import ConcurrentModification, NotRepresentable, TooLarge

_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LEAVES = frozenset({str, int, bool, type(None)})
#: Deeper nesting would exhaust the interpreter's stack in the JSON encoder.
MAX_DEPTH = 200

_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
).encode


def canonical(value: Any, what: str = "value") -> str:
    """`value` as canonical JSON text. `what` names it in errors: `NotRepresentable`, `TooLarge`,
    `ConcurrentModification`."""
    try:
        if not _plain(value, 0):
            _check(value, what, 0)
        return _text(value, what)
    except RuntimeError as error:
        raise changed_meanwhile(error, what) from error


def changed_meanwhile(error: RuntimeError, what: str) -> Exception:
    """What to raise for an error in reading `what`: Python notices where a dict changes while it is read."""
    return ConcurrentModification(what) if "during iteration" in str(error) else error


def _text(value: Any, what: str) -> str:
    try:
        text = _encode(value)
    except ValueError as error:  # an integer of thousands of digits
        raise NotRepresentable(what, str(error)) from None
    if not text.isascii():
        text = _without_surrogates(text, what)
    if len(text) * 4 > MAX_VALUE_BYTES and (size := len(text.encode())) > MAX_VALUE_BYTES:
        raise TooLarge(what, size, MAX_VALUE_BYTES)
    return text


def _without_surrogates(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        if _SURROGATE_PAIR.search(text):
            raise NotRepresentable(what, "two surrogates in a row stand for one character in JSON") from None
        return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
    return text


def _plain(value: Any, depth: int) -> bool:
    """Whether a value is of JSON's own types throughout: the common case, seen without naming any place in it."""
    kind = type(value)
    if kind is not dict and kind is not list:
        return kind in _LEAVES
    if depth >= MAX_DEPTH:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or (type(item) not in _LEAVES and not _plain(item, depth + 1)):
                return False
        return True
    for item in value:  # noqa: SIM110 - a generator would cost more than the work
        if type(item) not in _LEAVES and not _plain(item, depth + 1):
            return False
    return True


def _check(value: Any, path: str, depth: int) -> None:
    """Refuse what has no JSON form, naming the place."""
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
            _check(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    else:
        raise NotRepresentable(path, f"a {type(value).__name__} has no JSON form")


def parse(text: str) -> Any:
    """Return the value of JSON text. Every value it returns has a canonical form as far as its depth and its numbers
    go: raises `ValueError` for damaged text, for values nested more than `MAX_DEPTH` levels deep, and for numbers that
    no JSON can hold."""
    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise ValueError(_TOO_DEEP)
    return value


def parse_or_text(stored: str) -> Any:
    """Return the value of stored JSON text for showing it; what `parse` refuses comes back as the text it is."""
    try:
        return parse(stored)
    except ValueError:
        return stored


def _deeper_than(value: Any, most: int) -> bool:
    """Whether lists and objects are nested more than `most` levels deep. Goes through them level by level: a walk by
    recursion would end at the interpreter's own limit."""
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if type(item) is dict or type(item) is list]
        if not level:
            return False
        level = [item for outer in level for item in (outer.values() if type(outer) is dict else outer)]
    return True


def parse_object(text: str | None) -> dict[str, Any] | None:
    """The object of stored canonical text; None where nothing is stored (NULL).

    Raises `ValueError` where the text is damaged, or is the JSON of anything else: `null` is not the same as nothing.
    """
    if text is None:
        return None
    value = parse(text)
    if not isinstance(value, dict):
        kind = {type(None): "null", list: "a list", str: "a text", bool: "a boolean"}.get(type(value), "a number")
        raise ValueError(f"it is {kind}, not an object")
    return value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"the number {number[:40]} is too large")
    return value


_TOO_DEEP = f"it is nested more than {MAX_DEPTH} levels deep"
_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode


def decoded_text(stored: str) -> str:
    """The text of a stored JSON string; any other JSON, and text that is none, as it stands."""
    value = parse_or_text(stored)
    return value if isinstance(value, str) else stored
