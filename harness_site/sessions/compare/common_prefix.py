"""Length of the common prefix of two transcripts, computed from hash chains without reading messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q

from checkpoints.models import Message
from harness_site.sessions.selectors import transcript_message_queries
from harness_site.sessions.selectors.transcript_message_queries import SegmentRange
from harness_site.sessions.selectors.version_lookup import Version

#: Number of positions compared in one query; each query divides the range by this number.
_PROBES = 64


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """The common prefix of two transcripts; `has_shared_rows` if its beginning is stored once, as that of a fork."""

    count: int
    has_shared_rows: bool


def find_common_prefix(old: Version, new: Version) -> CommonPrefix:
    """Find the messages at the start that are the same rows, or rows with the same chain.

    The chain of a message covers all messages before it, so the end of the common prefix is found by a search with
    several probes at once: only the digests of a few positions are read. Transcripts within a segment only grow.
    """
    if old.segment_id == new.segment_id:
        return CommonPrefix(min(old.length, new.length), has_shared_rows=True)
    old_ranges, new_ranges = (
        transcript_message_queries.load_segment_ranges(version.segment_id, version.length) for version in (old, new)
    )
    shared_rows = transcript_message_queries.count_shared_messages(old_ranges, new_ranges)
    low, high = shared_rows, min(old.length, new.length)
    while low < high:
        positions = range(low, high, max(1, (high - low) // _PROBES))
        for position, same in _compare_chains_at_positions(old_ranges, new_ranges, positions):
            if not same:
                high = position
                break
            low = position + 1
    return CommonPrefix(low, has_shared_rows=shared_rows > 0)


def _compare_chains_at_positions(
    old_ranges: Sequence[SegmentRange], new_ranges: Sequence[SegmentRange], places: range
) -> Iterable[tuple[int, bool]]:
    positions = {
        (segment_range.segment_id, place)
        for ranges in (old_ranges, new_ranges)
        for segment_range in ranges
        for place in places
        if segment_range.first <= place < segment_range.upto
    }
    chains = _load_chain_digests_at_positions(positions)
    old_chains, new_chains = (
        _map_positions_to_chains_in_ranges(old_ranges, chains),
        _map_positions_to_chains_in_ranges(new_ranges, chains),
    )
    return [(place, place in old_chains and old_chains[place] == new_chains.get(place)) for place in places]


def _map_positions_to_chains_in_ranges(
    ranges: Sequence[SegmentRange], chains: dict[tuple[int, int], bytes]
) -> dict[int, bytes]:
    bounds = {segment_range.segment_id: segment_range for segment_range in ranges}
    return {
        place: chain
        for (segment, place), chain in chains.items()
        if segment in bounds and bounds[segment].first <= place < bounds[segment].upto
    }


def _load_chain_digests_at_positions(positions: Iterable[tuple[int, int]]) -> dict[tuple[int, int], bytes]:
    """Load the chain at each (segment, position), in one query."""
    condition = Q(pk__in=())
    for segment, place in sorted(positions):
        condition |= Q(segment=segment, position=place)
    messages = Message.objects.filter(condition).values_list("segment", "position", "chain")
    return {(segment, place): bytes(chain) for segment, place, chain in messages}
