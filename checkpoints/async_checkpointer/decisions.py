"""What people decide about calls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from checkpoints.async_checkpointer.hopping import Hopping
from checkpoints.resuming.actors import Actor


class Decisions(Hopping):
    async def verify_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        step: int | None = None,
        attempt: int | None = None,
    ) -> str:
        return await self.hop(
            partial(self.sync.verify_call, session_id, call_id, actor=actor, step=step, attempt=attempt)
        )

    async def confirm_landed(
        self,
        session_id: str,
        call_id: str,
        result_text: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.confirm_landed,
                session_id,
                call_id,
                result_text,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def mark_failed(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.mark_failed,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def approve_rerun(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.approve_rerun,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def approve_call(
        self,
        session_id: str,
        call_id: str,
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.approve_call,
                session_id,
                call_id,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def edit_call(
        self,
        session_id: str,
        call_id: str,
        new_args: dict[str, Any],
        *,
        actor: Actor | str,
        reason: str,
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.edit_call,
                session_id,
                call_id,
                new_args,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def reject_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.reject_call,
                session_id,
                call_id,
                message,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )

    async def respond_call(
        self,
        session_id: str,
        call_id: str,
        message: str,
        *,
        actor: Actor | str,
        reason: str = "",
        evidence: Mapping[str, Any] | str | None = None,
        revision: int,
        step: int | None = None,
        attempt: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.respond_call,
                session_id,
                call_id,
                message,
                actor=actor,
                reason=reason,
                evidence=evidence,
                revision=revision,
                step=step,
                attempt=attempt,
            )
        )
