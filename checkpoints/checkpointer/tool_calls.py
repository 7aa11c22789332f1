"""The log of tool calls, for loops that do not use a registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints.queries import listing
from checkpoints.saving import call_log, calls, intents
from checkpoints.saving.store import Store


class ToolCalls:
    store: Store

    def record_tool_call_issued(
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
        """Log that a call is about to run; it is durable when this returns.

        Raises `CallInProgress`, `CallAlreadySettled`, `ReviewRequired` or `CallConflict` where the call or its key
        is already there, and then the call must not run.
        """
        wanted = intents.intent(call_id, tool_name, args, idempotency_key, side_effects=side_effects, step=step)
        call_log.record_issued(self.store, session_id, wanted)

    def record_tool_call_result(
        self, session_id: str, call_id: str, result_text: str, success: bool, *, step: int | None = None
    ) -> None:
        """Log how a call ended. Raises `CallNotFound`, and `LateResultRefused` where it can no longer count."""
        call_log.record_result(self.store, session_id, call_id, result_text, success, step=step)

    def find_completed_call(self, idempotency_key: str) -> dict[str, Any] | None:
        """The completed call of that key: call_id, tool_name, args_json, result_text, status and more; or None."""
        return calls.find_completed(self.store, idempotency_key)

    def pending_tool_calls(self, session_id: str) -> list[dict[str, Any]]:
        """Calls without an outcome: call_id, tool_name, args_json, started_at, status, reason, run_id, alive, step,
        attempt, revision, and verify_reason: why the tool's verify hook could not tell, None where none was asked.
        A session that does not exist has none."""
        return calls.pending(self.store, session_id)

    def pending_decisions(
        self, *, agent: str | None = None, after: int | None = None, limit: int = 50
    ) -> list[dict[str, Any]]:
        """The calls of all sessions of the workspace that wait for a person, the oldest first: what
        `pending_tool_calls` gives, and session_id, agent, sentence, risk, waits_since, deadline, cursor. Those that a
        run which is gone has left behind wait from the moment on in which it can be known: their status is `issued`
        until somebody decides about them, resumes their session, or sweeps.

        `deadline` is None where there is none. `after` is the `cursor` of the last entry of the page before. Raises
        `InvalidInput`.
        """
        return listing.pending_decisions(self.store, agent=agent, after=after, limit=limit)
