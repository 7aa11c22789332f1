"""Rows that a session consists of, and their conversion to and from JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from checkpoints.models import (
    Blob,
    CallValue,
    Checkpoint,
    Decision,
    FrameworkState,
    FrameworkWrite,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Run,
    Segment,
    Session,
    ToolCall,
    Workflow,
    WorkflowStep,
)
from checkpoints.seals.session_heads import HEAD_FIELDS

#: Name of each table in a file, in an order in which rows point only to earlier ones. The audit trail is excluded:
#: it belongs to the database where it was recorded, and is chained there.
TABLES: dict[str, type[models.Model]] = {
    "session": Session,
    "run": Run,
    "segment": Segment,
    "message": Message,
    "checkpoint": Checkpoint,
    "tool_call": ToolCall,
    "decision": Decision,
    "late_result": LateResult,
    "workflow": Workflow,
    "workflow_step": WorkflowStep,
    "paused_task": PausedTask,
    "join": Join,
    "peer_call": PeerCall,
    "call_value": CallValue,
    "blob": Blob,
    "framework_state": FrameworkState,
    "framework_write": FrameworkWrite,
}
#: Place of the message from which opaque bytes are a difference; a file has the bytes alone.
_BASE_FIELDS = frozenset({"base_segment", "base_position"})
#: Columns of a session that say something about its rows in this database.
_OWN_OF_DATABASE = (*HEAD_FIELDS, "quarantined_at", "quarantine")
#: Columns of a call that an import derives from the others.
_DERIVED_OF_CALL = ("exit_code",)
_JSON_NATIVE_TYPES = frozenset({int, str, bool, type(None)})


def list_serialized_fields(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    """List the columns of a table in a file. Seals are left out: each database seals its rows with its own key."""
    of_model: dict[type[models.Model], tuple[str, ...]] = {Session: _OWN_OF_DATABASE, ToolCall: _DERIVED_OF_CALL}
    left_out = {"row_seal", *of_model.get(model, ())} | _BASE_FIELDS
    return [field for field in model._meta.concrete_fields if field.name not in left_out]


def serialize_row(row: models.Model) -> dict[str, Any]:
    """Convert a row to JSON values, by the names of its columns."""
    return {field.attname: _serialize_field(field, row) for field in list_serialized_fields(type(row))}


def _serialize_field(field: models.Field[Any, Any], row: models.Model) -> Any:
    value = getattr(row, field.attname)
    return value if type(value) in _JSON_NATIVE_TYPES else field.value_to_string(row)


def deserialize_row(model: type[models.Model], values: object) -> models.Model:
    """Build an unsaved row from the output of `serialize_row`, with the keys it had in the file. Raises
    `ValueError`."""
    fields = {field.attname: field for field in list_serialized_fields(model)}
    if not isinstance(values, dict) or values.keys() != fields.keys():
        raise ValueError(f"its columns are not those of a {model._meta.verbose_name}")
    try:
        return model(**{name: _deserialize_field(fields[name], value) for name, value in values.items()})
    except (ValidationError, TypeError) as error:
        raise ValueError(f"a value of a {model._meta.verbose_name} is not of its kind") from error


def _deserialize_field(field: models.Field[Any, Any], value: Any) -> Any:
    if value is None and not field.null and not field.primary_key:
        raise ValueError(f"{field.attname} is missing")
    value = None if value is None else field.to_python(value)
    return bytes(value) if isinstance(value, memoryview) else value


def iterate_serialized_foreign_keys(model: type[models.Model]) -> Iterator[models.ForeignKey[Any, Any]]:
    for field in list_serialized_fields(model):
        if isinstance(field, models.ForeignKey):
            yield field
