"""Conversion of phase records of other systems to the current names."""

from __future__ import annotations

from dataclasses import dataclass

from checkpoints.exceptions import CheckpointCorrupted
from checkpoints.formats.strict_dataclass_codec import MalformedValue
from checkpoints.loop_state import foreign_and_legacy_record_conversion
from checkpoints.loop_state.foreign_and_legacy_record_conversion import ConvertedRecord


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


def convert_phase_record(session_id: str, record: object, run_id: str | None) -> ConvertedRecord:
    """Convert a phase record of another system to the current names. Raises what `import_phase_record` raises."""
    try:
        converted = foreign_and_legacy_record_conversion.convert_legacy_record(session_id, record)
        if run_id is not None and converted.run_id != run_id:
            raise MalformedValue("run_id", f"it is {converted.run_id!r}, not {run_id!r}")
    except MalformedValue as error:
        raise CheckpointCorrupted(session_id, error.field, error.why) from None
    return converted
