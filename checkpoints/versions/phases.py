"""Versions that are saved at a phase of a run, and the position of a run after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from checkpoints.db.operation_context import database_operation
from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats.canonical import parse_json_object, to_canonical_json
from checkpoints.formats.strict_dataclasses import Misshapen
from checkpoints.loop_state import legacy_records
from checkpoints.loop_state import version_payload as payloads
from checkpoints.loop_state.legacy_records import MigratedRecord
from checkpoints.loop_state.phase_details import PhaseDetails, RunTerminal
from checkpoints.loop_state.runtime_snapshot import RuntimeSnapshot
from checkpoints.models import Checkpoint
from checkpoints.store import row_lookups
from checkpoints.store.store import OwnedSession, Store
from checkpoints.store.version_state import UNCHANGED, Unchanged, VersionChange
from checkpoints.versions import save_version

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


def save_phase_version(
    store: Store,
    session_id: str,
    details: PhaseDetails,
    *,
    snapshot: RuntimeSnapshot | None = None,
    transcript: Sequence[dict[str, Any]] | None = None,
    plan: dict[str, Any] | Unchanged | None = UNCHANGED,
    expected_version: int | None = None,
) -> int:
    """Write the next version at a phase. Returns its number."""
    owned_session = row_lookups.get_owned_session(store, session_id)
    change = build_phase_change(store, owned_session, details, snapshot, plan)
    if transcript is None:
        expected = owned_session.head.version if expected_version is None else expected_version
        return save_version.append_messages(store, session_id, [], change, expected_version=expected)
    return save_version.save_transcript(store, session_id, transcript, change, expected_version=expected_version)


def find_repeated_phase(
    store: Store,
    session_id: str,
    details: PhaseDetails,
    *,
    snapshot: RuntimeSnapshot | None,
    transcript: Sequence[dict[str, Any]] | None,
    plan: dict[str, Any] | Unchanged | None,
    expected_version: int,
    since: datetime,
) -> int | None:
    """Return the version after `expected_version` if this run saved just this phase, and after `since`; else None."""
    owned_session = row_lookups.get_owned_session(store, session_id)
    change = build_phase_change(store, owned_session, details, snapshot, plan)
    return save_version.find_repeated_version(
        store, owned_session, transcript or [], change, expected_version, whole=transcript is not None, since=since
    )


def build_phase_change(
    store: Store,
    owned_session: OwnedSession,
    details: PhaseDetails,
    snapshot: RuntimeSnapshot | None,
    plan: dict[str, Any] | Unchanged | None,
) -> VersionChange:
    """Build the changes of a version at a phase beside the transcript."""
    change = VersionChange(plan=plan, phase=details.phase)
    if snapshot is not None:
        snapshot = replace(snapshot, replayed_effect_count=_count_replayed_calls(store, owned_session))
        change = replace(change, budget_spent_usd=snapshot.total_cost_usd, usage=snapshot.usage)
    return replace(change, payload=payloads.compose_version_payload(details, snapshot))


def _count_replayed_calls(store: Store, owned_session: OwnedSession) -> int:
    """Count the calls that were answered from the log so far, in this run and those before it."""
    if owned_session.replayed_before is None:
        owned_session.replayed_before = _count_earlier_replays(store, owned_session)
    return owned_session.replayed_before + len(owned_session.replayed)


def _count_earlier_replays(store: Store, owned_session: OwnedSession) -> int:
    with database_operation(store.using, writes=False):
        for _, _, payload in _iterate_versions_before(
            store, owned_session.session_id, owned_session.pk, owned_session.head.version + 1
        ):
            if payloads.identify_payload(owned_session.session_id, payload) == payloads.SNAPSHOT_KEY:
                return payloads.load_snapshot(owned_session.session_id, payload, None, 0).replayed_effect_count
    return 0


# reading


def load_run_position(store: Store, session_id: str, session_pk: int, latest: dict[str, Any]) -> RunPosition:
    """Load the position of a run after the version `latest`, a dict as `load_latest_version` returns it.

    Raises `SchemaFromFuture`, and `CheckpointCorrupted` naming the field.
    """
    payload = latest["payload"]
    kind = payloads.identify_payload(session_id, payload)
    if kind is None:
        return RunPosition(_parse_pending_model_response(session_id, payload))
    details = payloads.load_details(session_id, latest["phase"], payload)
    phases: list[str] = []
    if kind == payloads.PHASE_KEY:
        phases.append(latest["phase"])
        payload = None
        for _, phase, earlier_payload in _iterate_versions_before(store, session_id, session_pk, latest["version"]):
            if payloads.identify_payload(session_id, earlier_payload) != payloads.PHASE_KEY:
                payload = earlier_payload
                break
            phases.append(phase)
    if payloads.identify_payload(session_id, payload) is None:
        pending = (
            _parse_pending_model_response(session_id, payload)
            if payloads.is_model_response_still_pending(phases)
            else None
        )
        return RunPosition(pending, None, details)
    snapshot = payloads.load_snapshot(session_id, payload, latest["usage"], latest["budget_spent_usd"])
    if not payloads.is_model_response_still_pending(phases):
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
    if payloads.identify_payload(session_id, payload) is None:
        pending = _parse_pending_model_response(session_id, payload)
        return None if pending is None else RunPosition(pending)
    latest = {
        "payload": payload,
        "phase": row.phase,
        "version": row.version,
        "usage": None,
        "budget_spent_usd": 0,
    }
    return load_run_position(store, session_id, row.session_id, latest)


def _iterate_versions_before(
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


# what other versions depend on


def find_version_with_valid_snapshot(store: Store, session_id: str, row: Checkpoint) -> int | None:
    """Find the version with the snapshot that is still valid at `row`; None if that is `row` itself, or there is
    none."""
    if (
        payloads.identify_payload(session_id, _parse_payload(session_id, row.version, row.payload))
        != payloads.PHASE_KEY
    ):
        return None
    for number, _, payload in _iterate_versions_before(store, session_id, row.session_id, row.version):
        if payloads.identify_payload(session_id, payload) != payloads.PHASE_KEY:
            return number
    return None


def load_payload_with_snapshot(store: Store, session_id: str, row: Checkpoint) -> str | None:
    """Load the payload of a version, with the snapshot that is still valid there if it has none of its own."""
    if (
        payloads.identify_payload(session_id, _parse_payload(session_id, row.version, row.payload))
        != payloads.PHASE_KEY
    ):
        return row.payload
    position = load_run_position_at_version(store, session_id, row)
    if position is None or position.snapshot is None or position.details is None:
        return row.payload
    return to_canonical_json(payloads.compose_version_payload(position.details, position.snapshot), "payload")


# records of other systems


@dataclass(frozen=True)
class ImportedRecord:
    """Phase record that has been imported.

    Attributes:
        version: Number of the new version.
        run_id: Identifier of the run in the record.
        applied: Changes that were made to the record, such as `runId → run_id`.
    """

    version: int
    run_id: str
    applied: tuple[str, ...]


def import_phase_record(store: Store, session_id: str, record: object, *, run_id: str | None = None) -> ImportedRecord:
    """Save a phase record of another system as the next version.

    Raises `CheckpointCorrupted` naming the field, also if the record is of another run than `run_id`, and
    `SchemaFromFuture`. Nothing is written then.
    """
    row_lookups.get_owned_session(store, session_id)
    migrated = migrate_record(session_id, record, run_id)
    version = save_phase_version(
        store, session_id, migrated.details, snapshot=migrated.snapshot, transcript=migrated.transcript
    )
    return ImportedRecord(version, migrated.run_id, migrated.applied)


def migrate_record(session_id: str, record: object, run_id: str | None) -> MigratedRecord:
    """Migrate a phase record of another system to the current names. Raises what `import_phase_record` raises."""
    try:
        migrated = legacy_records.migrate_record(session_id, record)
        if run_id is not None and migrated.run_id != run_id:
            raise Misshapen("run_id", f"it is {migrated.run_id!r}, not {run_id!r}")
    except Misshapen as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return migrated
