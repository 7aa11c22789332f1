"""People behind decisions, and whether a decision still counts if several people have to agree.

The library knows people by name alone. A site with accounts gives its actors an electorate function, which is called in
the transaction of each decision about a call that needs several people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from checkpoints.models import Decision


@dataclass(frozen=True, slots=True)
class Voice:
    """Person who took a decision. `counts` is False for somebody who may not decide any more."""

    person: str
    counts: bool = True


#: Function from earlier decisions to the person of each, by the primary key of the decision.
Electorate: TypeAlias = Callable[[Sequence[Decision]], Mapping[int, Voice]]


def count_everybody(decisions: Sequence[Decision]) -> Mapping[int, Voice]:
    """Electorate function of a script: each actor is a person, and each of them counts."""
    return {decision.pk: Voice(decision.actor) for decision in decisions}
