"""Whether somebody sees what is secret: masked for everybody, until one who may asks for it, for a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest

from checkpoints import clock
from checkpoints.enums import Role
from checkpoints.models import Workspace
from harness_site.accounts.models import MaskingSettings, Membership
from harness_site.rendering import masking

#: How long secrets are shown to who asked for them.
SHOWN_FOR: Final = timedelta(minutes=10)
#: Where a sign-in remembers it: workspace and end, in seconds since 1970.
_KEY: Final = "secrets_shown"


@dataclass(frozen=True)
class State:
    """For the button: whether its reader may have secrets shown, and until when they are."""

    may_show: bool
    shown_until: datetime | None


def settings_of(workspace: Workspace) -> MaskingSettings:
    """The settings of a workspace; the usual ones, unsaved, where nobody has made any."""
    found: MaskingSettings | None = getattr(workspace, "masking", None)
    return found or MaskingSettings(workspace=workspace)


def rules_of(workspace: Workspace) -> masking.Rules:
    chosen = settings_of(workspace)
    return masking.rules(_lines(chosen.names), _lines(chosen.words), usual=chosen.usual)


def rules_for(request: HttpRequest, member: Membership) -> masking.Rules | None:
    """The rules a member reads under; None while secrets are shown to them."""
    return None if state(request, member).shown_until else rules_of(member.workspace)


def state(request: HttpRequest, member: Membership) -> State:
    may = member.may(Role(settings_of(member.workspace).reveal_role))
    return State(may, _shown_until(request, member) if may else None)


def show(request: HttpRequest, member: Membership) -> None:
    until = (clock.now() + SHOWN_FOR).timestamp()
    request.session[_KEY] = [member.workspace_id, int(until)]


def hide(request: HttpRequest) -> None:
    request.session.pop(_KEY, None)


def _shown_until(request: HttpRequest, member: Membership) -> datetime | None:
    kept: Any = request.session.get(_KEY)
    if not isinstance(kept, list) or kept[0] != member.workspace_id:
        return None
    until = datetime.fromtimestamp(kept[1], UTC)
    return until if until > clock.now() else None


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())
