"""Length of the common prefix of two transcripts, computed from hash chains without reading messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import Q

from checkpoints.models import Message
from harness_site.sessions.selectors import message_windows
from harness_site.sessions.selectors.message_windows import Stretch
from harness_site.sessions.selectors.version_list import Version

#: Number of positions compared in one query; each query divides the range by this number.
_PROBES = 64


def count_common_messages(old: Version, new: Version) -> int:
    """Count the messages at the start that are the same rows, or rows with the same chain.

    The chain of a message covers all messages before it, so the end of the common prefix is found by a search with
    several probes at once: only the digests of a few positions are read. Transcripts within a segment only grow.
    """
    if old.segment_id == new.segment_id:
        return min(old.length, new.length)
    old_stretches, new_stretches = (
        message_windows.load_segment_ranges(version.segment_id, version.length) for version in (old, new)
    )
    low, high = message_windows.count_shared_messages(old_stretches, new_stretches), min(old.length, new.length)
    while low < high:
        positions = range(low, high, max(1, (high - low) // _PROBES))
        for position, same in _compare_chains_at_positions(old_stretches, new_stretches, positions):
            if not same:
                high = position
                break
            low = position + 1
    return low


def _compare_chains_at_positions(
    old_stretches: Sequence[Stretch], new_stretches: Sequence[Stretch], places: range
) -> Iterable[tuple[int, bool]]:
    positions = {
        (stretch.segment_id, place)
        for stretches in (old_stretches, new_stretches)
        for stretch in stretches
        for place in places
        if stretch.first <= place < stretch.upto
    }
    chains = _load_message_chains(positions)
    old_chains, new_chains = (
        _map_positions_to_chains_in_stretches(old_stretches, chains),
        _map_positions_to_chains_in_stretches(new_stretches, chains),
    )
    return [(place, place in old_chains and old_chains[place] == new_chains.get(place)) for place in places]


def _map_positions_to_chains_in_stretches(
    stretches: Sequence[Stretch], chains: dict[tuple[int, int], bytes]
) -> dict[int, bytes]:
    bounds = {stretch.segment_id: stretch for stretch in stretches}
    return {
        place: chain
        for (segment, place), chain in chains.items()
        if segment in bounds and bounds[segment].first <= place < bounds[segment].upto
    }


def _load_message_chains(positions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """Load the chain at each (segment, position), in one query."""
    condition = Q(pk__in=())
    for segment, place in sorted(positions):
        condition |= Q(segment=segment, position=place)
    messages = Message.objects.filter(condition).values_list("segment", "position", "chain")
    return {(segment, place): bytes(chain) for segment, place, chain in messages}
