"""Status of a session as users see it, and whether a live process drives it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import (
    Q,
    TextChoices,
)
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import RunStatus, SessionStatus
from checkpoints.models import Run


class Standing(TextChoices):
    """Status of a session as users see it, and whether a live process drives it."""

    RUNNING = "running", _("Running")
    STALLED = "stalled", _("Orphaned")
    NEEDS_REVIEW = "needs_review", _("Paused for a decision")
    QUARANTINED = "quarantined", _("Quarantined: altered data")
    READY = "ready", _("Decided, ready to go on")
    PAUSED = "paused", _("Paused")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


_STANDINGS = {standing.value: standing for standing in Standing}
HAS_LIVE_OWNER = Q(owner__lease_expires_at__gt=Now())
_IS_INTACT = Q(quarantined_at=None)
STANDING_CONDITIONS = {
    Standing.RUNNING: Q(status=SessionStatus.ACTIVE) & HAS_LIVE_OWNER & _IS_INTACT,
    Standing.STALLED: Q(status=SessionStatus.ACTIVE)
    & (Q(owner=None) | Q(owner__lease_expires_at__lte=Now()))
    & _IS_INTACT,
    Standing.QUARANTINED: ~_IS_INTACT,
    **{Standing(status): Q(status=status) & _IS_INTACT for status in SessionStatus if status != SessionStatus.ACTIVE},
}


@dataclass(frozen=True, slots=True)
class SessionOwner:
    """Run that owns a session. `alive` tells whether its lease holds by the database's clock."""

    run_id: UUID
    number: int
    status: str
    host: str
    pid: int
    seen_at: datetime
    lease_ends: datetime
    alive: bool

    @property
    def is_waiting(self) -> bool:
        return self.status == RunStatus.WAITING


def get_session_display_status(status: str, alive: bool, quarantined: bool = False) -> Standing | str:
    """How a session with this stored status stands; a status that nobody knows is returned as it is stored."""
    if quarantined:
        return Standing.QUARANTINED
    if status == SessionStatus.ACTIVE:
        return Standing.RUNNING if alive else Standing.STALLED
    return _STANDINGS.get(status, status)


def build_session_owner(run: Run | None, alive: bool) -> SessionOwner | None:
    if run is None:
        return None
    return SessionOwner(
        run_id=run.pk,
        number=run.number,
        status=run.status,
        host=run.host,
        pid=run.pid,
        seen_at=run.heartbeat_at,
        lease_ends=run.lease_expires_at,
        alive=alive,
    )
