"""Payload of a version that the library understands: a snapshot, the details of a phase, or both.

A whole snapshot has its fields beside `{"snapshot_schema": 1, "details": {…}}`. A phase alone is `{"phase_schema": 1,
"details": {…}}`; the snapshot before it is still valid. Any other payload is the user's own and is not interpreted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from decimal import Decimal
from typing import Any

from checkpoints.enums import FINISHED_SESSION_STATUSES
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, SchemaFromFuture
from checkpoints.formats.strict_dataclass_codec import MalformedValue, decode_strict_dataclass, encode_strict_dataclass
from checkpoints.loop_state.phase_details import (
    DETAILS_BY_PHASE,
    PHASES_KEEPING_ANSWER_PENDING,
    PhaseDetails,
    RunTerminal,
)
from checkpoints.loop_state.resumable_loop_snapshot import FIELDS_IN_COLUMNS, PAYLOAD_SCHEMA, RuntimeSnapshot

#: Keys that mark a payload as one of this library; each has the number of its schema.
SNAPSHOT_KEY, PHASE_KEY = "snapshot_schema", "phase_schema"
_FRAME_FIELDS = frozenset({SNAPSHOT_KEY, "details"})


def compose_version_payload(details: PhaseDetails, snapshot: RuntimeSnapshot | None) -> dict[str, Any]:
    """Compose the stored payload. Raises `InvalidInput` if a field has the wrong type."""
    try:
        detail_values = _encode_decimals(encode_strict_dataclass(details))
        _require_valid_terminal_state(details)
        if snapshot is None:
            return {PHASE_KEY: PAYLOAD_SCHEMA, "details": detail_values}
        _require_nonempty_model_response(snapshot)
        snapshot_fields = {
            name: value for name, value in encode_strict_dataclass(snapshot).items() if name not in FIELDS_IN_COLUMNS
        }
        return {SNAPSHOT_KEY: PAYLOAD_SCHEMA, "details": detail_values, **snapshot_fields}
    except MalformedValue as error:
        raise InvalidInput(f"{error.field} cannot be saved: {error.why}.") from None


def _encode_decimals(values: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in values.items()}


def _require_valid_terminal_state(details: PhaseDetails) -> None:
    if isinstance(details, RunTerminal) and details.state not in FINISHED_SESSION_STATUSES:
        raise MalformedValue("details.state", f"{details.state!r} is not one of completed, failed and cancelled")


def _require_nonempty_model_response(snapshot: RuntimeSnapshot) -> None:
    if snapshot.pending_llm_response == {}:
        raise MalformedValue("pending_llm_response", "it is empty")


def find_payload_schema_key(session_id: str, payload: Any) -> str | None:
    """Return `SNAPSHOT_KEY` or `PHASE_KEY`; None for a user's own payload. Raises `SchemaFromFuture`,
    `CheckpointCorrupted`."""
    kinds = [kind for kind in (SNAPSHOT_KEY, PHASE_KEY) if isinstance(payload, dict) and kind in payload]
    if not kinds:
        return None
    schema = payload[kinds[0]]
    if type(schema) is not int or schema < 1:
        raise CheckpointCorrupted(session_id, kinds[0], f"{schema!r} is not the number of a schema")
    if schema > PAYLOAD_SCHEMA:
        raise SchemaFromFuture(session_id, schema, PAYLOAD_SCHEMA)
    return kinds[0]


def parse_phase_details(session_id: str, phase: str, payload: dict[str, Any]) -> PhaseDetails | None:
    """Load the details in an understood payload. Raises `CheckpointCorrupted` naming the field."""
    kind = DETAILS_BY_PHASE.get(phase)
    if kind is None:
        return None
    try:
        details = decode_strict_dataclass(kind, payload.get("details"), "details")
        _require_valid_terminal_state(details)
    except MalformedValue as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return details


def parse_snapshot(session_id: str, payload: dict[str, Any], usage: Any, cost: float | Decimal) -> RuntimeSnapshot:
    """Load the snapshot in a payload that has one; a cost of 0 is loaded as unknown.

    Raises `CheckpointCorrupted` naming the field.
    """
    snapshot_fields = {name: value for name, value in payload.items() if name not in _FRAME_FIELDS}
    try:
        snapshot = decode_strict_dataclass(
            RuntimeSnapshot, {**snapshot_fields, "usage": usage or {}, "total_cost_usd": cost or None}
        )
        _require_nonempty_model_response(snapshot)
    except MalformedValue as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return snapshot


def encode_phase_and_snapshot(details: PhaseDetails, snapshot: RuntimeSnapshot | None) -> dict[str, Any]:
    """Encode a phase and its snapshot as JSON values, for `decode_phase_and_snapshot`.

    Raises `InvalidInput` if a field has the wrong type.
    """
    compose_version_payload(details, snapshot)  # raises what saving it raises
    encoded: dict[str, Any] = {
        "phase": str(details.phase),
        "details": _encode_decimals(encode_strict_dataclass(details)),
    }
    if snapshot is not None:
        encoded["snapshot"] = _encode_decimals(encode_strict_dataclass(snapshot))
    return encoded


def decode_phase_and_snapshot(
    phase: str, details: dict[str, Any], snapshot: dict[str, Any] | None
) -> tuple[PhaseDetails, RuntimeSnapshot | None]:
    """Decode a phase and its snapshot, of which fields may be left out that have a default. Raises `InvalidInput`."""
    kind = DETAILS_BY_PHASE.get(phase)
    if kind is None:
        raise InvalidInput(f"There is no phase {phase[:60]!r}; the phases are {', '.join(DETAILS_BY_PHASE)}.")
    try:
        loaded = decode_strict_dataclass(kind, {**_get_dataclass_defaults(kind), **details}, "details")
        if snapshot is None:
            return loaded, None
        return loaded, decode_strict_dataclass(
            RuntimeSnapshot, {**_get_dataclass_defaults(RuntimeSnapshot), **snapshot}, "snapshot"
        )
    except MalformedValue as error:
        raise InvalidInput(f"{error.field} cannot be saved: {error.why}.") from None


def _get_dataclass_defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the default values of a dataclass as JSON values."""
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
        if field.default is not MISSING or field.default_factory is not MISSING
    }


def does_model_response_stay_pending_after_phases(phases: Iterable[str]) -> bool:
    """Return whether an answer that waited for its tools still does after versions of these phases."""
    return all(phase in PHASES_KEEPING_ANSWER_PENDING for phase in phases)
