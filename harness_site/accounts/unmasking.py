"""Temporary unmasking of secrets for one user, who has asked for it and is permitted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest

from checkpoints.db import clock
from checkpoints.enums import Role
from harness_site.accounts import load_masking_rules
from harness_site.accounts.models import Membership
from harness_site.core.masking import masker

#: Duration for which secrets are displayed after a request.
SHOWN_FOR: Final = timedelta(minutes=10)
#: Key in the user session: workspace, and end in seconds since 1970.
_KEY: Final = "secrets_shown"


@dataclass(frozen=True)
class UnmaskingState:
    """State of the button: whether the reader may unmask, the lowest `role` that may, and until when it does."""

    may_show: bool
    role: Role
    shown_until: datetime | None


def get_masking_rules_unless_unmasked(request: HttpRequest, member: Membership) -> masker.MaskingRules | None:
    """Return the masking rules for a member, or None while secrets are displayed to them."""
    return (
        None
        if get_unmasking_state(request, member).shown_until
        else load_masking_rules.load_workspace_masking_rules(member.workspace)
    )


def get_unmasking_state(request: HttpRequest, member: Membership) -> UnmaskingState:
    role = Role(load_masking_rules.load_masking_settings_or_defaults(member.workspace).reveal_role)
    is_permitted = member.has_role(role)
    return UnmaskingState(is_permitted, role, _find_unmasking_end(request, member) if is_permitted else None)


def start_unmasking(request: HttpRequest, member: Membership) -> None:
    end = (clock.now() + SHOWN_FOR).timestamp()
    request.session[_KEY] = [member.workspace_id, int(end)]


def stop_unmasking(request: HttpRequest) -> None:
    request.session.pop(_KEY, None)


def _find_unmasking_end(request: HttpRequest, member: Membership) -> datetime | None:
    stored: Any = request.session.get(_KEY)
    if not isinstance(stored, list) or stored[0] != member.workspace_id:
        return None
    end = datetime.fromtimestamp(stored[1], UTC)
    return end if end > clock.now() else None
