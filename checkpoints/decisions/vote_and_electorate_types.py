"""Types of votes, where several people have to agree, and of electorates, which say whose vote a decision is.

The library knows people by name alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from checkpoints.models import Decision


@dataclass(frozen=True, slots=True)
class Vote:
    """Person who took a decision. `counts` is False for somebody who may not decide any more."""

    person: str
    counts: bool = True


#: Function from earlier decisions to the person of each, by the primary key of the decision.
Electorate: TypeAlias = "Callable[[Sequence[Decision]], Mapping[int, Vote]]"


def map_decisions_to_votes_of_actors(decisions: Sequence[Decision]) -> Mapping[int, Vote]:
    """Electorate function of a script: each actor is a person, and each of them counts."""
    return {decision.pk: Vote(decision.actor) for decision in decisions}
