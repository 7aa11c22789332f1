"""How far two transcripts are the same, found without reading what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q

from checkpoints.models import Message
from checkpoints.queries import transcripts
from checkpoints.queries.transcripts import Stretch
from checkpoints.queries.versions import Version

#: Places at which two chains are held against each other at once; each such question divides the range by so many.
_PROBES = 64


def common(old: Version, new: Version) -> int:
    """How many messages at the start are the same: as the same rows, or as rows with the same chain.

    A chain stands for everything before it, so that the place where two transcripts part is found like a word in a
    dictionary: the digests of a few places are read, and no message.
    """
    mine, theirs = (transcripts.stretches(version.segment_id, version.length) for version in (old, new))
    low, high = transcripts.shared(mine, theirs), min(old.length, new.length)
    while low < high:
        places = range(low, high, max(1, (high - low) // _PROBES))
        for place, same in _held_against(mine, theirs, places):
            if not same:
                high = place
                break
            low = place + 1
    return low


def _held_against(one: Sequence[Stretch], other: Sequence[Stretch], places: range) -> Iterable[tuple[int, bool]]:
    asked = {
        (stretch.segment_id, place)
        for stretches in (one, other)
        for stretch in stretches
        for place in places
        if stretch.first <= place < stretch.upto
    }
    chains = _chains(asked)
    mine, theirs = _along(one, chains), _along(other, chains)
    return [(place, place in mine and mine[place] == theirs.get(place)) for place in places]


def _along(stretches: Sequence[Stretch], chains: dict[tuple[int, int], bytes]) -> dict[int, bytes]:
    bounds = {stretch.segment_id: stretch for stretch in stretches}
    return {
        place: chain
        for (segment, place), chain in chains.items()
        if segment in bounds and bounds[segment].first <= place < bounds[segment].upto
    }


def _chains(asked: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """The chain at each (segment, position); one query."""
    wanted = Q(pk__in=())
    for segment, place in sorted(asked):
        wanted |= Q(segment=segment, position=place)
    found = Message.objects.filter(wanted).values_list("segment", "position", "chain")
    return {(segment, place): bytes(chain) for segment, place, chain in found}
