"""Display status of a session: the status that users see, which also says whether a live process drives it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import BooleanField, Case, Exists, OuterRef, Q, Subquery, TextChoices, Value, When
from django.db.models.functions import Coalesce, Now
from django.db.models.lookups import Exact
from django.utils.translation import gettext_lazy as _

from checkpoints.enums import IMPORTED_RUN_HOST, RunStatus, SessionStatus
from checkpoints.models import Run


class DisplayStatus(TextChoices):
    """Status of a session as users see it, and whether a live process drives it.

    A session that no process drives is orphaned if its last run was lost, and idle if that run ended in order.
    """

    RUNNING = "running", _("Running")
    STALLED = "stalled", _("Orphaned")
    IDLE = "idle", _("Idle")
    NEEDS_REVIEW = "needs_review", _("Paused for a decision")
    QUARANTINED = "quarantined", _("Quarantined: altered data")
    READY = "ready", _("Decided, ready to resume")
    PAUSED = "paused", _("Paused")
    COMPLETED = "completed", _("Completed")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


_DISPLAY_STATUSES = {display_status.value: display_status for display_status in DisplayStatus}
HAS_LIVE_OWNER = Q(owner__lease_expires_at__gt=Now())
#: Status of the run with the highest number; empty if the session has none.
LAST_RUN_STATUS = Coalesce(
    Subquery(Run.objects.filter(session=OuterRef("pk")).order_by("-number").values("status")[:1]), Value("")
)
#: The first condition alone suffices for most sessions, and an index has it. The second one reads a run of the session.
LAST_RUN_WAS_LOST = Q(
    Exists(Run.objects.filter(session=OuterRef("pk"), status=RunStatus.LOST)),
    Exact(LAST_RUN_STATUS, RunStatus.LOST.value),
)
#: An imported transcript ended although a call has no result in it: it is stored as cancelled, but nobody cancelled it.
ENDED_WITHOUT_RESULT = Case(
    When(
        status=SessionStatus.CANCELLED,
        then=Exists(Run.objects.filter(session=OuterRef("pk"), status=RunStatus.CANCELLED, host=IMPORTED_RUN_HOST)),
    ),
    default=Value(False),
    output_field=BooleanField(),
)
_IS_INTACT = Q(quarantined_at=None)
DISPLAY_STATUS_CONDITIONS = {
    DisplayStatus.RUNNING: Q(status=SessionStatus.ACTIVE) & HAS_LIVE_OWNER & _IS_INTACT,
    DisplayStatus.STALLED: Q(status=SessionStatus.ACTIVE)
    & (Q(owner__lease_expires_at__lte=Now()) | (Q(owner=None) & LAST_RUN_WAS_LOST))
    & _IS_INTACT,
    DisplayStatus.IDLE: Q(status=SessionStatus.ACTIVE, owner=None) & ~LAST_RUN_WAS_LOST & _IS_INTACT,
    DisplayStatus.QUARANTINED: ~_IS_INTACT,
    **{
        DisplayStatus(status): Q(status=status) & _IS_INTACT
        for status in SessionStatus
        if status != SessionStatus.ACTIVE
    },
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

    @property
    def is_imported(self) -> bool:
        """Return whether the run was read from a transcript, so that no process of this library drives it."""
        return self.host == IMPORTED_RUN_HOST and not self.pid


def derive_session_display_status(
    status: str, *, alive: bool, orphaned: bool = False, quarantined: bool = False
) -> DisplayStatus | str:
    """Return the status that users see; a status that nobody knows is returned as it is stored.

    Args:
        status: Stored status of the session.
        alive: Whether a live run owns the session.
        orphaned: Whether a dead run owns it, or its last run was lost.
        quarantined: Whether the session is quarantined.
    """
    if quarantined:
        return DisplayStatus.QUARANTINED
    if status == SessionStatus.ACTIVE and alive:
        return DisplayStatus.RUNNING
    if status == SessionStatus.ACTIVE:
        return DisplayStatus.STALLED if orphaned else DisplayStatus.IDLE
    return _DISPLAY_STATUSES.get(status, status)


def build_session_owner_of_run(run: Run | None, alive: bool) -> SessionOwner | None:
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
