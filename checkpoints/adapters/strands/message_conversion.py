"""Messages of Strands as messages of a transcript: the content as it is, and the rest of the record as its source."""

from __future__ import annotations

from typing import Any, Final

from strands.types.session import SessionMessage

from checkpoints.formats import parse_message_parts

#: Name in the source of a message.
_KEY: Final = "strands"


def encode_message(session_message: SessionMessage) -> dict[str, Any]:
    """Encode the record of a message. Its number is its place in the transcript, and is not stored.

    Args:
        session_message: Record of Strands.

    Returns:
        A message whose content is what the model gets: the redacted one if there is one.
    """
    record = session_message.to_dict()
    del record["message_id"]
    is_redacted = record["redact_message"] is not None
    name = "redact_message" if is_redacted else "message"
    shown = dict(record[name])
    content = shown.pop("content", [])
    usage = _pop_usage_or_none(shown)
    record[name] = shown
    if not is_redacted:
        del record["redact_message"]
    message = {"role": _find_role(shown.get("role"), content), "content": content, "source": {_KEY: record}}
    return message if usage is None else {**message, "usage": usage}


def decode_message(message: dict[str, Any], message_id: int) -> SessionMessage:
    """Decode a message of a transcript.

    Args:
        message: Message, as `encode_message` returns it, or one that somebody else has appended.
        message_id: Place of the message in the transcript, from 0.

    Returns:
        The record of Strands. Of a message of somebody else it has the text.
    """
    source = message.get("source")
    stored = source.get(_KEY) if isinstance(source, dict) else None
    if not isinstance(stored, dict):
        text = parse_message_parts.parts_to_text(parse_message_parts.list_message_parts(message))
        role: Any = "assistant" if message.get("role") == "assistant" else "user"
        return SessionMessage({"role": role, "content": [{"text": text}]}, message_id)
    name = "redact_message" if "redact_message" in stored else "message"
    shown = {**stored[name], "content": message["content"]}
    metadata = shown.get("metadata") or {}
    if "usage" in message and isinstance(metadata, dict):
        shown["metadata"] = {"usage": message["usage"], **metadata}
    return SessionMessage.from_dict({**stored, name: shown, "message_id": message_id})


def _pop_usage_or_none(shown: dict[str, Any]) -> Any:
    """Take the numbers of tokens out of the metadata of a message, which has them as a field of its own."""
    metadata = shown.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("usage") is None:
        return None
    shown["metadata"] = {name: value for name, value in metadata.items() if name != "usage"}
    return metadata["usage"]


def _find_role(role: Any, content: Any) -> str:
    """Return the role for the pages: a user's message that has only results of tools is a tool's."""
    is_result = isinstance(content, list) and bool(content) and all("toolResult" in block for block in content)
    return "tool" if is_result else str(role)
