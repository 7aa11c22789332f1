"""Position of a run after a version, and the snapshot that is still valid there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats.canonical_json import parse_json_object, to_canonical_json
from checkpoints.loop_state import snapshot_and_phase_payload_codec as payloads
from checkpoints.loop_state.phase_details import PhaseDetails, RunTerminal
from checkpoints.loop_state.resumable_loop_snapshot import RuntimeSnapshot
from checkpoints.models import Checkpoint
from checkpoints.store.database_client_state import Store

#: Number of versions that are read at once in the search for a snapshot.
_CHUNK_SIZE = 50


@dataclass(frozen=True)
class RunPosition:
    """Position of a run after its newest version."""

    pending: dict[str, Any] | None = None
    snapshot: RuntimeSnapshot | None = None
    details: PhaseDetails | None = None

    @property
    def terminal_details(self) -> RunTerminal | None:
        return self.details if isinstance(self.details, RunTerminal) else None


def load_run_position_after_version(
    store: Store, session_id: str, session_pk: int, latest: dict[str, Any]
) -> RunPosition:
    """Load the position of a run after the version `latest`, a dict as `load_latest_version` returns it.

    Raises `SchemaFromFuture`, and `CheckpointCorrupted` naming the field.
    """
    payload = latest["payload"]
    kind = payloads.find_payload_schema_key(session_id, payload)
    if kind is None:
        return RunPosition(_parse_pending_model_response(session_id, payload))
    details = payloads.parse_phase_details(session_id, latest["phase"], payload)
    phases: list[str] = []
    if kind == payloads.PHASE_KEY:
        phases.append(latest["phase"])
        payload = None
        for _, phase, earlier_payload in iterate_phases_and_payloads_before_version(
            store, session_id, session_pk, latest["version"]
        ):
            if payloads.find_payload_schema_key(session_id, earlier_payload) != payloads.PHASE_KEY:
                payload = earlier_payload
                break
            phases.append(phase)
    if payloads.find_payload_schema_key(session_id, payload) is None:
        pending = (
            _parse_pending_model_response(session_id, payload)
            if payloads.does_model_response_stay_pending_after_phases(phases)
            else None
        )
        return RunPosition(pending, None, details)
    snapshot = payloads.parse_snapshot(session_id, payload, latest["usage"], latest["budget_spent_usd"])
    if not payloads.does_model_response_stay_pending_after_phases(phases):
        snapshot = replace(snapshot, pending_llm_response=None)
    return RunPosition(snapshot.pending_llm_response, snapshot, details)


def _parse_pending_model_response(session_id: str, payload: dict[str, Any] | None) -> dict[str, Any] | None:
    """Parse the journaled model answer in a user's payload. A damaged one must not lead to a second model call."""
    pending = (payload or {}).get("pending_llm_response")
    if pending is None:
        return None
    if not isinstance(pending, dict) or not pending:
        raise CheckpointCorrupted(session_id, "pending_llm_response", "it is not an object with the model's answer")
    return pending


def load_run_position_at_version(store: Store, session_id: str, row: Checkpoint) -> RunPosition | None:
    """Return the position of a run after a version: with a snapshot, at a phase, or with a journaled answer.

    None if the version has none of these. Raises `SchemaFromFuture` and `CheckpointCorrupted`.
    """
    payload = _parse_payload(session_id, row.version, row.payload)
    if payloads.find_payload_schema_key(session_id, payload) is None:
        pending = _parse_pending_model_response(session_id, payload)
        return None if pending is None else RunPosition(pending)
    latest = {
        "payload": payload,
        "phase": row.phase,
        "version": row.version,
        "usage": None,
        "budget_spent_usd": 0,
    }
    return load_run_position_after_version(store, session_id, row.session_id, latest)


def iterate_phases_and_payloads_before_version(
    store: Store, session_id: str, session_pk: int, version: int
) -> Iterator[tuple[int, str, Any]]:
    """Iterate over the versions before `version`, newest first: number, phase, payload."""
    rows = Checkpoint.objects.using(store.using).filter(session_id=session_pk).order_by("-version")
    while chunk := list(rows.filter(version__lt=version).values_list("version", "phase", "payload")[:_CHUNK_SIZE]):
        for number, phase, text in chunk:
            yield number, phase, _parse_payload(session_id, number, text)
        version = chunk[-1][0]


def _parse_payload(session_id: str, version: int, text: str | None) -> Any:
    try:
        return parse_json_object(text)
    except ValueError as error:
        raise CheckpointCorrupted(session_id, f"the payload of version {version}", str(error)) from error


def find_earlier_version_with_valid_snapshot(store: Store, session_id: str, row: Checkpoint) -> int | None:
    """Find the version with the snapshot that is still valid at `row`; None if that is `row` itself, or there is
    none."""
    if (
        payloads.find_payload_schema_key(session_id, _parse_payload(session_id, row.version, row.payload))
        != payloads.PHASE_KEY
    ):
        return None
    for number, _, payload in iterate_phases_and_payloads_before_version(
        store, session_id, row.session_id, row.version
    ):
        if payloads.find_payload_schema_key(session_id, payload) != payloads.PHASE_KEY:
            return number
    return None


def load_payload_with_snapshot(store: Store, session_id: str, row: Checkpoint) -> str | None:
    """Load the payload of a version, with the snapshot that is still valid there if it has none of its own."""
    if (
        payloads.find_payload_schema_key(session_id, _parse_payload(session_id, row.version, row.payload))
        != payloads.PHASE_KEY
    ):
        return row.payload
    position = load_run_position_at_version(store, session_id, row)
    if position is None or position.snapshot is None or position.details is None:
        return row.payload
    return to_canonical_json(payloads.compose_version_payload(position.details, position.snapshot), "payload")
