"""Whose voice a decision is, and whether it still counts where several people have to agree.

The library knows people by name alone. Whoever has accounts gives its actors an electorate, which is asked in the
transaction of each decision about a call that takes several people.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from checkpoints.models import Decision


@dataclass(frozen=True, slots=True)
class Voice:
    """The person who speaks in a decision. `counts` is False for somebody who may not decide any more."""

    person: str
    counts: bool = True


#: Primary key of each decision → its voice.
Electorate: TypeAlias = Callable[[Sequence[Decision]], Mapping[int, Voice]]


def everybody(decisions: Sequence[Decision]) -> Mapping[int, Voice]:
    """The electorate of a script: each actor is a person, and each of them counts."""
    return {decision.pk: Voice(decision.actor) for decision in decisions}
