"""Template tags of the account pages: names of browsers, options of passkeys, reasons of a reauthentication."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django import template
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from django.utils.translation import gettext as _

from harness_site.accounts.membership_queries import list_memberships_cached_on_user
from harness_site.accounts.models import Membership
from harness_site.accounts.permissions import find_request_membership
from harness_site.accounts.reauthentication import ReauthenticationReason, build_reauthentication_reason
from harness_site.accounts.second_factor_holders_and_requirements import find_unmet_requirement

register = template.Library()


@register.simple_tag
def reauthentication_reason(request: HttpRequest) -> ReauthenticationReason:
    return build_reauthentication_reason(request)


@register.simple_tag
def unmet_factor_requirement(request: HttpRequest) -> Membership | None:
    """Return the membership of the reader if they lack a second factor that its workspace requires."""
    membership = find_request_membership(request) if request.user.is_authenticated else None
    return membership if membership is not None and find_unmet_requirement(membership) is not None else None


@register.simple_tag
def has_several_workspaces(user: AbstractBaseUser) -> bool:
    """Return whether the user is a member of several workspaces: the name of a single one says nothing."""
    return len(list_memberships_cached_on_user(user)) > 1


@register.filter
def as_json(value: Any) -> str:
    """Dump a value as JSON for a data attribute that a script reads."""
    return json.dumps(value)


@register.filter
def format_browser_and_system_name(user_agent: str) -> str:
    """Format a user agent as “Firefox on Linux”, enough to recognize one's own browser."""
    program = next((label for token, label in _PROGRAMS if token in user_agent), _("Another program"))
    system = next((label for token, label in _SYSTEMS if token in user_agent), "")
    return _("%(program)s on %(system)s") % {"program": program, "system": system} if system else program


@register.filter("last_seen_of")
def get_last_activity_of_member(activity: Mapping[int, datetime], member: Membership) -> datetime | None:
    """Return when a member was last seen, from the result of `load_last_activity_by_user`."""
    return activity.get(member.user_id)


# The order matters: most browsers also claim to be others.
_PROGRAMS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
