"""Equal answers of verify hooks in a row, which are shown as one with their number."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Protocol, TypeVar

from checkpoints.enums import DecisionKind


class RecordedDecision(Protocol):
    """A decision about a call, which may be the answer of a verify hook."""

    @property
    def kind(self) -> str: ...

    @property
    def actor(self) -> str: ...

    @property
    def reason(self) -> str: ...


D = TypeVar("D", bound=RecordedDecision)


def fold_repeated_hook_answers(decisions: Iterable[D], *, are_reasons_shown: bool) -> list[tuple[D, int]]:
    """Return the decisions in order, each with 1, but of answers in a row that a hook could not tell the last one.

    Args:
        decisions: Decisions about one call, oldest first.
        are_reasons_shown: Whether answers with different reasons are different.

    Returns:
        Decisions and how many answers each stands for.
    """

    def get_group_key(place_and_decision: tuple[int, D]) -> tuple[object, ...]:
        place, decision = place_and_decision
        if decision.kind != DecisionKind.PROBE_UNKNOWN:
            return (place,)
        return (decision.kind, decision.actor, decision.reason if are_reasons_shown else "")

    groups = (list(group) for _key, group in groupby(enumerate(decisions), get_group_key))
    return [(group[-1][1], len(group)) for group in groups]
