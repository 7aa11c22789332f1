"""Messages and records of Pydantic AI in the JSON of its own type adapters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, UserPromptPart

from checkpoints.exceptions import InvalidInput, NotRepresentable
from checkpoints.formats import pydantic_ai_messages_to_blocks
from checkpoints.framework_states.conversation_log import NewEntry, StoredEntry, StoredRecord
from checkpoints.versions.framework_value_blobs import Encoded

_RecordAdapter: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


def encode_entries(entries: Sequence[ConversationEntry]) -> list[NewEntry]:
    """Encode entries as messages of a transcript, with the id and the time that pages show.

    Raises:
        NotRepresentable: A message has no JSON form.
    """
    try:
        messages = ModelMessagesTypeAdapter.dump_python([entry.message for entry in entries], mode="json")
        json.dumps(messages, ensure_ascii=False).encode()  # the framework reads no lone surrogates
    except ValueError as error:
        raise NotRepresentable("message", str(error)) from error
    for entry, message in zip(entries, messages, strict=True):
        _remove_empty_defaults_of_message(message, entry.message)
    return [
        NewEntry(entry.id, entry.parent_id, _add_metadata_to_message(entry, message))
        for entry, message in zip(entries, messages, strict=True)
    ]


def _remove_empty_defaults_of_message(message: dict[str, Any], source: ModelMessage) -> None:
    """Remove the fields of a message, its parts and its usage that are null, 0 or {} and are that without being stated.

    These are up to a few hundred bytes of a message.
    """
    _remove_empty_defaults(message, source)
    for part, source_part in zip(message["parts"], source.parts, strict=True):
        _remove_empty_defaults(part, source_part)
    if isinstance(source, ModelResponse):
        _remove_empty_defaults(message["usage"], source.usage)


def _remove_empty_defaults(values: dict[str, Any], source: Any) -> None:
    for name, default in _list_empty_defaults(source.__class__):
        if name in values and _is_null_zero_or_empty_dict(values[name]) and values[name] == default:
            del values[name]


@cache
def _list_empty_defaults(kind: Any) -> Sequence[tuple[str, Any]]:
    """List the fields of a class that are empty by default, with their defaults."""
    defaults = [
        (field.name, field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        for field in dataclasses.fields(kind)
    ]
    return [(name, default) for name, default in defaults if _is_null_zero_or_empty_dict(default)]


def _is_null_zero_or_empty_dict(value: object) -> bool:
    return value is None or value == {} or (type(value) in (int, float) and value == 0)


def _add_metadata_to_message(entry: ConversationEntry, message: dict[str, Any]) -> dict[str, Any]:
    envelope = {"id": entry.id, "role": pydantic_ai_messages_to_blocks.find_message_role(message)}
    times = [message.get("timestamp"), *(part.get("timestamp") for part in message["parts"])]
    if message.get("model_name"):
        envelope["model"] = message["model_name"]  # by which pages name the models of a session
    if (time := next(filter(None, times), None)) is not None:
        envelope["created_at"] = time
    return {**message, **envelope}


def decode_entries(entries: Sequence[StoredEntry]) -> list[ConversationEntry]:
    """Decode stored entries.

    Raises:
        InvalidInput: This version of Pydantic AI does not know a message.
    """
    messages = _decode_messages([entry.body for entry in entries])
    return [
        ConversationEntry(id=entry.entry_id, parent_id=entry.parent_id, message=message)
        for entry, message in zip(entries, messages, strict=True)
    ]


def _decode_messages(bodies: Sequence[str]) -> list[ModelMessage]:
    try:
        return ModelMessagesTypeAdapter.validate_json(f"[{','.join(bodies)}]")
    except ValidationError as error:
        raise InvalidInput(
            f"This version of Pydantic AI does not know a stored message: {_format_first_validation_error(error)}"
        ) from error


def encode_record(record: ConversationRecord) -> Encoded:
    """Encode a record. Raises `NotRepresentable` if it has no JSON form."""
    try:
        return "json", _RecordAdapter.dump_json(record)
    except ValueError as error:
        raise NotRepresentable("record", str(error)) from error


def decode_conversation_record(stored: StoredRecord) -> ConversationRecord:
    """Decode a stored record.

    Raises:
        InvalidInput: This version of Pydantic AI does not know its format.
    """
    try:
        return _RecordAdapter.validate_json(stored.content[1])
    except ValidationError as error:
        why = _format_first_validation_error(error)
        raise InvalidInput(
            f"This version of Pydantic AI does not know the record of {stored.session_id!r}: {why}"
        ) from error


def _format_first_validation_error(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def find_first_prompt_or_empty(messages: Iterable[ModelMessage]) -> str:
    """Return the text of the first prompt of a user; empty if there is none."""
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart):
                items = [part.content] if isinstance(part.content, str) else part.content
                return " ".join(item for item in items if isinstance(item, str))
    return ""
