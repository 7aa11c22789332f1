"""JSON texts of the lines of a transcript in its log: a line says only what the one before it does not say.

Most fields of a line repeat the line before it: the session, the folder, the version of the program; and it names that
line by its uuid. The text of such a line is an array with one object, which has all fields of the line in their order,
and a mark for each text that the line before has. The text of a line without marks is the line itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

Line = dict[str, Any]

#: Beginning of all marks. A line with a text that begins like this is stored as it is.
_MARK: Final = "="
_SAME_AS_BEFORE: Final = "="
_UUID_OF_BEFORE: Final = "=uuid"


def encode_json(line: Any) -> bytes:
    """Encode a line in UTF-8, with all other characters than ASCII escaped if some have no UTF-8."""
    try:
        return json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(line, allow_nan=False, separators=(",", ":")).encode()


def encode_lines(lines: Iterable[Line], before: Mapping[str, Any]) -> list[bytes]:
    """Encode lines of a log.

    Args:
        lines: The lines, in order.
        before: Line before the first one; empty if there is none.

    Returns:
        The text of each line.
    """
    contents = []
    for line in lines:
        contents.append(_encode_line(line, before))
        before = line
    return contents


def _encode_line(line: Line, before: Mapping[str, Any]) -> bytes:
    marked = {name: _mark_repeated_text(name, value, before) for name, value in line.items()}
    is_marked = any(marked[name] is not value for name, value in line.items())
    if not is_marked or any(isinstance(value, str) and value.startswith(_MARK) for value in line.values()):
        return encode_json(line)
    return b"[" + encode_json(marked) + b"]"


def _mark_repeated_text(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    if value == before.get(name):
        return _SAME_AS_BEFORE
    return _UUID_OF_BEFORE if value == before.get("uuid") else value


def decode_lines(contents: Iterable[bytes]) -> list[Line]:
    """Decode all lines of a log, in order. Raises `ValueError` for what `encode_lines` has not written."""
    lines: list[Line] = []
    before: Mapping[str, Any] = {}
    for content in contents:
        before = _decode_line(json.loads(content), before)
        lines.append(before)
    return lines


def _decode_line(stored: Any, before: Mapping[str, Any]) -> Line:
    if isinstance(stored, dict):
        return stored
    try:
        (marked,) = stored
        return {name: _replace_mark_by_text(name, value, before) for name, value in marked.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError("it is no line, or the line before it is another one") from error


def _replace_mark_by_text(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    if value == _SAME_AS_BEFORE:
        return before[name]
    return before["uuid"] if value == _UUID_OF_BEFORE else value
