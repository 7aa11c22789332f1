"""Events of Google ADK as messages of a transcript: the parts in the form that pages read, the rest as the source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from google.adk.events.event import Event
from google.genai.types import GenerateContentResponseUsageMetadata
from pydantic import ValidationError

from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.formats import parse_message_parts

#: Name in the source of a message, and of the fields of a part that its readable form does not have.
_KEY: Final = "adk"
#: Number of parts in the record of an event that has a list of them.
_PARTS: Final = "parts"
#: Field of a part whose readable form is a text alone: the part as it was.
_WHOLE: Final = "part"
#: Name of the call by which ADK asks its user to confirm the call of a tool.
CONFIRMATION_CALL: Final = "adk_request_confirmation"
#: Field of an event with the numbers of tokens, which is a field of the message.
_USAGE: Final = "usageMetadata"
_MEDIA_TYPES: Final = {"image": "image", "audio": "audio"}


def encode_event(event: Event) -> dict[str, Any]:
    """Encode an event as a message.

    Args:
        event: Event that is not partial.

    Returns:
        A message with the readable parts of the event as its content. An event without content has a text that says
        what it changes.

    Raises:
        NotRepresentable: A field of the event has no JSON form.
    """
    try:
        record = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValueError as error:
        raise NotRepresentable("event", str(error)) from error
    content = record.pop("content", None) or {}
    parts = content.pop("parts", None)
    usage = record.pop(_USAGE, None)
    if content:
        record["content"] = content
    ids_awaiting_confirmation = event.actions.requested_tool_confirmations
    readable = [_encode_part(part, ids_awaiting_confirmation) for part in parts or ()]
    message: dict[str, Any] = {
        "role": _find_role(event, readable),
        "content": readable or _describe_event_without_content(event),
        "source": {_KEY: record if parts is None else {**record, _PARTS: len(parts)}},
        "created_at": datetime.fromtimestamp(event.timestamp, UTC).isoformat(),
    }
    if usage is not None:
        message["usage"] = usage
    if event.model_version:
        message["model"] = event.model_version  # by which pages name the models of a session
    return message


def decode_messages(messages: Sequence[dict[str, Any]]) -> list[Event]:
    """Decode the messages of a transcript.

    Args:
        messages: Messages as `encode_event` returns them, and messages that somebody else has appended.

    Returns:
        An event for each message. One of somebody else has the text, and the time of the event before it.

    Raises:
        InvalidInput: This version of ADK does not know an event.
    """
    events: list[Event] = []
    for number, message in enumerate(messages):
        record = _get_stored_event_fields_or_none(message)
        if record is None:
            events.append(_build_event_of_foreign_message(message, number, events[-1].timestamp if events else 0.0))
            continue
        content = dict(record.get("content") or {})
        if _PARTS in record:
            content["parts"] = [_decode_part(part) for part in message["content"]] if record[_PARTS] else []
        values = {name: value for name, value in record.items() if name not in {_PARTS, "content"}}
        if content:
            values["content"] = content
        if (usage := _parse_usage_or_none(message.get("usage"))) is not None:
            values[_USAGE] = usage
        try:
            events.append(Event.model_validate(values))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InvalidInput(
                f"This version of Google ADK does not know the stored event {number + 1}: {where}: {first['msg']}"
            ) from error
    return events


def _parse_usage_or_none(usage: Any) -> GenerateContentResponseUsageMetadata | None:
    """Return the numbers of tokens of an event; None for those that somebody else has added to its message."""
    try:
        return GenerateContentResponseUsageMetadata.model_validate(usage)
    except ValidationError:
        return None


def _get_stored_event_fields_or_none(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is stored of an event beside its parts; None for a message of somebody else."""
    source = message.get("source")
    record = source.get(_KEY) if isinstance(source, dict) else None
    return record if isinstance(record, dict) else None


def _build_event_of_foreign_message(message: dict[str, Any], number: int, timestamp: float) -> Event:
    text = parse_message_parts.parts_to_text(parse_message_parts.list_message_parts(message))
    is_answer = message.get("role") == "assistant"
    return Event.model_validate(
        {
            "id": f"message-{number}",
            "author": "assistant" if is_answer else "user",
            "timestamp": timestamp,
            "content": {"role": "model" if is_answer else "user", "parts": [{"text": text}]},
        }
    )


def _find_role(event: Event, parts: Sequence[dict[str, Any]]) -> str:
    if any(part["type"] == "tool_result" for part in parts):
        return "tool"
    if event.author == "user":
        return "user"
    return "assistant" if parts else "system"


def _describe_event_without_content(event: Event) -> str:
    """Return the text of an event without content."""
    actions = event.actions
    if event.error_message or event.error_code:
        return f"{event.author}: {event.error_message or event.error_code}"
    if actions.state_delta:
        return f"{event.author} changed the state: {', '.join(sorted(actions.state_delta))}"
    if actions.rewind_before_invocation_id:
        return "The session was rewound."
    if actions.transfer_to_agent:
        return f"{event.author} transferred the conversation to {actions.transfer_to_agent}"
    if actions.end_of_agent:
        return f"{event.author} ended"
    if actions.agent_state is not None:
        return f"{event.author} stored its progress"
    return f"{event.author} sent an event without content"


