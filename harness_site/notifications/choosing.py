"""What somebody chooses to be told, and where."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from harness_site.accounts import trail
from harness_site.notifications.models import Preferences
from harness_site.notifications.recipients import account_address


def choose(user: User, wanted: Mapping[str, Any], *, request: HttpRequest) -> Preferences:
    """Keep the fields of `Preferences` in `wanted`. An address that is new waits in `asked_address` until it is
    confirmed. The audit trail gets the names of what changed."""
    with transaction.atomic():
        kept = Preferences.objects.select_for_update().filter(user=user).first() or Preferences(user=user)
        before = model_to_dict(kept)
        for name, value in {**wanted, **_addresses(kept, user, wanted["address"])}.items():
            setattr(kept, name, value)
        kept.save()
        changed = sorted(name for name, value in model_to_dict(kept).items() if value != before[name])
        if changed:
            trail.personal(user, AuditKind.NOTIFICATIONS_CHANGED, request=request, fields=changed)
    return kept


def _addresses(kept: Preferences, user: User, typed: str) -> dict[str, str]:
    if typed == kept.address:
        return {"asked_address": ""}
    if not typed or typed == account_address(user):
        return {"address": "", "asked_address": ""}
    return {"address": kept.address, "asked_address": typed}
