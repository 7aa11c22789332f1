"""Conversion of logged calls to the dictionaries and errors that users get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import (
    CallStatus,
    DecisionKind,
)
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Decision, ToolCall
from checkpoints.store.database_client_state import Store


def load_verify_hook_unknown_reasons(store: Store, calls: Iterable[ToolCall]) -> dict[int, str]:
    """Load the reason of the last verify hook that could not tell, by the primary key of the interrupted call."""
    unknown = [call.pk for call in calls if call.status == CallStatus.INTERRUPTED]
    if not unknown:
        return {}
    answers = Decision.objects.using(store.using).filter(tool_call__in=unknown, kind=DecisionKind.PROBE_UNKNOWN)
    return dict(answers.order_by(*Decision.IN_ORDER).values_list("tool_call_id", "reason"))


def load_calls_with_verify_reasons(store: Store, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Convert calls to the dicts that users get, each with the last answer of its verify hook."""
    with database_operation(store.using, writes=False):
        reasons = load_verify_hook_unknown_reasons(store, calls)
    return [call_to_dict(call, verify_reason=reasons.get(call.pk)) for call in calls]


def load_reasons_and_build_review_required(store: Store, session_id: str, calls: Sequence[ToolCall]) -> ReviewRequired:
    """Build the error that names undecided calls, and why their verify hooks could not tell."""
    return ReviewRequired(session_id, load_calls_with_verify_reasons(store, calls))


def call_to_dict(call: ToolCall, *, alive: bool = False, verify_reason: str | None = None) -> dict[str, Any]:
    """Convert a call to the dict that users get.

    `verify_reason` is why its verify hook could not tell; None if none was asked.
    """
    return {
        "call_id": call.call_id,
        "tool_name": call.tool,
        "args_json": call.args,
        "started_at": call.issued_at.isoformat(),
        "status": call.status,
        "reason": call.reason,
        "run_id": str(call.run_id),
        "alive": alive,
        "step": call.step,
        "attempt": call.attempt,
        "revision": call.revision,
        "verify_reason": verify_reason,
        "allowed_decisions": [kind.value for kind in call.list_allowed_approval_decisions()],
    }
