"""Log of deliveries: queries for the settings pages, and retry of deliveries that were given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, Case, Count, OuterRef, QuerySet, Subquery, When
from django.db.models.functions import Now
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.models import Membership
from harness_site.notifications.models import Delivery, DeliveryStatus, Webhook

PAGE: Final = 50
RECENT: Final = 10


@dataclass(frozen=True)
class DeliveryLogPage:
    """Page of the log, newest first. `before` is the key to continue before (None at the end)."""

    rows: tuple[Delivery, ...]
    before: UUID | None


def load_delivery_log_page(
    workspace: int, *, status: DeliveryStatus | None = None, before: UUID | None = None, size: int = PAGE
) -> DeliveryLogPage:
    deliveries = Delivery.objects.filter(notice__workspace=workspace)
    if status is not None:
        deliveries = deliveries.filter(status=status)
    if before is not None:
        deliveries = deliveries.filter(pk__lt=before)
    rows = deliveries.select_related("notice", "webhook", "user").order_by("-pk")[: size + 1]
    page_rows = list(rows.annotate(calls=Count("notice__noticed")))
    page = tuple(page_rows[:size])
    return DeliveryLogPage(page, page[-1].pk if len(page_rows) > size else None)


def query_webhooks_with_last_attempt(workspace: int) -> QuerySet[Webhook]:
    """Select the webhooks by name.

    Each has the attributes `attempted_at`, `is_failing`, `attempt_problem` and `attempt_problem_values` of its last
    attempt to deliver a message; the first is None before there is one.
    """
    attempts = Delivery.objects.filter(webhook=OuterRef("pk"), attempted_at__isnull=False)
    last = attempts.exclude(status=DeliveryStatus.NOT_NEEDED).order_by("-attempted_at")
    fails = Case(When(status=DeliveryStatus.SENT, then=False), default=True, output_field=BooleanField())
    return (
        Webhook.objects.filter(workspace=workspace)
        .annotate(
            attempted_at=Subquery(last.values("attempted_at")[:1]),
            is_failing=Subquery(last.values(fails=fails)[:1]),
            attempt_problem=Subquery(last.values("problem")[:1]),
            attempt_problem_values=Subquery(last.values("problem_values")[:1]),
        )
        .order_by("name", "pk")
    )


def load_first_delivery_log_page(workspace: int) -> DeliveryLogPage:
    """Load the first page of the log."""
    return load_delivery_log_page(workspace, size=RECENT)


def requeue_given_up_delivery(by: Membership, pk: UUID, *, request: HttpRequest) -> bool:
    """Queue a delivery again that was given up; return False if this workspace has no such delivery."""
    with transaction.atomic():
        deliveries = Delivery.objects.filter(pk=pk, notice__workspace=by.workspace_id)
        given_up_deliveries = deliveries.filter(status=DeliveryStatus.GIVEN_UP)
        if given_up_deliveries.update(status=DeliveryStatus.WAITING, attempts=0, due_at=Now()):
            record_user_audit_events.record_member_event(
                by, AuditKind.MESSAGE_RETRIED, request=request, message=str(pk)
            )
        return deliveries.exists()
