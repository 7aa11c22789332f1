"""Writing and reading the versions of a session."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from checkpoints.enums import Phase
from checkpoints.resuming import appending
from checkpoints.runs.details import PhaseDetails
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import checkpoints as saving
from checkpoints.saving import phases, pruning, reading
from checkpoints.saving.pruning import Removed, Retention
from checkpoints.saving.state import UNCHANGED, Change, Unchanged
from checkpoints.saving.store import Store


class Versions:
    store: Store

    def save_checkpoint(
        self,
        session_id: str,
        transcript: list[dict[str, Any]],
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        *,
        phase: str = Phase.TURN,
        usage: dict[str, Any] | None = None,
        payload: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> int:
        """Save the whole transcript as the next version and return its number; only what is new is stored.

        `plan` and `budget_spent_usd` (in US dollars, the sum so far), where left out, stay as the version before has
        them; a first version has no plan and a budget of 0. `usage` and `payload` belong to this version alone. Raises
        `SessionNotFound`, `NotOwner`, `OwnershipLost`, `SessionFinished`, `NotRepresentable`, `TooLarge`, and
        `VersionConflict` where the session is not at `expected_version`.
        """
        state = Change(plan, budget_spent_usd, usage, phase, payload).as_given()
        return saving.save(self.store, session_id, transcript, state, expected_version=expected_version)

    def append_checkpoint(
        self,
        session_id: str,
        new_messages: list[dict[str, Any]],
        *,
        expected_version: int,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        budget_spent_usd: float | Decimal | Unchanged = UNCHANGED,
        usage: dict[str, Any] | Unchanged | None = UNCHANGED,
        phase: str = Phase.TURN,
        payload: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version from the messages that are new since `expected_version`.

        What is left out stays as the version before has it, except `payload`. It needs no run: where this checkpointer
        does not own the session and no living run has it, it compares the version and appends, in one transaction. Then
        it raises `SessionBusy` while a run has the session, `VersionConflict` where the session moved on,
        `ReviewRequired` or `ApprovalRequired` while a call is undecided, and `PausedForPeers`. Otherwise it raises what
        `save_checkpoint` raises.
        """
        change = Change(plan, budget_spent_usd, usage, phase, payload)
        return appending.append(self.store, session_id, new_messages, change, expected_version=expected_version)

    def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        """Save the next version at a phase of the run, such as `PostLlm(model=…)`; what is left out stays as it was.

        A `snapshot` is where the loop stands; it holds until the next one. Its usage and cost become those of the
        version, and its `replayed_effect_count` is counted here. Raises what `save_checkpoint` raises.
        """
        return phases.save_phase(
            self.store,
            session_id,
            details,
            snapshot=snapshot,
            transcript=transcript,
            plan=plan,
            expected_version=expected_version,
        )

    def import_record(
        self, session_id: str, record: dict[str, Any], *, run_id: str | None = None
    ) -> phases.ImportedRecord:
        """Save a phase record that another system or an older version wrote; `applied` of the answer says what was
        changed in it, such as `runId → run_id`.

        Raises `CheckpointCorrupted` naming the field, also for a record of another run than `run_id`, and
        `SchemaFromFuture`; then nothing is written.
        """
        return phases.import_record(self.store, session_id, record, run_id=run_id)

    def load_latest(self, session_id: str) -> dict[str, Any] | None:
        """The newest version: transcript, plan, budget_spent_usd, version, usage, payload, phase, run_id, created_at,
        schema_version. None while there is none. `run_id` is None for a version that was appended without a run."""
        return reading.load_latest(self.store, session_id)

    def load(self, session_id: str, version: int) -> dict[str, Any]:
        """One version, as `load_latest` returns it. Raises `SessionNotFound`, `VersionNotFound`."""
        return reading.load(self.store, session_id, version)

    def list_checkpoints(self, session_id: str, *, before: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
        """The versions below `before`, newest first, without transcripts. Raises `SessionNotFound`."""
        return reading.list_checkpoints(self.store, session_id, before=before, limit=limit)

    def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
    ) -> list[dict[str, Any]]:
        """A page of a transcript, in order, without reading the rest of it: position, created_at, message.

        The messages behind the first `after`, at most `limit`; `position` counts from 0, as the index in the transcript
        does. `version` None is the newest one. Raises `SessionNotFound`, `VersionNotFound`, `InvalidInput`,
        `CheckpointCorrupted`.
        """
        return reading.messages(self.store, session_id, after=after, limit=limit, version=version)

    def delete_checkpoint(self, session_id: str, version: int) -> Removed:
        """Remove one version; its number does not come back. Raises `VersionNotFound`, `StillNeeded`."""
        return pruning.delete_version(self.store, session_id, version)

    def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Remove versions, and the messages that no version reaches any more.

        What stays: the newest version, the last `keep_last`, every `keep_every`-th number, and what is not
        `older_than`. With `dry_run` nothing is removed. Raises `SessionNotFound`, `InvalidInput`.
        """
        retention = Retention(keep_last, keep_every, older_than)
        return pruning.prune(self.store, session_id, retention, dry_run=dry_run)
