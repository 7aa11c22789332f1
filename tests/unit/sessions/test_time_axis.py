from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions.timeline.time_axis import MAX_BREAK_WIDTH, Axis, AxisBreak, AxisLabel

BEGIN = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def at(seconds: float) -> int:
    return convert_to_microseconds(later(seconds))


def axis(*seconds: float) -> Axis:
    return Axis(map(at, seconds), later(seconds[0]), later(seconds[-1]), left=0, right=1000)


def test_time_is_to_scale() -> None:
    drawn = axis(0, 1, 4, 10)
    assert drawn.breaks == ()
    assert [drawn.convert_to_x(at(each)) for each in (0, 1, 2.5, 10)] == [0, 100, 250, 1000]


def test_long_idle_periods_are_folded() -> None:
    drawn = axis(0, 1, 2, 10_802, 10_803, 30_000, 30_001, 30_002)
    assert [(axis_break.seconds, axis_break.width) for axis_break in drawn.breaks] == [
        (10_800, MAX_BREAK_WIDTH),
        (19_197, MAX_BREAK_WIDTH),
    ]
    scale = (1000 - 2 * MAX_BREAK_WIDTH) / 5
    assert drawn.convert_to_x(at(1)) == round(scale, 1)
    assert drawn.convert_to_x(at(10_802)) == round(2 * scale + MAX_BREAK_WIDTH, 1)
    assert drawn.convert_to_x(at(30_002)) == 1000


@pytest.mark.parametrize(("busy", "folded"), [([], [36]), ([(8, 16)], [36]), ([(8, 52)], [])])
def test_idle_period_is_folded_sooner_than_a_long_call(busy: list[tuple[int, int]], folded: list[int]) -> None:
    moments = (0, 8, 16, 52, 60)
    periods = [(at(start), at(end)) for start, end in busy]
    drawn = Axis(map(at, moments), BEGIN, later(60), left=0, right=1000, busy=periods)
    assert [axis_break.seconds for axis_break in drawn.breaks] == folded


@pytest.mark.parametrize(
    ("answering", "folded"),
    [
        ([(0, 1.5)], [97.0]),  # the only answer of the model, before a wait
        ([(0, 1.5), (1.55, 98.55)], []),
        ([], [97.0, 1.5]),
    ],
)
def test_answer_of_the_model_is_never_folded(answering: list[tuple[float, float]], folded: list[float]) -> None:
    moments = (0, 1.5, 1.52, 1.55, 98.55)
    periods = [(at(start), at(end)) for start, end in answering]
    drawn = Axis(map(at, moments), BEGIN, later(98.55), left=0, right=1000, answering=periods)
    assert sorted((axis_break.seconds for axis_break in drawn.breaks), reverse=True) == pytest.approx(folded)


def test_sleep_of_a_machine_during_an_answer_is_folded() -> None:
    moments, period = (0, 1, 2, 30_000, 30_002), (at(2), at(30_000))
    drawn = Axis(map(at, moments), BEGIN, later(30_002), left=0, right=1000, answering=[period])
    assert [axis_break.seconds for axis_break in drawn.breaks] == [29_998]


def test_breaks_take_at_most_a_third_of_a_narrow_axis() -> None:
    moments = [second for night in range(5) for second in (night * 50_000, night * 50_000 + 1)]
    drawn = Axis(map(at, moments), later(moments[0]), later(moments[-1]), left=0, right=300)
    assert len(drawn.breaks) <= 2
    assert drawn.convert_to_x(at(moments[-1])) == 300


def test_day_stands_at_the_first_label_of_a_narrow_axis_with_room_for_it() -> None:
    moments = (1.7, 2.2, 5.3, 39, 41.5)
    narrow = Axis(map(at, moments), later(1.7), later(41.5), left=50, right=334)
    assert [label.text for label in narrow.build_labels()] == ["10:00:05", "4 Mar 10:00:40"]


@pytest.mark.parametrize("right", [530, 560])
def test_day_takes_no_room_from_the_label_after_it(right: int) -> None:
    drawn = Axis(map(at, range(9)), later(0), later(9.8), left=50, right=right)
    assert [label.text for label in drawn.build_labels()] == [
        "10:00:00",
        "4 Mar 10:00:02",
        *(f"10:00:0{second}" for second in (4, 6, 8)),
    ]


