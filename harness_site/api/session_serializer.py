"""Sessions as JSON objects of the API."""

from __future__ import annotations

from typing import Any

from checkpoints.formats.canonical_json import parse_json_or_return_text
from checkpoints.models import Session
from checkpoints.store.database_client_state import Store


def serialize_session(store: Store, session: Session) -> dict[str, Any]:
    """Encode what is known about a session beside its transcript."""
    owner = session.owner
    return {
        "session_id": session.session_id,
        "title": session.title,
        "agent": session.agent,
        "status": session.status,
        "finished": session.finished,
        "quarantined_at": session.quarantined_at,
        "result": None if session.result is None else parse_json_or_return_text(session.result),
        "labels": parse_json_or_return_text(session.labels),
        "metadata": parse_json_or_return_text(session.metadata),
        "version": session.latest_version,
        "message_count": session.message_count,
        "budget_spent_usd": session.budget_spent_usd,
        "cost_basis": session.cost_basis,
        "total_tokens": session.total_tokens,
        "parent_session_id": session.parent_session_id or None,
        "forked_version": session.forked_version,
        "revision": session.revision,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "owner": None
        if owner is None
        else {
            "run_id": owner.pk,
            "number": owner.number,
            "host": owner.host,
            "pid": owner.pid,
            "last_seen": owner.heartbeat_at,
            "lease_ends": owner.lease_expires_at,
        },
    }
