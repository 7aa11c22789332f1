"""The log of tool calls, for loops that do not use a registry."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from checkpoints.async_checkpointer.hopping import Hopping


class ToolCalls(Hopping):
    async def record_tool_call_issued(
        self,
        session_id: str,
        call_id: str,
        tool_name: str,
        args: dict[str, Any],
        idempotency_key: str,
        *,
        side_effects: Iterable[str] = ("mutate",),
        step: int | None = None,
    ) -> None:
        await self.hop(
            partial(
                self.sync.record_tool_call_issued,
                session_id,
                call_id,
                tool_name,
                args,
                idempotency_key,
                side_effects=side_effects,
                step=step,
            )
        )

    async def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        await self.hop(partial(self.sync.record_tool_call_result, session_id, call_id, result_text, success, step=step))

    async def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        return await self.hop(partial(self.sync.find_completed_call, idempotency_key))

    async def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.pending_tool_calls, session_id))

    async def pending_decisions(
        self, *, agent: str | None = None, after: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.pending_decisions, agent=agent, after=after, limit=limit))
