"""Calls that a fork has copied: the copy and its original are one call, of which each session has its own record."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db.models import Subquery

from checkpoints.models import ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS

_MAX_SHOWN = 10


def load_same_call_in_other_sessions(call: ToolCall) -> list[ToolCall]:
    """Load the records that other sessions have of the same call, with their sessions, the oldest first.

    A copy keeps the key of its original and the time of the start.
    """
    # The time is compared inside the database: a value that passed through Python may have other digits.
    issued_at = Subquery(ToolCall.objects.filter(pk=call.pk).values("issued_at")[:1])
    same = ToolCall.objects.filter(
        workspace=call.workspace_id,
        issued_at=issued_at,
        idempotency_key=call.idempotency_key,
        call_id=call.call_id,
        attempt=call.attempt,
    ).exclude(session=call.session_id)
    if not call.is_copied:
        same = same.filter(COPIED_CALLS)
    return list(same.select_related("session").order_by("pk")[:_MAX_SHOWN])


def load_originals_of_copies(calls: Iterable[ToolCall]) -> dict[int, ToolCall]:
    """Load the originals of the copies among these calls, by key of the copy; one query, none without copies."""
    copies = [call for call in calls if call.is_copied and call.session.forked_from_id is not None]
    if not copies:
        return {}
    found = ToolCall.objects.filter(
        session__in={call.session.forked_from_id for call in copies},
        idempotency_key__in={call.idempotency_key for call in copies},
    ).select_related("session")
    originals: dict[tuple[int | None, str, str, int, datetime], ToolCall] = {
        (call.session_id, call.idempotency_key, call.call_id, call.attempt, call.issued_at): call for call in found
    }
    by_copy = {
        copy.pk: originals.get(
            (copy.session.forked_from_id, copy.idempotency_key, copy.call_id, copy.attempt, copy.issued_at)
        )
        for copy in copies
    }
    return {pk: original for pk, original in by_copy.items() if original is not None}
