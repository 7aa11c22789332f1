"""Which rows a session consists of, and how a row becomes JSON and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from checkpoints.enums import usual_risk
from checkpoints.models import (
    Checkpoint,
    Decision,
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

#: The name of each table in a file. What stands later may point to what stands before. The audit trail is not among
#: them: it tells what happened in one place, and is chained there.
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
}
#: The version of the format that brought the risk of a call.
RISK_SINCE = 2
#: The one that brought the rule of a call's key, and the version that answered the call.
ANSWERS_SINCE = 3
_NATIVE = frozenset({int, str, bool, type(None)})


def columns(model: type[models.Model]) -> list[models.Field[Any, Any]]:
    return list(model._meta.concrete_fields)


def dumped(row: models.Model) -> dict[str, Any]:
    """A row as JSON values, by the names of its columns."""
    return {field.attname: _dumped(field, row) for field in columns(type(row))}


def _dumped(field: models.Field[Any, Any], row: models.Model) -> Any:
    value = getattr(row, field.attname)
    return value if type(value) in _NATIVE else field.value_to_string(row)


def upgraded(kind: str, values: object, version: int) -> object:
    """What a file of an older `version` has of a row, as this version has it."""
    if kind != "tool_call" or not isinstance(values, dict):
        return values
    if version < RISK_SINCE:
        values = {"risk": usual_risk(str(values.get("side_effects")).split(",")).value, **values}
    if version < ANSWERS_SINCE:
        values = {"key_policy": "", "asked_args_digest": "", "answered_version": None, **values}
    return values


def loaded(model: type[models.Model], values: object) -> models.Model:
    """A row from `dumped`, unsaved, with the keys it had there. Raises `ValueError`."""
    fields = {field.attname: field for field in columns(model)}
    if not isinstance(values, dict) or values.keys() != fields.keys():
        raise ValueError(f"its columns are not those of a {model._meta.verbose_name}")
    try:
        return model(**{name: _loaded(fields[name], value) for name, value in values.items()})
    except (ValidationError, TypeError) as error:
        raise ValueError(f"a value of a {model._meta.verbose_name} is not of its kind") from error


def _loaded(field: models.Field[Any, Any], value: Any) -> Any:
    if value is None and not field.null and not field.primary_key:
        raise ValueError(f"{field.attname} is missing")
    value = None if value is None else field.to_python(value)
    return bytes(value) if isinstance(value, memoryview) else value


def relations(model: type[models.Model]) -> Iterator[models.ForeignKey[Any, Any]]:
    for field in columns(model):
        if isinstance(field, models.ForeignKey):
            yield field
