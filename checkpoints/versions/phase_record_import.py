"""Import of phase records of other systems as versions."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats.strict_dataclass_codec import MalformedValue
from checkpoints.loop_state import legacy_records
from checkpoints.loop_state.legacy_records import MigratedRecord
from checkpoints.store import row_lookups
from checkpoints.store.database_client_state import Store
from checkpoints.versions.phase_versions import save_phase_version

#: Number of versions that are read at once in the search for a snapshot.
_CHUNK_SIZE = 50


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
    row_lookups.flush_and_require_owned_session(store, session_id)
    migrated = migrate_phase_record(session_id, record, run_id)
    version = save_phase_version(
        store, session_id, migrated.details, snapshot=migrated.snapshot, transcript=migrated.transcript
    )
    return ImportedRecord(version, migrated.run_id, migrated.applied)


def migrate_phase_record(session_id: str, record: object, run_id: str | None) -> MigratedRecord:
    """Migrate a phase record of another system to the current names. Raises what `import_phase_record` raises."""
    try:
        migrated = legacy_records.migrate_record(session_id, record)
        if run_id is not None and migrated.run_id != run_id:
            raise MalformedValue("run_id", f"it is {migrated.run_id!r}, not {run_id!r}")
    except MalformedValue as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return migrated
