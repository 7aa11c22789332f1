"""Calls that a fork has copied: the copy and its original are one call, of which each session has its own record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from django.db.models import Prefetch, Subquery

from checkpoints.enums import DECIDING_KINDS, UNDECIDED_CALL_STATUSES, CallStatus, DecisionKind
from checkpoints.models import Decision, ToolCall
from checkpoints.models.tool_calls_and_results import COPIED_CALLS
from checkpoints.seals import row_seals
from checkpoints.seals.seal_keys import get_seal_keys
from harness_site.core.unreadable_rows_and_quarantine import UnreadableRecord, convert_rows_or_mark_unreadable

_MAX_SHOWN = 10
#: Decisions that end the wait for one, and are not undone.
_DECISIONS = sorted(DECIDING_KINDS - {DecisionKind.EDIT, DecisionKind.WITHDRAW})


@dataclass(frozen=True, slots=True)
class RecordInOtherSession:
    """Record that another session has of a call, and the decision about it; None without one."""

    call: ToolCall
    decision: Decision | None

    @property
    def has_happened(self) -> bool:
        return self.call.status == CallStatus.COMPLETED


def load_same_call_in_other_sessions(call: ToolCall) -> list[RecordInOtherSession | UnreadableRecord]:
    """Load the records that other sessions have of the same call, with their sessions, the oldest first.

    A copy keeps the key of its original and the time of the start.

    Returns:
        The records. One whose rows do not match their seals is a placeholder, and its session is quarantined.
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
    decisions = Decision.objects.filter(kind__in=_DECISIONS, final=True).select_related("tool_call")
    same = same.select_related("session").prefetch_related(
        Prefetch("decisions", decisions.order_by(*Decision.IN_ORDER))
    )
    rows = same.order_by("pk")[:_MAX_SHOWN]
    return convert_rows_or_mark_unreadable(rows, _build_verified_record, "call", attrgetter("session_id"))


def _build_verified_record(call: ToolCall) -> RecordInOtherSession:
    decisions = list(call.decisions.all())
    if get_seal_keys() is not None:
        row_seals.verify_rows([call, *decisions])
    is_decided = call.status not in UNDECIDED_CALL_STATUSES
    return RecordInOtherSession(call, decisions[-1] if decisions and is_decided else None)


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
