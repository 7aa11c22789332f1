"""The payload of a version that the library understands: a snapshot, the details of a phase, or both.

A whole snapshot has its fields beside `{"snapshot_schema": 1, "details": {…}}`. A phase alone is `{"phase_schema": 1,
"details": {…}}`; the snapshot before it still holds. Any other payload is the user's own and is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from checkpoints.enums import FINISHED_SESSION
from checkpoints.exceptions import CheckpointCorrupted, InvalidInput, SchemaFromFuture
from checkpoints.runs.details import DETAILS, STILL_PENDING, PhaseDetails, RunTerminal
from checkpoints.runs.shape import Misshapen, shaped, unshaped
from checkpoints.runs.snapshot import COLUMNS, PAYLOAD_SCHEMA, RuntimeSnapshot

#: The keys that mark a payload as one of ours; each has the number of its schema.
SNAPSHOT, PHASE = "snapshot_schema", "phase_schema"
_FRAME = frozenset({SNAPSHOT, "details"})


def composed(details: PhaseDetails, snapshot: RuntimeSnapshot | None) -> dict[str, Any]:
    """What is stored. Raises `InvalidInput` where a field is not of its kind."""
    try:
        said = _plain(unshaped(details))
        _require_end(details)
        if snapshot is None:
            return {PHASE: PAYLOAD_SCHEMA, "details": said}
        _require_answer(snapshot)
        fields = {name: value for name, value in unshaped(snapshot).items() if name not in COLUMNS}
        return {SNAPSHOT: PAYLOAD_SCHEMA, "details": said, **fields}
    except Misshapen as error:
        raise InvalidInput(f"{error.field} cannot be saved: {error.why}.") from None


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Decimal) else value for name, value in fields.items()}


def _require_end(details: PhaseDetails) -> None:
    if isinstance(details, RunTerminal) and details.state not in FINISHED_SESSION:
        raise Misshapen("details.state", f"{details.state!r} is not one of completed, failed and cancelled")


def _require_answer(snapshot: RuntimeSnapshot) -> None:
    if snapshot.pending_llm_response == {}:
        raise Misshapen("pending_llm_response", "it is empty")


def understood(session_id: str, payload: Any) -> str | None:
    """`SNAPSHOT` or `PHASE`; None for a user's own payload. Raises `SchemaFromFuture`, `CheckpointCorrupted`."""
    found = [kind for kind in (SNAPSHOT, PHASE) if isinstance(payload, dict) and kind in payload]
    if not found:
        return None
    schema = payload[found[0]]
    if type(schema) is not int or schema < 1:
        raise CheckpointCorrupted(session_id, found[0], f"{schema!r} is not the number of a schema")
    if schema > PAYLOAD_SCHEMA:
        raise SchemaFromFuture(session_id, schema, PAYLOAD_SCHEMA)
    return found[0]


def details_of(session_id: str, phase: str, payload: dict[str, Any]) -> PhaseDetails | None:
    """The details in an understood payload. Raises `CheckpointCorrupted` naming the field."""
    kind = DETAILS.get(phase)
    if kind is None:
        return None
    try:
        details = shaped(kind, payload.get("details"), "details")
        _require_end(details)
    except Misshapen as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return details


def snapshot_of(session_id: str, payload: dict[str, Any], usage: Any, cost: float | Decimal) -> RuntimeSnapshot:
    """The snapshot in a payload that has one. Raises `CheckpointCorrupted` naming the field."""
    fields = {name: value for name, value in payload.items() if name not in _FRAME}
    try:
        snapshot = shaped(RuntimeSnapshot, {**fields, "usage": usage or {}, "total_cost_usd": cost})
        _require_answer(snapshot)
    except Misshapen as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return snapshot


def still_pending(phases: Iterable[str]) -> bool:
    """Whether an answer that waited for its tools still does after versions of these phases."""
    return all(phase in STILL_PENDING for phase in phases)
