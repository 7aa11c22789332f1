"""Claims on calls: take, hand over, release and expire them.

A claim informs other reviewers; it blocks nobody.
"""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, Q
from django.http import HttpRequest

from checkpoints.db import clock
from checkpoints.enums import AuditKind
from checkpoints.models import ToolCall
from checkpoints.store import look_up_and_lock_rows
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts import record_user_audit_events
from harness_site.accounts.models import Membership
from harness_site.notifications import notices_between_members
from harness_site.review import load_claims_and_record_presence
from harness_site.review.load_claims_and_record_presence import CLAIMED_FOR, HANDED_FOR
from harness_site.review.models import Claim, Comment


def claim_or_take_over_call(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Claim a call for a member, also in place of somebody else's claim."""
    with transaction.atomic():
        row, is_live = _lock_or_create_claim_with_liveness(call, by)
        if is_live and row.member_id == by.pk:
            return
        now = clock.now()
        Claim.objects.filter(pk=row.pk).update(member=by, since=now, seen_at=now, handed_by="", note="")
        details = {"from_member": row.member.user.get_username()} if is_live else {}
        record_claim_event_and_notify_pages(AuditKind.CLAIMED, call, by, request, **details)


def hand_over_call(
    call: ToolCall, *, by: Membership, to: Membership, note: Comment | None, request: HttpRequest
) -> None:
    """Claim a call for a colleague, who sees who handed it over and the note, and is notified."""
    text, details = (note.text, {"comment": note.pk}) if note else ("", {})
    with transaction.atomic():
        row, _ = _lock_or_create_claim_with_liveness(call, to)
        now = clock.now()
        Claim.objects.filter(pk=row.pk).update(
            member=to, since=now, seen_at=now, handed_by=by.user.get_username(), note=text
        )
        record_claim_event_and_notify_pages(
            AuditKind.HANDED_OVER, call, by, request, to_member=to.user.get_username(), **details
        )
        notices_between_members.create_handover_notice(call, by=by, to=to, note=text)


def _lock_or_create_claim_with_liveness(call: ToolCall, member: Membership) -> tuple[Claim, bool]:
    """Lock the claim on a call, created for `member` as expired if there is none; return it and whether it is live."""
    now = clock.now()
    defaults = {"member": member, "since": now, "seen_at": now - 2 * HANDED_FOR}
    Claim.objects.get_or_create(call=call, defaults=defaults)
    row = Claim.objects.select_for_update(of=("self",)).select_related("member__user").get(call=call)
    return row, row.seen_at > now - (HANDED_FOR if row.handed_by else CLAIMED_FOR)


def release_claim_held_or_handed_over_by_member(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Release the claim on a call that a member holds or has handed over; do nothing about the claim of others."""
    with transaction.atomic():
        is_own = Q(member=by) | Q(handed_by=by.user.get_username())
        if Claim.objects.filter(is_own, call=call).delete()[0]:
            record_claim_event_and_notify_pages(AuditKind.RELEASED, call, by, request)


def release_claims_made_by_user(user: User, *, request: HttpRequest) -> None:
    """Release the claims that a user has made, in every workspace; calls that were handed over to them stay theirs."""
    claims = Claim.objects.filter(member__user=user, handed_by="").select_related("member__user", "member__workspace")
    members_by_call = {row.call_id: row.member for row in claims}
    calls = ToolCall.objects.filter(pk__in=members_by_call).select_related("session", "workspace")
    for call in calls.order_by("pk"):
        release_claim_held_or_handed_over_by_member(call, by=members_by_call[call.pk], request=request)


def reload_statuses_and_remove_claims(calls: Sequence[ToolCall], *, by: Membership) -> None:
    """Remove the claims on calls about which a member has decided, and load the statuses of the calls again.

    A hand-over expires instead, so that it can come back if the decision is withdrawn. If more approvals are needed,
    only the member's own claim is removed.
    """
    _reload_statuses(calls)
    decided = Claim.objects.filter(call__in=[call.pk for call in calls if not call.undecided])
    is_live_handover = Q(handed_by__gt="", seen_at__gt=clock.now() - HANDED_FOR)
    decided.exclude(is_live_handover).delete()
    decided.update(seen_at=F("seen_at") - HANDED_FOR)
    Claim.objects.filter(call__in=[call.pk for call in calls if call.undecided], member=by).delete()
    load_claims_and_record_presence.delete_stale_claims_presence_and_comments()


def restore_handovers_after_withdrawal(calls: Sequence[ToolCall]) -> None:
    """Bring back the hand-overs of calls that were decided and whose decision has been withdrawn, for the time that
    they had left. The statuses of the calls are those from before, and are loaded again."""
    decided_calls = [call for call in calls if not call.undecided]
    _reload_statuses(decided_calls)
    handovers = Claim.objects.filter(handed_by__gt="", call__in=[call.pk for call in decided_calls if call.undecided])
    expired_since = clock.now() - HANDED_FOR
    handovers.filter(seen_at__lte=expired_since).update(seen_at=F("seen_at") + HANDED_FOR)


def _reload_statuses(calls: Sequence[ToolCall]) -> None:
    statuses = dict(ToolCall.objects.filter(pk__in=[call.pk for call in calls]).values_list("pk", "status"))
    for call in calls:
        call.status = statuses.get(call.pk, call.status)


def record_claim_event_and_notify_pages(
    kind: AuditKind, call: ToolCall, by: Membership, request: HttpRequest, **details: Any
) -> None:
    """Record a claim event in the audit trail and notify open pages."""
    event_details = {"call_id": call.call_id, "step": call.step, **details}
    record_user_audit_events.record_member_event(by, kind, request=request, session_pk=call.session_id, **event_details)
    look_up_and_lock_rows.increment_session_revision(
        SyncCheckpointer(workspace=by.workspace.slug).store, call.session_id
    )
