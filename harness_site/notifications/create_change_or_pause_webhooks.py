"""Webhooks: create, change, pause, resume and delete them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.db import transaction
from django.db.models.functions import Now
from django.http import HttpRequest

from checkpoints.db import clock
from checkpoints.enums import AuditKind
from harness_site.accounts import encrypt_stored_secrets, generate_and_digest_secrets, record_user_audit_events
from harness_site.accounts.models import Membership
from harness_site.notifications import safe_http
from harness_site.notifications.models import CALL_EVENTS, Delivery, DeliveryStatus, Webhook, WebhookFormat

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
    with transaction.atomic():
        webhook = Webhook.objects.create(
            workspace=by.workspace,
            name=name,
            host=host,
            encrypted_address=encrypt_stored_secrets.encrypt_field(address, purpose=ENCRYPTION_PURPOSE),
            encrypted_secret=encrypt_stored_secrets.encrypt_field(secret, purpose=ENCRYPTION_PURPOSE),
            format=format,
            events=_join_events(events),
            tool_patterns=tool_patterns,
            only_high_risk=only_high_risk,
            created_by=by.user.get_username(),
        )
        record_webhook_event(by, AuditKind.WEBHOOK_CREATED, webhook, request, events=webhook.events)
    return webhook, secret


def update_webhook(
    by: Membership,
    webhook: Webhook,
    *,
    name: str,
    address: str,
    format: WebhookFormat,
    events: Iterable[str],
    tool_patterns: str,
    only_high_risk: bool,
    request: HttpRequest,
) -> frozenset[str]:
    """Change a webhook. Its secret and its log stay, and a paused one stays paused.

    After a change of the address, messages that wait for a further attempt are due at once, and go to the new one. The
    audit entry has the old and the new values; of the address only the host, because the rest may grant access.

    Args:
        by: The admin.
        webhook: The webhook; nothing happens if it was deleted.
        name: New name; so are the other values.
        address: New address; empty to keep the present one.
        format: Format of the messages.
        events: Events that it is told of.
        tool_patterns: Patterns of the tools that it is told of; empty for all.
        only_high_risk: Whether it is told of calls with a high risk alone.
        request: The request, for the audit trail.

    Returns:
        The names of what changed.

    Raises:
        AddressRefused: The form of the address is not valid.
    """
    with transaction.atomic():
        stored = Webhook.objects.select_for_update().filter(pk=webhook.pk).first()
        if stored is None:
            return frozenset()
        before = _collect_recorded_values(stored)
        stored.name, stored.format, stored.events = name, format, _join_events(events)
        stored.tool_patterns, stored.only_high_risk = tool_patterns, only_high_risk
        is_readdressed = bool(address) and address != _decrypt_address(stored)
        if is_readdressed:
            stored.host = safe_http.parse_webhook_url(address).hostname or ""
            stored.encrypted_address = encrypt_stored_secrets.encrypt_field(address, purpose=ENCRYPTION_PURPOSE)
        after = _collect_recorded_values(stored)
        changed_values = {key for key in after if after[key] != before[key]}
        changed_fields = frozenset((changed_values - {"host"}) | ({"address"} if is_readdressed else set()))
        if not changed_fields:
            return changed_fields
        stored.save(update_fields=[*after, "encrypted_address"])
        if is_readdressed:
            _send_waiting_deliveries_to_new_address(stored)
        record_webhook_event(
            by,
            AuditKind.WEBHOOK_CHANGED,
            stored,
            request,
            fields=sorted(changed_fields),
            before={key: before[key] for key in after if key in changed_values},
            after={key: after[key] for key in after if key in changed_values},
        )
    return changed_fields


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


def _join_events(events: Iterable[str]) -> str:
    """Join the names of events in the order of `Event`."""
    names = set(events)
    return ",".join(event for event in CALL_EVENTS if event in names)


def _decrypt_address(webhook: Webhook) -> str:
    return encrypt_stored_secrets.decrypt_field(webhook.encrypted_address, purpose=ENCRYPTION_PURPOSE)


def _collect_recorded_values(webhook: Webhook) -> dict[str, Any]:
    """Return the values of a webhook that may be recorded, by the names of their fields."""
    return {
        "name": webhook.name,
        "host": webhook.host,
        "format": str(webhook.format),
        "events": webhook.events,
        "tool_patterns": webhook.tool_patterns,
        "only_high_risk": webhook.only_high_risk,
    }


def _send_waiting_deliveries_to_new_address(webhook: Webhook) -> None:
    """Name the new host for the waiting deliveries, and make those due that wait because of the old address."""
    waiting = Delivery.objects.filter(webhook=webhook, status=DeliveryStatus.WAITING)
    waiting.update(recipient=webhook.host)
    waiting.filter(notice__send_at__lte=Now(), due_at__gt=Now()).update(due_at=Now())


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
    record_user_audit_events.record_member_event(
        by, kind, request=request, webhook=webhook.name, host=webhook.host, **details
    )
