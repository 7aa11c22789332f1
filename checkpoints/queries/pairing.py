"""Which result in a stretch of messages answers which call."""

from __future__ import annotations

from collections import defaultdict, deque
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
    asked: defaultdict[str, deque[Spot]] = defaultdict(deque)
    answers: dict[Spot, Spot] = {}
    for index, parts in enumerate(messages):
        for number, part in enumerate(parts):
            if isinstance(part, Call):
                waiting = asked[part.call_id]
                if waiting and waiting[-1][0] != index:
                    waiting.clear()
                waiting.append((index, number))
            elif isinstance(part, Result) and asked[part.call_id]:
                answers[asked[part.call_id].popleft()] = (index, number)
    return Pairs(answers, frozenset(answers.values()))
