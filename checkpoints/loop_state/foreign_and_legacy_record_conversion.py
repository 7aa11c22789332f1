"""Conversion of checkpoint records of other systems and older versions to the current names, with a list of the
changes.

A record is `{run_id, thread_id, schema_version, phase, payload, timestamp_ms}`; its payload is a runtime snapshot with
the conversation in `messages`, or only the fields of its phase. Older ones say `schemaVersion`, `runId`, `data` …
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from checkpoints.exceptions import SchemaFromFuture
from checkpoints.formats.strict_dataclass_codec import MalformedValue, decode_strict_dataclass
from checkpoints.loop_state.phase_details import DETAILS_BY_PHASE, PhaseDetails
from checkpoints.loop_state.resumable_loop_snapshot import (
    PAYLOAD_SCHEMA,
    RuntimeSnapshot,
    SubagentExecution,
    ToolExecution,
)

T = TypeVar("T")

#: Old names that differ from the current ones by more than their spelling.
_RENAMED_FIELDS = {
    "cost_usd": "total_cost_usd",
    "data": "payload",
    "name": "tool",
    "pending_response": "pending_llm_response",
    "replayed_effects": "replayed_effect_count",
    "started_at": "started_at_s",
    "subagent_name": "agent",
    "timestamp": "timestamp_ms",
    "tool_call_id": "call_id",
    "tool_name": "tool",
    "version": "schema_version",
}
_RECORD_FIELDS = frozenset({"run_id", "thread_id", "schema_version", "phase", "payload", "timestamp_ms"})
#: Required fields of a snapshot; every other field has a default for records that lack it.
_REQUIRED_FIELDS = frozenset({"step", "state"})
#: Smaller times in milliseconds are taken for seconds: this is the year 1973.
_FIRST_MILLISECOND = 100_000_000_000


@dataclass(frozen=True)
class ConvertedRecord:
    """Record in the current form. `snapshot` and `transcript` are None if it has only the fields of its phase.

    `applied` lists the changes: `schemaVersion → schema_version`, `payload.usage: was missing`.
    """

    run_id: str
    details: PhaseDetails
    snapshot: RuntimeSnapshot | None
    transcript: list[dict[str, Any]] | None
    applied: tuple[str, ...]


def convert_legacy_record(session_id: str, record: object) -> ConvertedRecord:
    """Convert a record for a session to the current names. Raises `MalformedValue`, and `SchemaFromFuture` naming the
    session."""
    changes: list[str] = []
    fields = _rename_fields_to_current_names(record, _RECORD_FIELDS, "", changes)
    _check_schema_version_and_note_change(session_id, fields, changes)
    _check_timestamp_and_note_change(fields, changes)
    kind = _get_details_class(fields)
    payload = _rename_fields_to_current_names(
        fields.get("payload"),
        _collect_field_names(kind) | _collect_field_names(RuntimeSnapshot) | {"messages"},
        "payload.",
        changes,
    )
    transcript = _validate_transcript_messages(payload.pop("messages", None))
    snapshot = None
    if transcript is not None:
        snapshot = _build_dataclass_with_defaults(
            RuntimeSnapshot, _convert_executions(payload, changes), "payload.", changes
        )
    elif unknown_names := sorted(payload.keys() - _collect_field_names(kind)):
        raise MalformedValue("payload.messages", f"it is missing, and {unknown_names[0]} belongs to a whole snapshot")
    run_id = fields.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise MalformedValue("run_id", "it is missing or not text")
    return ConvertedRecord(
        run_id, _build_dataclass_with_defaults(kind, payload, "payload.", []), snapshot, transcript, tuple(changes)
    )


def _rename_fields_to_current_names(
    data: object, known_names: frozenset[str], path: str, changes: list[str]
) -> dict[str, Any]:
    """Rename the fields of `data` to the current names. Raises `MalformedValue` for unknown and duplicate fields."""
    if not isinstance(data, dict):
        raise MalformedValue(path.rstrip(".") or "record", f"it is a {type(data).__name__}, not an object")
    fields: dict[str, Any] = {}
    for name, value in data.items():
        current_name = _find_current_field_name(str(name), known_names)
        if current_name is None:
            raise MalformedValue(f"{path}{name}", "there is no such field")
        if current_name in fields:
            raise MalformedValue(f"{path}{current_name}", "it is there under two names")
        if current_name != name:
            changes.append(f"{path}{name} → {current_name}")
        fields[current_name] = value
    return fields


def _find_current_field_name(name: str, known_names: frozenset[str]) -> str | None:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return next(
        (candidate for candidate in (name, snake, _RENAMED_FIELDS.get(snake, "")) if candidate in known_names), None
    )


def _collect_field_names(kind: type[Any]) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))


def _check_schema_version_and_note_change(session_id: str, record: dict[str, Any], changes: list[str]) -> None:
    schema_version = record.get("schema_version")
    if schema_version is None:
        changes.append("schema_version: was missing, taken for 1")
        return
    number = (
        re.fullmatch(r"v?(\d+)(\.\d+)*", str(schema_version)) if isinstance(schema_version, str | int | float) else None
    )
    if number is None or isinstance(schema_version, bool):
        raise MalformedValue("schema_version", f"{schema_version!r} is not a version")
    if int(number[1]) > PAYLOAD_SCHEMA:
        raise SchemaFromFuture(session_id, int(number[1]), PAYLOAD_SCHEMA)
    if schema_version != PAYLOAD_SCHEMA or not isinstance(schema_version, int):
        changes.append(f"schema_version: {schema_version!r} → {PAYLOAD_SCHEMA}")


def _check_timestamp_and_note_change(record: dict[str, Any], changes: list[str]) -> None:
    timestamp = record.get("timestamp_ms")
    if timestamp is None:
        return
    if isinstance(timestamp, bool) or not isinstance(timestamp, int | float) or not timestamp >= 0:
        raise MalformedValue("timestamp_ms", f"{timestamp!r} is not a time")
    if timestamp < _FIRST_MILLISECOND:
        changes.append("timestamp_ms: was in seconds")


def _get_details_class(record: dict[str, Any]) -> type[PhaseDetails]:
    phase = record.get("phase")
    kind = DETAILS_BY_PHASE.get(phase) if isinstance(phase, str) else None
    if kind is None:
        raise MalformedValue("phase", f"{phase!r} is not one of {', '.join(sorted(DETAILS_BY_PHASE))}")
    return kind


def _validate_transcript_messages(messages: object) -> list[dict[str, Any]] | None:
    if messages is None:
        return None
    if not isinstance(messages, list):
        raise MalformedValue("payload.messages", f"it is a {type(messages).__name__}, not a list")
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise MalformedValue(f"payload.messages[{index}]", f"it is a {type(message).__name__}, not an object")
    return messages


def _convert_executions(payload: dict[str, Any], changes: list[str]) -> dict[str, Any]:
    """Convert the executions of a payload; their further fields are in the conversation."""
    kinds: dict[str, type[Any]] = {"tool_executions": ToolExecution, "subagent_executions": SubagentExecution}
    new_payload = dict(payload)
    for name, kind in kinds.items():
        if isinstance(payload.get(name), list):
            path = f"payload.{name}"
            new_payload[name] = [
                _convert_execution(kind, item, f"{path}[{index}].", changes) for index, item in enumerate(payload[name])
            ]
    return new_payload


def _convert_execution(kind: type[Any], item: object, path: str, changes: list[str]) -> object:
    if not isinstance(item, dict):
        return item
    known_fields = {
        name: value
        for name, value in item.items()
        if _find_current_field_name(str(name), _collect_field_names(kind)) is not None
    }
    changes += [f"{path}{name}: left out" for name in item if name not in known_fields]
    fields = _rename_fields_to_current_names(known_fields, _collect_field_names(kind), path, changes)
    return {**_get_field_defaults(kind), **fields}


def _build_dataclass_with_defaults(kind: type[T], data: dict[str, Any], path: str, changes: list[str]) -> T:
    """Build the dataclass from those of its fields that are given."""
    values = {name: value for name, value in data.items() if name in _collect_field_names(kind)}
    if kind is RuntimeSnapshot:
        for name in sorted(_REQUIRED_FIELDS - values.keys()):
            raise MalformedValue(f"{path}{name}", "it is missing")
    defaults = _get_field_defaults(kind)
    changes += [f"{path}{name}: was missing" for name in defaults if name not in values]
    return decode_strict_dataclass(kind, {**defaults, **values}, path.rstrip("."))


def _get_field_defaults(kind: type[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
    return values
