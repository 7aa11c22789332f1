"""Paginated list of the calls of a workspace that wait for a decision, as dictionaries.

Each entry has a `cursor`; the cursor of the last one, passed as `after`, returns the next page.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from django.db.models import F

from checkpoints.calls import convert_calls_to_dicts, unfinished_call_queries
from checkpoints.db import keyset_pagination
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import UNDECIDED_CALL_STATUSES, CallStatus
from checkpoints.generate_and_validate_ids import validate_integer
from checkpoints.models import ToolCall
from checkpoints.store.database_client_state import Store


def list_calls_awaiting_decision(
    store: Store, *, agent: str | None = None, after: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """List the calls of all sessions of the workspace that wait for a person, oldest first. Raises `InvalidInput`."""
    keyset_pagination.validate_page_limit(limit)
    with database_operation(store.using, writes=False):
        known_calls = ToolCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id, status__in=sorted(UNDECIDED_CALL_STATUSES)
        )
        calls: list[ToolCall] = []
        for part in (known_calls, unfinished_call_queries.select_issued_mutating_calls_of_lost_runs(store)):
            if agent is not None:
                part = part.filter(session__agent=agent.replace("\0", ""))
            if after is not None:
                # A sum, for the reason given in `keyset_pagination.build_newest_first_ordering`.
                part = part.alias(key=F("pk") + 0).filter(key__gt=validate_integer("after", after))
            calls += part.select_related("session", "run").order_by(keyset_pagination.build_oldest_first_ordering())[
                :limit
            ]
        page = sorted(calls, key=attrgetter("pk"))[:limit]
        reasons = convert_calls_to_dicts.load_verify_hook_unknown_reasons(store, page)
        return [_undecided_call_to_dict(call, reasons.get(call.pk)) for call in page]


def _undecided_call_to_dict(call: ToolCall, verify_reason: str | None) -> dict[str, Any]:
    waits_since = call.interrupted_at if call.status == CallStatus.INTERRUPTED else call.issued_at
    return {
        **convert_calls_to_dicts.call_to_dict(call, verify_reason=verify_reason),
        "session_id": call.session.session_id,
        "agent": call.session.agent,
        "sentence": call.sentence,
        "risk": call.risk,
        "waits_since": None if waits_since is None else waits_since.isoformat(),
        "deadline": None if call.deadline is None else call.deadline.isoformat(),
        "cursor": call.pk,
    }
