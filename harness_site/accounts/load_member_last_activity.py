"""When people of a workspace last used its pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from allauth.usersessions.models import UserSession
from django.db.models import Max

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.models import AuditEvent
from harness_site.accounts.models import Membership

#: Number of the newest entries of the audit trail that are read. Which people one entry is of has no index.
_READ_ENTRIES: Final = 2_000
#: What only an entry of a request has: a program that records decisions under the name of a person has no address.
_ADDRESS_OF_REQUEST: Final = '"address":'


def load_last_activity_by_user(workspace: int, members: Iterable[Membership]) -> dict[int, datetime]:
    """Load when each member was last seen, by key of the user; those who never were are left out.

    That is the last open page of a sign-in, the last sign-in, or the last of the newest entries of the audit trail: the
    record of a sign-in goes away when it ends.
    """
    members = list(members)
    user_pks = [member.user_id for member in members]
    sign_ins = UserSession.objects.filter(user__in=user_pks).values_list("user").annotate(last=Max("last_seen_at"))
    seen_on_pages: dict[int, datetime] = dict(sign_ins)
    recorded = _load_time_of_last_recorded_request_by_name(workspace)
    activity: dict[int, datetime] = {}
    for member in members:
        moments = (seen_on_pages.get(member.user_id), member.user.last_login, recorded.get(member.user.get_username()))
        if known := [moment for moment in moments if moment is not None]:
            activity[member.user_id] = max(known)
    return activity


def _load_time_of_last_recorded_request_by_name(workspace: int) -> dict[str, datetime]:
    """Load when each person last did something that the audit trail records, from its newest entries."""
    columns = ("actor_kind", "kind", "actor", "details", "created_at")
    entries = AuditEvent.objects.filter(workspace=workspace).order_by("-pk").values_list(*columns)
    last: dict[str, datetime] = {}
    for actor_kind, kind, actor, details, created_at in entries[:_READ_ENTRIES]:
        # A failed sign-in need not be of that person.
        if actor_kind == ActorKind.PERSON and kind != AuditKind.SIGN_IN_FAILED and _ADDRESS_OF_REQUEST in details:
            last[actor] = max(created_at, last.get(actor, created_at))
    return last
