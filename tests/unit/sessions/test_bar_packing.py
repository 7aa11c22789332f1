from itertools import pairwise

import pytest

from harness_site.sessions.timeline import bar_packing
from harness_site.sessions.timeline.bar_packing import (
    GAP,
    LEVELS,
    MIN_BAR_WIDTH,
    PackedBar,
    pack_and_merge_bars_into_levels,
)

WIDTH = 952.0


def bars(count: int, length: float = 1.0) -> list[tuple[float, float, int]]:
    """Return `count` bars over the whole width, each starting after the previous one."""
    return [(number * WIDTH / count, number * WIDTH / count + length, number) for number in range(count)]


def items(rows: list[list[PackedBar[int]]]) -> list[int]:
    return sorted(item for row in rows for packed in row for item in packed.items)


@pytest.mark.parametrize("count", [1, 5, 300, 5_000, 20_000])
@pytest.mark.parametrize("length", [0.0, 1.0, 7.0, 400.0])
def test_every_item_is_in_exactly_one_bar_and_their_number_is_bounded(count: int, length: float) -> None:
    rows = pack_and_merge_bars_into_levels(bars(count, length))
    assert items(rows) == list(range(count))
    assert len(rows) <= LEVELS
    assert max(len(row) for row in rows) <= WIDTH / (MIN_BAR_WIDTH + GAP) + 1


def test_few_bars_are_drawn_individually() -> None:
    (row,) = pack_and_merge_bars_into_levels(bars(5, 20))
    assert [(packed.x, packed.items) for packed in row] == [(left, [item]) for left, _, item in bars(5, 20)]


@pytest.mark.parametrize("length", [0.0, 5.0, 60.0])
def test_bars_of_one_level_do_not_overlap(length: float) -> None:
    for row in pack_and_merge_bars_into_levels(bars(5_000, length)):
        assert all(before.right + GAP <= after.x for before, after in pairwise(row))


def test_small_neighbouring_bars_are_merged() -> None:
    (row,) = pack_and_merge_bars_into_levels(bars(5_000, 0.1))
    places = {item: packed for packed in row for item in packed.items}
    for left, _, item in bars(5_000, 0.1):
        assert places[item].x - 8 <= left <= places[item].right + bar_packing.SMALL


def test_concurrent_long_bars_are_stacked() -> None:
    rows = pack_and_merge_bars_into_levels(
        [(0, 100, "a"), (10, 90, "b"), (20, 80, "c"), (30, 70, "d"), (110, 120, "e")]
    )
    assert [[packed.items for packed in row] for row in rows] == [[["a"], ["e"]], [["b"]], [["c", "d"]]]


def test_small_bar_is_not_hidden_by_a_long_one() -> None:
    rows = pack_and_merge_bars_into_levels([(0, 100, "long"), (50, 51, "short")])
    assert [[packed.items for packed in row] for row in rows] == [[["long"]], [["short"]]]
    rows = pack_and_merge_bars_into_levels([(0, 2, "short"), (1, 3, "too"), (2, 100, "long")])
    assert [[packed.items for packed in row] for row in rows] == [[["short", "too"], ["long"]]]


def test_bar_after_a_short_one_stays_on_its_level() -> None:
    (row,) = pack_and_merge_bars_into_levels([(0, 80, "turn"), (80, 80.4, "short"), (80.4, 160, "next")])
    assert [(packed.items, packed.right) for packed in row] == [(["turn"], 79), (["short"], 83), (["next"], 159)]
    assert row[2].x == 83 + GAP


def test_adjacent_bars_share_a_level() -> None:
    (row,) = pack_and_merge_bars_into_levels([(0, 50, "a"), (50, 100, "b"), (100, 150, "c")])
    assert [packed.items for packed in row] == [["a"], ["b"], ["c"]]
