"""Checkpoint records of other systems and older versions: brought to today's names, with a list of what was done.

A record is `{run_id, thread_id, schema_version, phase, payload, timestamp_ms}`; its payload is a runtime snapshot with
the conversation in `messages`, or only the fields of its phase. Older ones say `schemaVersion`, `runId`, `data` …
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, TypeVar

from checkpoints.exceptions import SchemaFromFuture
from checkpoints.runs.details import DETAILS, PhaseDetails
from checkpoints.runs.shape import Misshapen, shaped
from checkpoints.runs.snapshot import PAYLOAD_SCHEMA, RuntimeSnapshot, SubagentExecution, ToolExecution

T = TypeVar("T")

#: Names that are not only another way to write today's.
_RENAMED = {
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
_RECORD = frozenset({"run_id", "thread_id", "schema_version", "phase", "payload", "timestamp_ms"})
#: A snapshot says at least this; everything else has a value that it had when nobody wrote it down.
_NEEDED = frozenset({"step", "state"})
#: Moments before this one, in milliseconds, are taken for seconds: it is the year 1973.
_FIRST_MILLISECOND = 100_000_000_000


@dataclass(frozen=True)
class Migrated:
    """A record in today's shape. `snapshot` and `transcript` are None where it has only the fields of its phase.

    `applied` says what was changed: `schemaVersion → schema_version`, `payload.usage: was missing`.
    """

    run_id: str
    details: PhaseDetails
    snapshot: RuntimeSnapshot | None
    transcript: list[dict[str, Any]] | None
    applied: tuple[str, ...]


def migrated(session_id: str, record: object) -> Migrated:
    """Raises `Misshapen`, and `SchemaFromFuture` for the session that the record is meant for."""
    applied: list[str] = []
    whole = _renamed(record, _RECORD, "", applied)
    _check_schema(session_id, whole, applied)
    _check_time(whole, applied)
    kind = _kind(whole)
    payload = _renamed(whole.get("payload"), _names(kind) | _names(RuntimeSnapshot) | {"messages"}, "payload.", applied)
    transcript = _messages(payload.pop("messages", None))
    snapshot = None
    if transcript is not None:
        snapshot = _filled(RuntimeSnapshot, _executions(payload, applied), "payload.", applied)
    elif stray := sorted(payload.keys() - _names(kind)):
        raise Misshapen("payload.messages", f"it is missing, and {stray[0]} belongs to a whole snapshot")
    run_id = whole.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        raise Misshapen("run_id", "it is missing or not text")
    return Migrated(run_id, _filled(kind, payload, "payload.", []), snapshot, transcript, tuple(applied))


def _renamed(data: object, known: frozenset[str], path: str, applied: list[str]) -> dict[str, Any]:
    """`data` with today's names. Raises `Misshapen` for what has none, and for what is there twice."""
    if not isinstance(data, dict):
        raise Misshapen(path.rstrip(".") or "record", f"it is a {type(data).__name__}, not an object")
    found: dict[str, Any] = {}
    for name, value in data.items():
        today = _today(str(name), known)
        if today is None:
            raise Misshapen(f"{path}{name}", "there is no such field")
        if today in found:
            raise Misshapen(f"{path}{today}", "it is there under two names")
        if today != name:
            applied.append(f"{path}{name} → {today}")
        found[today] = value
    return found


def _today(name: str, known: frozenset[str]) -> str | None:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return next((each for each in (name, snake, _RENAMED.get(snake, "")) if each in known), None)


def _names(kind: type[Any]) -> frozenset[str]:
    return frozenset(field.name for field in dataclasses.fields(kind))


def _check_schema(session_id: str, record: dict[str, Any], applied: list[str]) -> None:
    given = record.get("schema_version")
    if given is None:
        applied.append("schema_version: was missing, taken for 1")
        return
    number = re.fullmatch(r"v?(\d+)(\.\d+)*", str(given)) if isinstance(given, str | int | float) else None
    if number is None or isinstance(given, bool):
        raise Misshapen("schema_version", f"{given!r} is not a version")
    if int(number[1]) > PAYLOAD_SCHEMA:
        raise SchemaFromFuture(session_id, int(number[1]), PAYLOAD_SCHEMA)
    if given != PAYLOAD_SCHEMA or not isinstance(given, int):
        applied.append(f"schema_version: {given!r} → {PAYLOAD_SCHEMA}")


def _check_time(record: dict[str, Any], applied: list[str]) -> None:
    given = record.get("timestamp_ms")
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise Misshapen("timestamp_ms", f"{given!r} is not a time")
    if given < _FIRST_MILLISECOND:
        applied.append("timestamp_ms: was in seconds")


def _kind(record: dict[str, Any]) -> type[PhaseDetails]:
    phase = record.get("phase")
    kind = DETAILS.get(phase) if isinstance(phase, str) else None
    if kind is None:
        raise Misshapen("phase", f"{phase!r} is not one of {', '.join(sorted(DETAILS))}")
    return kind


def _messages(given: object) -> list[dict[str, Any]] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise Misshapen("payload.messages", f"it is a {type(given).__name__}, not a list")
    for index, message in enumerate(given):
        if not isinstance(message, dict):
            raise Misshapen(f"payload.messages[{index}]", f"it is a {type(message).__name__}, not an object")
    return given


def _executions(payload: dict[str, Any], applied: list[str]) -> dict[str, Any]:
    """The payload with its executions in today's shape; what these say beyond it stands in the conversation."""
    kinds: dict[str, type[Any]] = {"tool_executions": ToolExecution, "subagent_executions": SubagentExecution}
    changed = dict(payload)
    for name, kind in kinds.items():
        if isinstance(payload.get(name), list):
            path = f"payload.{name}"
            changed[name] = [_execution(kind, item, f"{path}[{at}].", applied) for at, item in enumerate(payload[name])]
    return changed


def _execution(kind: type[Any], item: object, path: str, applied: list[str]) -> object:
    if not isinstance(item, dict):
        return item
    known = {name: value for name, value in item.items() if _today(str(name), _names(kind)) is not None}
    applied += [f"{path}{name}: left out" for name in item if name not in known]
    renamed = _renamed(known, _names(kind), path, applied)
    return {**_defaults(kind), **renamed}


def _filled(kind: type[T], data: dict[str, Any], path: str, applied: list[str]) -> T:
    """The dataclass from those of its fields that are there."""
    given = {name: value for name, value in data.items() if name in _names(kind)}
    if kind is RuntimeSnapshot:
        for name in sorted(_NEEDED - given.keys()):
            raise Misshapen(f"{path}{name}", "it is missing")
    defaults = _defaults(kind)
    applied += [f"{path}{name}: was missing" for name in defaults if name not in given]
    return shaped(kind, {**defaults, **given}, path.rstrip("."))


def _defaults(kind: type[Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
    return values
