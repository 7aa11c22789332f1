"""Claims on calls: take, release and expire them. A claim informs other reviewers; it blocks nobody."""

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest

from checkpoints.client import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.enums import AuditKind
from checkpoints.models import ToolCall
from checkpoints.store import change_numbers
from harness_site.accounts import audit_events
from harness_site.accounts.models import Membership
from harness_site.review.models import Claim, Presence
from harness_site.review.presence import CLAIMED_FOR

#: Retention of claims and presence rows; the audit trail records who has read a session.
_KEPT: Final = timedelta(days=1)


def claim_call(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Claim a call for a member, also in place of somebody else's claim."""
    now = clock.now()
    defaults = {"member": by, "since": now, "seen_at": now - 2 * CLAIMED_FOR}
    with transaction.atomic():
        Claim.objects.get_or_create(call=call, defaults=defaults)
        row = Claim.objects.select_for_update(of=("self",)).select_related("member__user").get(call=call)
        is_live = row.seen_at > now - CLAIMED_FOR
        if is_live and row.member_id == by.pk:
            return
        Claim.objects.filter(pk=row.pk).update(member=by, since=now, seen_at=now)
        details = {"from_member": row.member.user.get_username()} if is_live else {}
        _record_claim_event(AuditKind.CLAIMED, call, by, request, **details)


def release_claim(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Release a member's claim on a call; do nothing if somebody else holds it."""
    with transaction.atomic():
        if Claim.objects.filter(call=call, member=by).delete()[0]:
            _record_claim_event(AuditKind.RELEASED, call, by, request)


def release_all_claims(user: User, *, request: HttpRequest) -> None:
    """Release all claims of a user in every workspace."""
    claims = Claim.objects.filter(member__user=user).select_related("member__user", "member__workspace")
    members_by_call = {row.call_id: row.member for row in claims}
    calls = ToolCall.objects.filter(pk__in=members_by_call).select_related("session", "workspace")
    for call in calls.order_by("pk"):
        release_claim(call, by=members_by_call[call.pk], request=request)


def remove_claims_after_decision(call: ToolCall, *, by: Membership) -> None:
    """Remove the claims on a decided call; if more approvals are needed, only the member's own claim."""
    claims = Claim.objects.filter(call=call)
    call.refresh_from_db(fields=["status"])
    (claims.filter(member=by) if call.undecided else claims).delete()
    _delete_old_presence()


def record_card_presence(call: ToolCall, *, by: Membership, mine: bool) -> None:
    """Record that a member has the card of a call open; `mine` also extends their claim."""
    now = clock.now()
    presence = [Presence(call=call, member=by, seen_at=now)]
    Presence.objects.bulk_create(
        presence, update_conflicts=True, unique_fields=["call", "member"], update_fields=["seen_at"]
    )
    if mine:
        Claim.objects.filter(call=call, member=by, seen_at__gt=now - CLAIMED_FOR).update(seen_at=now)


def _delete_old_presence() -> None:
    """Delete claims and presence rows past their retention."""
    for model in (Presence, Claim):
        model.objects.filter(seen_at__lt=clock.now() - _KEPT).delete()


def _record_claim_event(kind: AuditKind, call: ToolCall, by: Membership, request: HttpRequest, **details: Any) -> None:
    """Record a claim event in the audit trail and notify open pages."""
    event_details = {"call_id": call.call_id, "step": call.step, **details}
    audit_events.record_member_event(by, kind, request=request, session_pk=call.session_id, **event_details)
    change_numbers.bump_revision(SyncCheckpointer(workspace=by.workspace.slug).store, call.session_id)
