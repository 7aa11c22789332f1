"""Votes: which person a decision counts for (that of a token for its owner), and whether that person may still
decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from checkpoints.decisions.vote_and_electorate_types import Electorate, Vote
from checkpoints.enums import ActorKind, Role
from checkpoints.models import Decision, Workspace
from harness_site.accounts.models import ApiToken, Membership

#: Creator of tokens that belong to no person, see the command `create_token`.
MACHINE_PREFIX: Final = "manage.py "
TOKEN_PREFIX: Final = "token "  # noqa: S105 - the beginning of a name
_MAY_DECIDE: Final = (Role.APPROVER, Role.ADMIN)


def build_eligible_vote_mapper(workspace: Workspace) -> Electorate:
    """Return a function that maps decisions to votes.

    A vote counts if its member is active and may decide. That of a token counts if the token is valid and may decide,
    and its owner, if it has one, may too.
    """
    return partial(_map_decisions_to_votes, workspace)


def get_token_owner_name_or_empty(token: ApiToken) -> str:
    """Return the name of the person a token counts for; empty for a token created on the command line."""
    return "" if token.created_by.startswith(MACHINE_PREFIX) else token.created_by


def _map_decisions_to_votes(workspace: Workspace, decisions: Sequence[Decision]) -> Mapping[int, Vote]:
    if not decisions:
        return {}
    members = Membership.objects.filter(workspace=workspace, user__is_active=True, role__in=_MAY_DECIDE)
    deciders = frozenset(members.values_list("user__username", flat=True))
    any_token_decision = any(decision.actor_kind == ActorKind.TOKEN for decision in decisions)
    tokens = list(ApiToken.objects.filter(workspace=workspace).order_by("pk")) if any_token_decision else []
    return {decision.pk: _build_vote_with_current_eligibility(decision, deciders, tokens) for decision in decisions}


def _build_vote_with_current_eligibility(
    decision: Decision, deciders: frozenset[str], tokens: Sequence[ApiToken]
) -> Vote:
    if decision.actor_kind == ActorKind.PERSON:
        return Vote(decision.actor, counts=decision.actor in deciders)
    if decision.actor_kind != ActorKind.TOKEN:
        return Vote(decision.actor)
    token = _find_token_by_name_at(decision.actor.removeprefix(TOKEN_PREFIX), decision.created_at, tokens)
    if token is None:
        return Vote(decision.actor, counts=False)
    owner = get_token_owner_name_or_empty(token)
    is_valid = token.status == "active" and token.equivalent_member_role in _MAY_DECIDE
    return Vote(owner or decision.actor, counts=is_valid and (not owner or owner in deciders))


def _find_token_by_name_at(name: str, moment: datetime, tokens: Sequence[ApiToken]) -> ApiToken | None:
    """Return the token that had a name at a time; a name is free again after its token is revoked."""
    matching_tokens = [token for token in tokens if token.name == name and token.created_at <= moment]
    return matching_tokens[-1] if matching_tokens else None
