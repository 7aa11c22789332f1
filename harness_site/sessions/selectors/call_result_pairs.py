"""Pairs of calls and results in a range of messages."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from checkpoints.formats.parse_message_parts import CallPart, Part, ResultPart

#: Index of a message, and index of a part in it.
Spot = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CallResultPairs:
    """`answers` maps each call to its result; `taken` holds the spots of all paired results."""

    answers: Mapping[Spot, Spot]
    taken: frozenset[Spot]


def pair_calls_with_results(messages: Sequence[tuple[Part, ...]]) -> CallResultPairs:
    """Pair each result with the oldest unanswered call of its id in the newest message with such a call.

    Providers reuse ids: a call that an earlier message left unanswered is not paired with a later result.
    """
    calls: defaultdict[str, deque[Spot]] = defaultdict(deque)
    answers: dict[Spot, Spot] = {}
    for index, parts in enumerate(messages):
        for number, part in enumerate(parts):
            if isinstance(part, CallPart):
                unanswered = calls[part.call_id]
                if unanswered and unanswered[-1][0] != index:
                    unanswered.clear()
                unanswered.append((index, number))
            elif isinstance(part, ResultPart) and calls[part.call_id]:
                answers[calls[part.call_id].popleft()] = (index, number)
    return CallResultPairs(answers, frozenset(answers.values()))
