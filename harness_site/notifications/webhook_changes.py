"""Webhooks: create, pause, resume and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.db import transaction
from django.http import HttpRequest

from checkpoints.db import clock
from checkpoints.enums import AuditKind
from harness_site.accounts import audit_events, field_encryption, generate_and_digest_secrets
from harness_site.accounts.models import Membership
from harness_site.notifications import safe_http
from harness_site.notifications.models import CALL_EVENTS, Webhook, WebhookFormat

_PREFIX: Final = "whsec"
#: Purpose from which the keys that encrypt addresses and secrets are derived.
ENCRYPTION_PURPOSE: Final = "webhooks"


def create_webhook_with_secret(
    by: Membership,
    *,
    name: str,
    address: str,
    format: WebhookFormat,
    events: Iterable[str],
    tool_patterns: str = "",
    only_high_risk: bool = False,
    request: HttpRequest,
) -> tuple[Webhook, str]:
    """Create a webhook and return it with its signing secret. Raises `AddressRefused`."""
    host = safe_http.parse_webhook_url(address).hostname or ""
    secret = generate_and_digest_secrets.generate_secret(_PREFIX)
    event_names = set(events)
    with transaction.atomic():
        webhook = Webhook.objects.create(
            workspace=by.workspace,
            name=name,
            host=host,
            encrypted_address=field_encryption.encrypt_field(address, purpose=ENCRYPTION_PURPOSE),
            encrypted_secret=field_encryption.encrypt_field(secret, purpose=ENCRYPTION_PURPOSE),
            format=format,
            events=",".join(event for event in CALL_EVENTS if event in event_names),
            tool_patterns=tool_patterns,
            only_high_risk=only_high_risk,
            created_by=by.user.get_username(),
        )
        record_webhook_event(by, AuditKind.WEBHOOK_CREATED, webhook, request, events=webhook.events)
    return webhook, secret


def pause_webhook(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """Pause a webhook: its deliveries wait. Do nothing if it is paused already."""
    _set_webhook_paused(by, webhook, AuditKind.WEBHOOK_PAUSED, request, paused=True)


def resume_webhook(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """Resume a webhook: waiting deliveries are sent unless their calls have been decided."""
    _set_webhook_paused(by, webhook, AuditKind.WEBHOOK_RESUMED, request, paused=False)


def delete_webhook(by: Membership, webhook: Webhook, *, request: HttpRequest) -> None:
    """Delete a webhook and its delivery log."""
    with transaction.atomic():
        if webhook.delete()[0]:
            record_webhook_event(by, AuditKind.WEBHOOK_DELETED, webhook, request)


def _set_webhook_paused(
    by: Membership, webhook: Webhook, kind: AuditKind, request: HttpRequest, *, paused: bool
) -> None:
    with transaction.atomic():
        matching_webhooks = Webhook.objects.filter(pk=webhook.pk, paused_at__isnull=paused)
        if matching_webhooks.update(paused_at=clock.now() if paused else None):
            record_webhook_event(by, kind, webhook, request)


def record_webhook_event(
    by: Membership, kind: AuditKind, webhook: Webhook, request: HttpRequest, **details: Any
) -> None:
    """Record an event of a member about a webhook in the audit trail."""
    audit_events.record_member_event(by, kind, request=request, webhook=webhook.name, host=webhook.host, **details)
