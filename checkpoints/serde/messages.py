"""Which tool calls a message makes and which it answers, in the message shapes that are common.

Blocks of a `kind` (`tool_call`, `tool_result`), content parts of a `type` (`tool_use`, `tool_result`), the `tool_calls`
and `tool_call_id` fields of chat completions, and items of a `type` (`function_call`, `function_call_output`).
"""

from __future__ import annotations

from collections.abc import Sequence
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
    parts = [part for part in _parts(message) if _is_call(part)]
    parts += [message] if _is_item(message, "function_call") else []
    parts += _listed(message, "tool_calls")
    return [asked for part in parts if (asked := _asked(part)) is not None]


def answered(message: Any) -> list[str]:
    """Ids of the tool calls whose results `message` carries."""
    found = [part.get("call_id") or part.get("tool_use_id") for part in _parts(message) if _kind(part) == "tool_result"]
    if isinstance(message, dict):
        found.append(message.get("tool_call_id"))
    if _is_item(message, "function_call_output"):
        found.append(message.get("call_id"))
    return [call_id for call_id in found if isinstance(call_id, str)]


def takes_up(message: Any, answer: Any) -> bool:
    """Whether `message` is this answer of a model, in whatever shape, or has the result of a call that it makes."""
    calls = {asked.call_id for asked in called(answer)}
    named = {*answered(message), *(asked.call_id for asked in called(message))}
    return bool(message == answer or calls & named)


def unanswered(transcript: Sequence[Any]) -> list[Asked]:
    """The calls that the last calling message of a transcript makes and that nothing after it answers."""
    later: set[str] = set()
    for message in reversed(transcript):
        if calls := called(message):
            return [asked for asked in calls if asked.call_id not in later]
        later.update(answered(message))
    return []


def _asked(part: dict[str, Any]) -> Asked | None:
    function = part.get("function")
    named = function if isinstance(function, dict) else part
    call_id, name = part.get("call_id") if _kind(part) == "function_call" else None, named.get("name")
    call_id = call_id or part.get("id") or part.get("call_id")
    if not isinstance(call_id, str) or not isinstance(name, str):
        return None
    return Asked(call_id, name, _args(named))


def _is_call(part: dict[str, Any]) -> bool:
    return isinstance(part.get("function"), dict) or _kind(part) in {"tool_call", "tool_use"}


def _is_item(message: Any, kind: str) -> bool:
    return isinstance(message, dict) and message.get("type") == kind


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


def _parts(message: Any) -> list[dict[str, Any]]:
    return [*_listed(message, "blocks"), *_listed(message, "content")]


def _listed(message: Any, field: str) -> list[dict[str, Any]]:
    parts = message.get(field) if isinstance(message, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
