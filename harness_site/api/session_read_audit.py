"""Readings of sessions with a token, which the audit trail records as it records those of people."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent, Session
from harness_site.accounts.api_tokens import build_token_actor
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.accounts.record_user_audit_events import find_client_address
from harness_site.audit.session_read_audit_middleware import ONCE_IN


def record_session_read_unless_recent_or_agent(
    request: HttpRequest, session: Session, kind: AuditKind = AuditKind.VIEWED, **details: Any
) -> None:
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
    insert_unchained_events.record_event_for_each_session(
        "default",
        token.workspace_id,
        kind,
        [session.pk],
        actor=name,
        actor_kind=ActorKind.TOKEN,
        details={**details, "address": find_client_address(request)},
    )
