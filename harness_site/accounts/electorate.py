"""Whose voice a decision is on this site, and whether its person may still decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from checkpoints.enums import ActorKind, Role
from checkpoints.models import Decision, Workspace
from checkpoints.resuming.electorate import Electorate, Voice
from harness_site.accounts.models import ApiToken, Membership

#: Who made a token that belongs to no person, see the command `create_token`.
MACHINE_PREFIX: Final = "manage.py "
TOKEN_PREFIX: Final = "token "  # noqa: S105 - the beginning of a name
_MAY_DECIDE: Final = (Role.APPROVER, Role.ADMIN)


def electorate_of(workspace: Workspace) -> Electorate:
    """The electorate of a workspace: active members who may decide, and tokens for approving with their owners."""
    return partial(_voices, workspace)


def owner_of(token: ApiToken) -> str:
    """The name of the person whose voice a token has; empty for one that the installation made for itself."""
    return "" if token.created_by.startswith(MACHINE_PREFIX) else token.created_by


def _voices(workspace: Workspace, decisions: Sequence[Decision]) -> Mapping[int, Voice]:
    if not decisions:
        return {}
    members = Membership.objects.filter(workspace=workspace, user__is_active=True, role__in=_MAY_DECIDE)
    deciding = frozenset(members.values_list("user__username", flat=True))
    made_by_tokens = any(decision.actor_kind == ActorKind.TOKEN for decision in decisions)
    tokens = list(ApiToken.objects.filter(workspace=workspace).order_by("pk")) if made_by_tokens else []
    return {decision.pk: _voice(decision, deciding, tokens) for decision in decisions}


def _voice(decision: Decision, deciding: frozenset[str], tokens: Sequence[ApiToken]) -> Voice:
    if decision.actor_kind == ActorKind.PERSON:
        return Voice(decision.actor, counts=decision.actor in deciding)
    if decision.actor_kind != ActorKind.TOKEN:
        return Voice(decision.actor)
    token = _token(decision.actor.removeprefix(TOKEN_PREFIX), decision.created_at, tokens)
    if token is None:
        return Voice(decision.actor, counts=False)
    owner = owner_of(token)
    holds = token.status == "active" and token.member_role in _MAY_DECIDE
    return Voice(owner or decision.actor, counts=holds and (not owner or owner in deciding))


def _token(name: str, at: datetime, tokens: Sequence[ApiToken]) -> ApiToken | None:
    """The token that had a name at a moment: a name is free again once its token is revoked."""
    named = [token for token in tokens if token.name == name and token.created_at <= at]
    return named[-1] if named else None
