"""Readings of sessions with a token, which the audit trail records as it records those of people."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from django.http import HttpRequest

from checkpoints.audit import append_events
from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.formats.canonical import parse_or_text
from checkpoints.models import AuditEvent, Session
from checkpoints.store.store import Store
from harness_site.accounts.api_tokens import build_token_actor
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.audit.session_read_events import ONCE_IN


def record_reading(request: HttpRequest, session: Session, kind: AuditKind = AuditKind.VIEWED, **details: Any) -> None:
    """Record that a token reads a session, once in a while. An agent's reading of its own work is not recorded."""
    token: ApiToken = request.token  # type: ignore[attr-defined]
    if token.role == TokenRole.AGENT:
        return
    name = build_token_actor(token).name
    recent = AuditEvent.objects.filter(
        actor=name,
        actor_kind=ActorKind.TOKEN,
        kind=kind,
        session=session.pk,
        created_at__gt=clock.now() - ONCE_IN,
    )
    if kind == AuditKind.VIEWED and recent.exists():
        return
    append_events.append_event_for_sessions(
        "default",
        token.workspace_id,
        kind,
        [session.pk],
        actor=name,
        actor_kind=ActorKind.TOKEN,
        details={**details, "address": get_adapter().get_client_ip(request)},
    )


def encode_session(store: Store, session: Session) -> dict[str, Any]:
    """Encode what is known about a session beside its transcript."""
    owner = session.owner
    return {
        "session_id": session.session_id,
        "title": session.title,
        "agent": session.agent,
        "status": session.status,
        "finished": session.finished,
        "quarantined_at": session.quarantined_at,
        "result": None if session.result is None else parse_or_text(session.result),
        "labels": parse_or_text(session.labels),
        "metadata": parse_or_text(session.metadata),
        "version": session.latest_version,
        "message_count": session.message_count,
        "budget_spent_usd": session.budget_spent_usd,
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
