"""Changes of a user's notification preferences."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.forms.models import model_to_dict
from django.http import HttpRequest

from checkpoints.enums import AuditKind
from harness_site.accounts import record_user_audit_events
from harness_site.notifications.models import Preferences
from harness_site.notifications.recipients import get_usable_account_address


def update_notification_preferences(user: User, wanted: Mapping[str, Any], *, request: HttpRequest) -> Preferences:
    """Save the fields of `Preferences` in `wanted`.

    A new address is stored in `asked_address` until it is confirmed. The audit event names the changed fields.
    """
    with transaction.atomic():
        preferences = Preferences.objects.select_for_update().filter(user=user).first() or Preferences(user=user)
        old_values = model_to_dict(preferences)
        addresses = _compute_confirmed_and_requested_address(preferences, user, wanted["address"])
        for name, value in {**wanted, **addresses}.items():
            setattr(preferences, name, value)
        preferences.save()
        changed_fields = sorted(name for name, value in model_to_dict(preferences).items() if value != old_values[name])
        if changed_fields:
            record_user_audit_events.record_account_event(
                user, AuditKind.NOTIFICATIONS_CHANGED, request=request, fields=changed_fields
            )
    return preferences


def _compute_confirmed_and_requested_address(preferences: Preferences, user: User, typed: str) -> dict[str, str]:
    if typed == preferences.address:
        return {"asked_address": ""}
    if not typed or typed == get_usable_account_address(user):
        return {"address": "", "asked_address": ""}
    return {"address": preferences.address, "asked_address": typed}
