"""Saving of phase records of other systems as versions."""

from __future__ import annotations

from checkpoints.store import look_up_and_lock_rows
from checkpoints.store.database_client_state import Store
from checkpoints.versions.imported_phase_records import ImportedRecord, convert_phase_record
from checkpoints.versions.save_phase_version import save_phase_version


def import_phase_record(store: Store, session_id: str, record: object, *, run_id: str | None = None) -> ImportedRecord:
    """Save a phase record of another system as the next version.

    Raises `CheckpointCorrupted` naming the field, also if the record is of another run than `run_id`, and
    `SchemaFromFuture`. Nothing is written then.
    """
    look_up_and_lock_rows.flush_and_require_owned_session(store, session_id)
    migrated = convert_phase_record(session_id, record, run_id)
    version = save_phase_version(
        store, session_id, migrated.details, snapshot=migrated.snapshot, transcript=migrated.transcript
    )
    return ImportedRecord(version, migrated.run_id, migrated.applied)
