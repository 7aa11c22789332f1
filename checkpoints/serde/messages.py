"""Which tool calls a message makes and which it answers, in the message shapes that are common.

Blocks of a `kind` (`tool_call`, `tool_result`), content parts of a `type` (`tool_use`, `tool_result`), and the
`tool_calls` / `tool_call_id` fields of chat completions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.serde.canonical import parse


@dataclass(frozen=True)
class Asked:
    """A tool call as a model asks for it. `args` is None where they cannot be read."""

    call_id: str
    tool: str
    args: dict[str, Any] | None


def called(message: Any) -> list[Asked]:
    """The tool calls that `message` makes, in order."""
    return [asked for part in _parts(message, "tool_calls") if (asked := _asked(part)) is not None]


def answered(message: Any) -> list[str]:
    """Ids of the tool calls whose results `message` carries."""
    found = [part.get("call_id") or part.get("tool_use_id") for part in _parts(message) if _kind(part) == "tool_result"]
    if isinstance(message, dict):
        found.append(message.get("tool_call_id"))
    return [call_id for call_id in found if isinstance(call_id, str)]


def unanswered(transcript: Sequence[Any]) -> list[Asked]:
    """The calls that the last calling message of a transcript makes and that nothing after it answers."""
    later: set[str] = set()
    for message in reversed(transcript):
        if calls := called(message):
            return [asked for asked in calls if asked.call_id not in later]
        later.update(answered(message))
    return []


def _asked(part: dict[str, Any]) -> Asked | None:
    function = part.get("function") if isinstance(part.get("function"), dict) else None
    named = function or part
    call_id, name = part.get("id") or part.get("call_id"), named.get("name")
    is_call = function is not None or _kind(part) in {"tool_call", "tool_use"}
    if not is_call or not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return Asked(call_id, name, _args(named))


def _args(named: dict[str, Any]) -> dict[str, Any] | None:
    for field in ("args", "input", "arguments"):
        value = named.get(field)
        if isinstance(value, str):
            try:
                value = parse(value)
            except ValueError:
                return None
        if isinstance(value, dict):
            return value
    return None


def _kind(part: dict[str, Any]) -> Any:
    return part.get("kind") or part.get("type")


def _parts(message: Any, *more: str) -> Iterator[dict[str, Any]]:
    if not isinstance(message, dict):
        return
    for field in ("blocks", "content", *more):
        parts = message.get(field)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield part
