"""Which result in a stretch of messages answers which call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checkpoints.queries.blocks import Call, Part, Result

#: A part of a message: the index of the message, and of the part in it.
Spot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pairs:
    """`answers` gives the result of a call; `taken` holds the spots of all results that answer one."""

    answers: Mapping[Spot, Spot]
    taken: frozenset[Spot]


def pair(messages: Sequence[tuple[Part, ...]]) -> Pairs:
    """A result answers the oldest unanswered call of its id in the newest message that asked one.

    Providers reuse ids: a call that an earlier message left unanswered is not answered by a later one's result.
    """
    asked: defaultdict[str, list[Spot]] = defaultdict(list)
    answers: dict[Spot, Spot] = {}
    for index, parts in enumerate(messages):
        for number, part in enumerate(parts):
            if isinstance(part, Call):
                here = [spot for spot in asked[part.call_id] if spot[0] == index]
                asked[part.call_id] = [*here, (index, number)]
            elif isinstance(part, Result) and asked[part.call_id]:
                answers[asked[part.call_id].pop(0)] = (index, number)
    return Pairs(answers, frozenset(answers.values()))
