"""Actors: a person with a role, a token, a hook, or the machine itself.

The library knows people by name alone. Where several people have to agree, a site with accounts gives its actors an
electorate function, which is called in the transaction of each decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from checkpoints.decisions.vote_and_electorate_types import Electorate, map_decisions_to_votes_of_actors
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import InvalidInput, NotPermitted

if TYPE_CHECKING:
    pass

_DECIDING_ROLES = frozenset({Role.APPROVER, Role.ADMIN})


@dataclass(frozen=True)
class Actor:
    """Person, token, verify hook or machine that acts, as decisions and the audit trail name it.

    Attributes:
        kind: Kind of the actor. A person or token needs a role to decide.
        name: Name in decisions and in the audit trail, at most 255 characters.
        role: Role in the workspace. None may not decide, unless the actor is a hook or the machine.
        owner: Name of the person whose token it is: where several people have to agree, both are one of them.
        electorate: Function that maps earlier decisions to the people who took them and tells which of them still
        count.
            Without it each actor is a person of its own.
        address: IP address from which the actor acts, for the audit trail. Empty if it is not known, as in a script.
    """

    kind: ActorKind
    name: str
    role: Role | None = None
    owner: str = ""
    electorate: Electorate = field(default=map_decisions_to_votes_of_actors, compare=False, repr=False)
    address: str = field(default="", compare=False)

    @property
    def person(self) -> str:
        """Name of the person the actor acts for."""
        return self.owner or self.name

    @property
    def audit_details(self) -> dict[str, str]:
        """Details of the actor for an entry of the audit trail, besides the name and the kind."""
        return {"address": self.address} if self.address else {}

    def require_may_decide(self, action: str) -> None:
        """Check that the actor may decide.

        Args:
            action: What the actor is about to do, for the error message.

        Raises:
            NotPermitted: The actor is a person or token without the role of an approver or admin.
        """
        if self.kind in {ActorKind.PERSON, ActorKind.TOKEN} and self.role not in _DECIDING_ROLES:
            raise NotPermitted(self.name, action)

    def require_admin(self, action: str) -> None:
        """Check that the actor is an admin.

        Args:
            action: What the actor is about to do, for the error message.

        Raises:
            NotPermitted: The actor is something else than an admin.
        """
        if self.role is not Role.ADMIN:
            raise NotPermitted(self.name, action)


def to_actor(actor: object) -> Actor:
    """Return an actor for a script's argument.

    A bare name is a person who approves, since a script that can write to the database already may.
    """
    if isinstance(actor, Actor):
        return actor
    if not isinstance(actor, str) or not actor.strip():
        raise InvalidInput("A decision needs an actor: the name of the person who makes it.")
    return Actor(ActorKind.PERSON, actor[:255], Role.APPROVER)


def build_hook_actor(tool: str) -> Actor:
    return Actor(ActorKind.HOOK, f"verify hook of {tool}"[:255])


MACHINE = Actor(ActorKind.MACHINE, "gate")