def test_call_of_seconds_does_not_squeeze_the_milliseconds_beside_it() -> None:
    moments = (0, 0.01, 0.02, 0.04, 9.9)
    drawn = Axis(map(at, moments), BEGIN, later(9.9), left=0, right=1000, busy=[(at(0.04), at(9.9))])
    assert [axis_break.seconds for axis_break in drawn.breaks] == [pytest.approx(9.86)]
    assert drawn.convert_to_x(at(0.04)) == 1000 - MAX_BREAK_WIDTH


@pytest.mark.parametrize("seconds", [(0, 9), (0, 10_000), (0, 1, 8, 9), (0, 0.1, 0.9, 1), (0, 60, 120, 180, 240)])
def test_short_uniform_and_single_periods_are_not_folded(seconds: tuple[float, ...]) -> None:
    drawn = axis(*seconds)
    assert drawn.breaks == ()
    assert drawn.convert_to_x(at(seconds[-1])) == 1000


@pytest.mark.parametrize("seconds", [(0, 1, 2, 10_802, 10_803), (0, 1, 4, 10), (0, 5, 10_000)])
def test_moment_and_position_are_inverse_functions(seconds: tuple[float, ...]) -> None:
    drawn = axis(*seconds)
    places = list(range(0, 1001, 10))
    assert [drawn.convert_to_x(convert_to_microseconds(drawn.convert_to_moment(x))) for x in places] == pytest.approx(
        places, abs=0.2
    )


def test_positions_of_many_moments_equal_single_positions() -> None:
    drawn = axis(0, 1, 2, 10_802, 10_803, 30_000, 30_001, 30_002)
    for seconds in ([-5, 0, 1.5, 9_000, 10_802.5, 50_000], [30_002, 1.5, 1.5, 9_000, -5]):
        places = [round(x, 1) for x in drawn.convert_all_to_x(map(at, seconds))]
        assert places == [drawn.convert_to_x(at(each)) for each in seconds]
        assert sorted(places) == [drawn.convert_to_x(at(each)) for each in sorted(seconds)]


def test_moment_outside_the_axis_is_at_its_edge() -> None:
    drawn = axis(0, 10)
    assert (drawn.convert_to_x(at(-5)), drawn.convert_to_x(at(50))) == (0, 1000)
    assert (drawn.convert_to_moment(-5), drawn.convert_to_moment(2000)) == (later(0), later(10))


def test_period_without_length_can_be_drawn() -> None:
    drawn = Axis([at(0)], BEGIN, BEGIN, left=0, right=1000)
    assert drawn.convert_to_x(at(0)) == 0


@pytest.mark.parametrize("length", [0.01, 1, 60, 5_000, 86_400, 40 * 86_400, 4_000 * 86_400])
def test_labels_do_not_overlap_and_are_at_their_moment(length: float) -> None:
    labels = axis(0, *[length * part / 10 for part in range(1, 10)], length).build_labels()
    assert 1 <= len(labels) <= 12
    assert all(after.x - before.x >= 91 for before, after in pairwise(labels))


def test_label_has_the_date_when_the_day_changes() -> None:
    drawn = Axis([], later(0), later(20 * 3600), left=0, right=1000)
    texts = [label.text for label in drawn.build_labels()]
    assert texts[0] == "4 Mar 10:00"
    assert [text for text in texts if "5 Mar" in text] == ["5 Mar 00:00"]


def reach(word: AxisBreak | AxisLabel) -> tuple[float, float]:
    """Return the start and end of a label, slightly less than its width."""
    middle = word.middle if isinstance(word, AxisBreak) else word.text_x
    return middle - len(word.text) * 3, middle + len(word.text) * 3


@pytest.mark.parametrize(
    "seconds",
    [
        (0, 7, 57, 57.2),
        (0, 1, 51, 58),
        (0, 3, 53, 58),
        (0, 5, 86_405, 86_405.01, 172_805, 172_807, 400_000, 400_003),
        (0, 0.2, 0.4, 3_600, 3_600.1, 3_600.2),
    ],
)
def test_labels_do_not_overlap_or_leave_the_drawing(seconds: tuple[float, ...]) -> None:
    drawn = axis(*seconds)
    assert drawn.breaks
    assert drawn.breaks[0].text
    written: list[AxisBreak | AxisLabel] = [
        *drawn.build_labels(),
        *(axis_break for axis_break in drawn.breaks if axis_break.text),
    ]
    words = sorted(map(reach, written))
    assert all(before[1] < after[0] for before, after in pairwise(words))
    assert words[0][0] >= -16
    assert words[-1][1] <= 1016
