"""Which tool calls a message makes and which it answers, in the message shapes that are common.

Blocks of a `kind` (`tool_call`, `tool_result`), content parts of a `type` (`tool_use`, `tool_result`), and the
`tool_calls` / `tool_call_id` fields of chat completions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def called(message: Any) -> list[str]:
    """Ids of the tool calls that `message` makes, in order."""
    return [found for part in _parts(message, "tool_calls") if (found := _call_id(part))]


def answered(message: Any) -> list[str]:
    """Ids of the tool calls whose results `message` carries."""
    found = [part.get("call_id") or part.get("tool_use_id") for part in _parts(message) if _kind(part) == "tool_result"]
    if isinstance(message, dict):
        found.append(message.get("tool_call_id"))
    return [call_id for call_id in found if isinstance(call_id, str)]


def unanswered(transcript: Sequence[Any]) -> list[str]:
    """Ids of the calls that the last calling message of a transcript makes and that nothing after it answers."""
    later: set[str] = set()
    for message in reversed(transcript):
        if calls := called(message):
            return [call_id for call_id in calls if call_id not in later]
        later.update(answered(message))
    return []


def _call_id(part: dict[str, Any]) -> str | None:
    is_call = _kind(part) in {"tool_call", "tool_use", "function"}
    call_id = part.get("id") or part.get("call_id")
    return call_id if is_call and isinstance(call_id, str) else None


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
