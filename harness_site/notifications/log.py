"""The log of deliveries: the read side of the settings pages, and taking up what was given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Count
from django.db.models.functions import Now
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from harness_site.accounts import trail
from harness_site.accounts.models import Membership
from harness_site.notifications.models import Delivery, DeliveryStatus

PAGE: Final = 50
RECENT: Final = 10


@dataclass(frozen=True)
class LogPage:
    """The newest first. `before` is where the next page starts."""

    rows: tuple[Delivery, ...]
    before: UUID | None


def page(
    workspace: int, *, status: DeliveryStatus | None = None, before: UUID | None = None, size: int = PAGE
) -> LogPage:
    found = Delivery.objects.filter(notice__workspace=workspace)
    if status is not None:
        found = found.filter(status=status)
    if before is not None:
        found = found.filter(pk__lt=before)
    rows = found.select_related("notice", "webhook", "user").order_by("-pk")[: size + 1]
    read = list(rows.annotate(calls=Count("notice__noticed")))
    shown = tuple(read[:size])
    return LogPage(shown, shown[-1].pk if len(read) > size else None)


def recent(workspace: int) -> LogPage:
    """The beginning of the log."""
    return page(workspace, size=RECENT)


def take_up(by: Membership, pk: UUID, *, request: HttpRequest) -> bool:
    """Let a message that was given up be sent again. False where this workspace has no such message."""
    with transaction.atomic():
        found = Delivery.objects.filter(pk=pk, notice__workspace=by.workspace_id)
        given_up = found.filter(status=DeliveryStatus.GIVEN_UP)
        if given_up.update(status=DeliveryStatus.WAITING, attempts=0, due_at=Now()):
            trail.record(by, AuditKind.MESSAGE_RETRIED, request=request, message=str(pk))
        return found.exists()