def _encode_part(part: dict[str, Any], ids_awaiting_confirmation: Any) -> dict[str, Any]:
    """Encode a part. `ids_awaiting_confirmation` are those of the calls that a tool asks to confirm with this event."""
    if "functionCall" in part:
        return _encode_function_call(part)
    if "functionResponse" in part:
        return _encode_function_response(part, ids_awaiting_confirmation)
    if isinstance(part.get("text"), str):
        text, rest = part["text"], {name: value for name, value in part.items() if name not in {"text", "thought"}}
        if part.get("thought"):
            return _attach_unmapped_adk_fields({"type": "thinking", "thinking": text}, rest)
        return _attach_unmapped_adk_fields({"type": "text", "text": text}, rest)
    return _encode_media(part) or {"type": next(iter(part), "empty"), _KEY: {_WHOLE: part}}


def _encode_function_call(part: dict[str, Any]) -> dict[str, Any]:
    call = part["functionCall"]
    if call.get("name") == CONFIRMATION_CALL:
        return _build_text_part_with_original("The run stops until the call above is confirmed.", part)
    if not isinstance(call.get("id"), str) or not isinstance(call.get("name"), str) or "args" not in call:
        return _build_text_part_with_original(f"Call of {call.get('name')}", part)
    rest = {name: value for name, value in part.items() if name != "functionCall"}
    if more := {name: value for name, value in call.items() if name not in {"id", "name", "args"}}:
        rest["functionCall"] = more
    return _attach_unmapped_adk_fields(
        {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}, rest
    )


def _encode_function_response(part: dict[str, Any], ids_awaiting_confirmation: Any) -> dict[str, Any]:
    given = part["functionResponse"]
    response = given.get("response")
    if given.get("name") == CONFIRMATION_CALL:
        return _build_text_part_with_original(
            "The call was confirmed." if _is_confirmed(response) else "Answer to the request.", part
        )
    if given.get("id") in ids_awaiting_confirmation:
        return _build_text_part_with_original("The call waits for a decision.", part)
    if not isinstance(given.get("id"), str) or not isinstance(response, dict):
        return _build_text_part_with_original(f"Result of {given.get('name')}", part)
    rest = {name: value for name, value in part.items() if name != "functionResponse"}
    if more := {name: value for name, value in given.items() if name not in {"id", "name", "response"}}:
        rest["functionResponse"] = more
    is_text = list(response) == ["result"] and isinstance(response["result"], str)
    text = response["result"] if is_text else json.dumps(response, ensure_ascii=False)
    result = {"type": "tool_result", "tool_use_id": given["id"], "name": given.get("name"), "content": text}
    if response.get("error"):
        result["is_error"] = True
    return _attach_unmapped_adk_fields(result, rest if is_text else {**rest, "isJson": True})


def _is_confirmed(response: Any) -> bool:
    return isinstance(response, dict) and response.get("confirmed") is True


def _encode_media(part: dict[str, Any]) -> dict[str, Any] | None:
    """Encode an image or a recording, or return None. ADK writes bytes in the alphabet for URLs."""
    blob = part.get("inlineData")
    if not isinstance(blob, dict) or not isinstance(blob.get("data"), str):
        return None
    media_type = str(blob.get("mimeType", ""))
    kind = _MEDIA_TYPES.get(media_type.partition("/")[0])
    if kind is None:
        return None
    rest = {name: value for name, value in part.items() if name != "inlineData"}
    if more := {name: value for name, value in blob.items() if name not in {"data", "mimeType"}}:
        rest["inlineData"] = more
    data = blob["data"].replace("-", "+").replace("_", "/")
    return _attach_unmapped_adk_fields(
        {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}, rest
    )


def _build_text_part_with_original(text: str, part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "text", "text": text, _KEY: {_WHOLE: part}}


def _attach_unmapped_adk_fields(part: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    return {**part, _KEY: rest} if rest else part


def _decode_part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part of ADK from its readable form."""
    rest = dict(part.get(_KEY) or {})
    if _WHOLE in rest:
        return dict(rest[_WHOLE])
    match part["type"]:
        case "text":
            return {"text": part["text"], **rest}
        case "thinking":
            return {"text": part["thinking"], "thought": True, **rest}
        case "tool_use":
            call = {"id": part["id"], "name": part["name"], "args": part["input"], **rest.pop("functionCall", {})}
            return {"functionCall": call, **rest}
        case "tool_result":
            text, is_json = part["content"], rest.pop("isJson", False)
            response = {
                "id": part["tool_use_id"],
                "name": part["name"],
                "response": json.loads(text) if is_json else {"result": text},
                **rest.pop("functionResponse", {}),
            }
            return {"functionResponse": response, **rest}
        case _:
            source = part["source"]
            data = source["data"].replace("+", "-").replace("/", "_")
            return {
                "inlineData": {"data": data, "mimeType": source["media_type"], **rest.pop("inlineData", {})},
                **rest,
            }
