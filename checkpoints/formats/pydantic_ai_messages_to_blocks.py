"""Messages of Pydantic AI, as its own JSON has them, in the blocks that this library reads.

A request or a response is one object with `parts`, each of which has a `part_kind`. Nothing of the framework is
imported: a part of an unknown kind stays as it is, and is shown as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_ROLE_OF_KIND: Final = {"request": "user", "response": "assistant"}
#: Fields that identify a message, or that its version and its blocks show.
_UNSHOWN_FIELDS: Final = frozenset(
    {"parts", "kind", "timestamp", "run_id", "conversation_id", "canonical_system", "history_digest", "usage", "model"}
    | {"provider_name", "provider_url", "provider_details", "provider_response_id", "model_id", "model_name"}
)
_PLAIN_FIELDS: Final = (("state", "complete"), ("finish_reason", "stop"), ("finish_reason", "tool_call"))
_UNSUCCESSFUL: Final = frozenset({"failed", "denied", "interrupted", "retried"})
_MEDIA_KINDS: Final = {"image-url": "image", "audio-url": "audio"}
#: Bytes are stored in the alphabet for URLs, which no `data:` URL has.
_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")


def is_pydantic_ai_message(message: Any) -> bool:
    """Return whether a message has the JSON form of Pydantic AI."""
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        return False
    parts = message.get("parts")
    if not isinstance(parts, list) or {"content", "blocks"} & message.keys():
        return False
    return all(isinstance(part, dict) and isinstance(part.get("part_kind"), str) for part in parts)


def find_message_role(message: dict[str, Any]) -> str:
    """Return the role of a message. A request without a prompt is a tool's if it has results, else the system's."""
    role = _ROLE_OF_KIND.get(str(message.get("kind")), "")
    if role != "user":
        return role
    kinds = {_find_part_role(part) for part in message["parts"]}
    return next((known for known in ("user", "tool", "system") if known in kinds), "user")


def _find_part_role(part: dict[str, Any]) -> str:
    kind = part.get("part_kind")
    if kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        return "tool"
    return "user" if kind in {"user-prompt", "speech", "retry-prompt", "retry-feedback"} else "system"


def convert_message_to_one_with_blocks(message: Any) -> Any:
    """Convert a message of Pydantic AI to one with blocks; any other value is returned as it is."""
    if not is_pydantic_ai_message(message):
        return message
    shown = {
        key: value for key, value in message.items() if key not in _UNSHOWN_FIELDS and (key, value) not in _PLAIN_FIELDS
    }
    is_alone = find_message_role(message) == "system"
    blocks = [block for part in message["parts"] for block in _convert_part(part, is_alone)]
    return {**shown, "role": message.get("role") or find_message_role(message), "blocks": blocks}


def _convert_part(part: dict[str, Any], is_alone: bool) -> list[Any]:
    kind = part["part_kind"]
    if kind == "system-prompt" and not is_alone:  # beside a prompt, whose text it must not look like
        return [{"system_prompt": part.get("content")}]
    convert = _PART_CONVERTERS.get(kind)
    blocks = convert(part) if convert is not None else None
    return [part] if blocks is None else blocks


def _convert_text(part: dict[str, Any]) -> list[Any] | None:
    content = part.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return None


def _convert_prompt(part: dict[str, Any]) -> list[Any] | None:
    content = part.get("content")
    if isinstance(content, list):
        return [_convert_content_item(item) for item in content]
    return _convert_text(part)


def _convert_content_item(item: Any) -> Any:
    """Convert one item of a prompt or of a result: a text, or an object of a `kind`."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    kind = item.get("kind") if isinstance(item, dict) else None
    if kind == "text-content":
        return {"type": "text", "text": item.get("content")}
    if kind in _MEDIA_KINDS:
        return {"type": _MEDIA_KINDS[kind], "url": item.get("url")}
    if kind == "binary":
        return _convert_binary(item)
    return {"value": item} if isinstance(item, dict) else item


def _convert_binary(item: dict[str, Any]) -> Any:
    data, media_type = item.get("data"), str(item.get("media_type") or "")
    kind = media_type.partition("/")[0]
    if kind not in {"image", "audio"} or not isinstance(data, str):
        return {"value": item}
    return {"type": kind, "source": {"media_type": media_type, "data": data.translate(_STANDARD_ALPHABET)}}


def _convert_thinking(part: dict[str, Any]) -> list[Any] | None:
    content = part.get("content")
    if not isinstance(content, str):
        return None
    return [{"type": "thinking", "thinking": content}] if content else []


def _convert_call(part: dict[str, Any]) -> list[Any]:
    kind = "server_tool_use" if part["part_kind"] == "builtin-tool-call" else "tool_use"
    args = part.get("args")
    name, call_id = part.get("tool_name"), part.get("tool_call_id")
    return [{"type": kind, "id": call_id, "name": name, "input": {} if args in (None, "") else args}]


def _convert_result(part: dict[str, Any]) -> list[Any]:
    kind = "server_tool_result" if part["part_kind"] == "builtin-tool-return" else "tool_result"
    is_error = part.get("outcome") in _UNSUCCESSFUL
    content = _convert_result_content(part.get("content"))
    return [{"type": kind, "tool_use_id": part.get("tool_call_id"), "content": content, "is_error": is_error}]


def _convert_result_content(content: Any) -> Any:
    if isinstance(content, str):
        return content
    items = content if isinstance(content, list) else [content]
    converted = [_convert_content_item(item) for item in items]
    # A list of plain values is one value; only texts and files stand for themselves.
    is_mixed = any(isinstance(item, dict) and "type" in item for item in converted)
    return converted if is_mixed else [{"value": content}] if content is not None else ""


def _convert_retry(part: dict[str, Any]) -> list[Any]:
    content = part.get("content")
    if part.get("tool_name"):
        shown = content if isinstance(content, str) else [{"value": content}]
        return [{"type": "tool_result", "tool_use_id": part.get("tool_call_id"), "content": shown, "is_error": True}]
    return [{"type": "text", "text": content} if isinstance(content, str) else {"value": content}]


def _convert_file(part: dict[str, Any]) -> list[Any] | None:
    content = part.get("content")
    return [_convert_binary(content)] if isinstance(content, dict) else None


def _convert_speech(part: dict[str, Any]) -> list[Any] | None:
    transcript, audio = part.get("transcript"), part.get("audio")
    if isinstance(audio, dict) and isinstance(transcript, str):
        return [{**_convert_binary(audio), "transcript": transcript}]
    if isinstance(audio, dict):
        return [_convert_binary(audio)]
    return [{"type": "text", "text": transcript}] if isinstance(transcript, str) else None


_PART_CONVERTERS: Final[dict[str, Callable[[dict[str, Any]], list[Any] | None]]] = {
    "system-prompt": _convert_text,
    "user-prompt": _convert_prompt,
    "text": _convert_text,
    "compaction": _convert_text,
    "thinking": _convert_thinking,
    "tool-call": _convert_call,
    "builtin-tool-call": _convert_call,
    "tool-return": _convert_result,
    "builtin-tool-return": _convert_result,
    "retry-prompt": _convert_retry,
    "retry-feedback": _convert_retry,
    "file": _convert_file,
    "speech": _convert_speech,
}
