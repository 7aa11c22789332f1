"""Writing and reading the versions of a session."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from checkpoints.async_checkpointer.hopping import Hopping
from checkpoints.enums import Phase
from checkpoints.runs.details import PhaseDetails
from checkpoints.runs.snapshot import RuntimeSnapshot
from checkpoints.saving import phases
from checkpoints.saving.pruning import Removed
from checkpoints.saving.state import UNCHANGED, Unchanged


class Versions(Hopping):
    async def save_checkpoint(
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
        return await self.hop(
            partial(
                self.sync.save_checkpoint,
                session_id,
                transcript,
                plan,
                budget_spent_usd,
                phase=phase,
                usage=usage,
                payload=payload,
                expected_version=expected_version,
            )
        )

    async def append_checkpoint(
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
        return await self.hop(
            partial(
                self.sync.append_checkpoint,
                session_id,
                new_messages,
                expected_version=expected_version,
                plan=plan,
                budget_spent_usd=budget_spent_usd,
                usage=usage,
                phase=phase,
                payload=payload,
            )
        )

    async def save_phase(
        self,
        session_id: str,
        details: PhaseDetails,
        *,
        snapshot: RuntimeSnapshot | None = None,
        transcript: list[dict[str, Any]] | None = None,
        plan: dict[str, Any] | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
    ) -> int:
        return await self.hop(
            partial(
                self.sync.save_phase,
                session_id,
                details,
                snapshot=snapshot,
                transcript=transcript,
                plan=plan,
                expected_version=expected_version,
            )
        )

    async def import_record(
        self, session_id: str, record: dict[str, Any], *, run_id: str | None = None
    ) -> phases.ImportedRecord:
        return await self.hop(partial(self.sync.import_record, session_id, record, run_id=run_id))

    async def load_latest(self, session_id: str) -> dict[str, Any] | None:
        return await self.hop(partial(self.sync.load_latest, session_id))

    async def load(self, session_id: str, version: int) -> dict[str, Any]:
        return await self.hop(partial(self.sync.load, session_id, version))

    async def list_checkpoints(
        self, session_id: str, *, before: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.list_checkpoints, session_id, before=before, limit=limit))

    async def messages(
        self, session_id: str, *, after: int = 0, limit: int = 100, version: int | None = None
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.messages, session_id, after=after, limit=limit, version=version))

    async def delete_checkpoint(self, session_id: str, version: int) -> Removed:
        return await self.hop(partial(self.sync.delete_checkpoint, session_id, version))

    async def prune(
        self,
        session_id: str,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
    ) -> Removed:
        return await self.hop(
            partial(
                self.sync.prune,
                session_id,
                keep_last=keep_last,
                keep_every=keep_every,
                older_than=older_than,
                dry_run=dry_run,
            )
        )
