"""Saying that one is on a call, and letting go of it. A claim tells the others; it stops nobody."""

from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest

from checkpoints import clock
from checkpoints.client import SyncCheckpointer
from checkpoints.enums import AuditKind
from checkpoints.models import ToolCall
from checkpoints.saving import revisions
from harness_site.accounts import trail
from harness_site.accounts.models import Membership
from harness_site.review.company import CLAIMED_FOR
from harness_site.review.models import Claim, Presence

#: Whoever decides drops what is older about who looked at what; the audit trail says who read a session.
_KEPT: Final = timedelta(days=1)


def claim(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Be on a call from now on, also in place of somebody else."""
    now = clock.now()
    over = {"member": by, "since": now, "seen_at": now - 2 * CLAIMED_FOR}
    with transaction.atomic():
        Claim.objects.get_or_create(call=call, defaults=over)
        row = Claim.objects.select_for_update(of=("self",)).select_related("member__user").get(call=call)
        living = row.seen_at > now - CLAIMED_FOR
        if living and row.member_id == by.pk:
            return
        Claim.objects.filter(pk=row.pk).update(member=by, since=now, seen_at=now)
        before = {"from_member": row.member.user.get_username()} if living else {}
        _tell(AuditKind.CLAIMED, call, by, request, **before)


def release(call: ToolCall, *, by: Membership, request: HttpRequest) -> None:
    """Let go of a call; nothing where somebody else is on it."""
    with transaction.atomic():
        if Claim.objects.filter(call=call, member=by).delete()[0]:
            _tell(AuditKind.RELEASED, call, by, request)


def release_all(user: User, *, request: HttpRequest) -> None:
    """Let go of everything somebody is on, in every workspace."""
    mine = Claim.objects.filter(member__user=user).select_related("member__user", "member__workspace")
    found = {row.call_id: row.member for row in mine}
    calls = ToolCall.objects.filter(pk__in=found).select_related("session", "workspace")
    for call in calls.order_by("pk"):
        release(call, by=found[call.pk], request=request)


def settle(call: ToolCall, *, by: Membership) -> None:
    """After a decision about a call, nobody need be on it; where others still have to agree, only its author goes."""
    claims = Claim.objects.filter(call=call)
    call.refresh_from_db(fields=["status"])
    (claims.filter(member=by) if call.undecided else claims).delete()
    _forget()


def see(call: ToolCall, *, by: Membership, mine: bool) -> None:
    """The card of a call is open in somebody's browser; `mine` says that they are on it."""
    now = clock.now()
    presence = [Presence(call=call, member=by, seen_at=now)]
    Presence.objects.bulk_create(
        presence, update_conflicts=True, unique_fields=["call", "member"], update_fields=["seen_at"]
    )
    if mine:
        Claim.objects.filter(call=call, member=by, seen_at__gt=now - CLAIMED_FOR).update(seen_at=now)


def _forget() -> None:
    """Drop what is older than anybody asks for."""
    for model in (Presence, Claim):
        model.objects.filter(seen_at__lt=clock.now() - _KEPT).delete()


def _tell(kind: AuditKind, call: ToolCall, by: Membership, request: HttpRequest, **details: Any) -> None:
    """The audit trail, and the pages that are open."""
    about = {"call_id": call.call_id, "step": call.step, **details}
    trail.record(by, kind, request=request, session_pk=call.session_id, **about)
    revisions.touch(SyncCheckpointer(workspace=by.workspace.slug).store, call.session_id)
