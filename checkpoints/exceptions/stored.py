"""What is stored cannot be used."""

from __future__ import annotations

from checkpoints.exceptions.base import CheckpointsError


class CheckpointCorrupted(CheckpointsError):
    """A stored record is damaged. Nothing was run."""

    code = "checkpoint_corrupted"
    hint = "Nothing was run. Load an earlier version or fork from one."

    def __init__(self, session_id: str, field: str, why: str) -> None:
        self.session_id, self.field = session_id, field
        super().__init__(f"In session {session_id!r}, {field} is damaged: {why}.")


class SchemaFromFuture(CheckpointsError):
    """A newer version of this library wrote the record: schema `found`, where `known` is the newest known one."""

    code = "schema_from_future"
    hint = "Upgrade this process before it touches the session. Nothing was run."

    def __init__(self, session_id: str, found: int, known: int) -> None:
        self.session_id, self.found, self.known = session_id, found, known
        super().__init__(f"Session {session_id!r} was written with schema {found}; this code knows up to {known}.")
