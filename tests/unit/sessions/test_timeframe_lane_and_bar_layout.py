"""Layout of the timeline with few and with thousands of items."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from checkpoints.enums import DecisionKind, PeerCallStatus, RunStatus
from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions.selectors.message_origin_versions_and_runs import RunFacts
from harness_site.sessions.timeline import timeframe_lane_and_bar_layout
from harness_site.sessions.timeline.bar_packing import LEVELS
from harness_site.sessions.timeline.list_timeline_items import (
    count_listed_items,
    list_first_items_in_time_order,
    list_items_by_run,
)
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import Lane, Stretch, VersionMark
from harness_site.sessions.timeline.selectors.takeover_approval_verification_and_handover_events import Takeover
from harness_site.sessions.timeline.selectors.timeframe_contents import Event, PeerWait, RunCourse, Timeframe
from harness_site.sessions.timeline.timeframe_lane_and_bar_layout import LEFT, MARGIN, WIDTHS, Bar, Drawing

BEGIN = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def at(seconds: float) -> int:
    return convert_to_microseconds(later(seconds))


def event(kind: str, seconds: float, *about: Any) -> Event:
    return Event(kind, at(seconds), at(seconds), *about)


def mark(seconds: float, version: int, length: int = 1) -> VersionMark:
    return VersionMark("version", at(seconds), at(seconds), version, "post_llm", length)


def course(number: int = 1, status: str = RunStatus.RUNNING, seconds: float = 100) -> RunCourse:
    facts = RunFacts(number, status, "worker-3", 7, BEGIN, later(seconds), None)
    return RunCourse(Lane(facts, at(0), at(seconds)))


def busy(count: int) -> Timeframe:
    """Return a run with `count` turns and calls; every hundredth call failed, and the last outcome is unknown."""
    made = course(seconds=count * 10.0)
    for number in range(count):
        start, end = at(number * 10), at(number * 10 + 6)
        kind = "lost" if number == count - 1 else "failed" if number % 100 == 99 else "ran"
        made.lane.stretches.append(Stretch(kind, start, end, "pay", number))
        made.lane.marks.append(mark(number * 10 + 6, number + 1, number))
        made.turns.append(Turn("model", start, end, number + 1, number))
        made.events.append(event("decision", number * 10 + 6, DecisionKind.APPROVE, "alice", "pay", number))
    return Timeframe((made,), BEGIN, later(count * 10), None)


def draw(frame: Timeframe, width: int = WIDTHS[0]) -> Drawing:
    return timeframe_lane_and_bar_layout.compute_timeframe_layout(frame, list_items_by_run(frame), width)


def drawn(drawing: Drawing) -> list[Bar]:
    return [bar for lane in drawing.lanes for bar in (*lane.bars, *lane.signs, *lane.versions)]


@pytest.mark.parametrize("count", [1, 5, 5_000])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_item_is_counted_and_the_drawing_is_bounded(count: int, width: int) -> None:
    drawing = draw(busy(count), width)
    bars = drawn(drawing)
    assert sum(bar.count for bar in bars) == 4 * count
    assert len(bars) <= 4 * LEVELS * (width - MARGIN - LEFT) / 4
    assert len(drawing.labels) + len(drawing.breaks) <= 20
    assert len(bars) < 200
    assert f"Model answer: {count:,}" in drawing.words


def test_few_items_are_drawn_individually() -> None:
    drawing = draw(busy(5))
    assert [bar.count for bar in drawn(drawing)] == [1] * 20
    assert drawing.grouped == 0
    assert [(bar.kind, bar.label, bar.title) for bar in drawing.lanes[0].bars][5:7] == [
        ("ran", "6.0 s", "pay: completed, 6.0 s"),
        ("ran", "6.0 s", "pay: completed, 6.0 s"),
    ]
    assert [(row.text, row.y) for row in drawing.lanes[0].rows] == [("pay", drawing.lanes[0].bars[5].y)]
    assert [bar.item and bar.item.call_pk for bar in drawing.lanes[0].bars[5:]] == [0, 1, 2, 3, 4]


def test_each_tool_has_a_named_row_and_the_rarest_share_one() -> None:
    made = course(seconds=100)
    tools = ["mcp__stock__reserve_a_parcel_for_a_customer", *(f"tool_{number}" for number in range(9)), "tool_8"]
    made.lane.stretches = [Stretch("ran", at(5 * n), at(5 * n + 4), tool, n) for n, tool in enumerate(tools)]
    made.lane.stretches.append(Stretch("lost", at(60), at(90), "tool_0", 20))
    (lane,) = draw(Timeframe((made,), BEGIN, later(100), None)).lanes
    assert [row.text for row in lane.rows] == [
        "reserve_a_parcel_fo…",
        *(f"tool_{number}" for number in (0, 1, 2, 3, 4, 8)),
        "other tools",
    ]
    assert lane.rows[0].title == tools[0]
    places = {bar.item.what: bar.y for bar in lane.bars if bar.item}
    assert [places[tool] for tool in ("tool_0", "tool_8", "tool_5")] == [lane.rows[n].y for n in (1, 6, 7)]
    assert max(row.y for row in lane.rows) < lane.life
    (lost,) = (bar for bar in lane.bars if bar.kind == "lost")
    assert lost.label == "Outcome unknown"
    narrow = draw(Timeframe((made,), BEGIN, later(100), None), WIDTHS[1])
    assert narrow.axis.left >= max(len(row.text) for row in narrow.lanes[0].rows) * 6


def test_calls_that_were_grouped_name_no_tool() -> None:
    made = course(seconds=100)
    made.lane.stretches = [Stretch("ran", at(1), at(90), "pay", 1, number=7), Stretch("ran", at(91), at(92), "look", 2)]
    (lane,) = draw(Timeframe((made,), BEGIN, later(100), None)).lanes
    assert [row.text for row in lane.rows] == ["look", "several tools"]


@pytest.mark.parametrize(("before", "after", "inside"), [(8, 4, False), (0.1, 1, True), (0.2, 0.2, True)])
def test_label_of_a_bar_is_not_crossed_by_an_edge_of_a_break(before: float, after: float, inside: bool) -> None:
    end = before + 60 + after
    made = course(seconds=end + 10)
    made.lane.stretches.append(Stretch("ran", at(5), at(5.1), "look", 1))
    made.lane.stretches.append(Stretch("wait", at(5.1), at(5 + end), "pay_invoice", 2))
    made.lane.marks.append(mark(5 + before, 1))
    made.lane.marks.append(mark(5 + before + 60, 2))
    drawing = draw(Timeframe((made,), BEGIN, later(end + 10), None))
    (axis_break,) = drawing.breaks
    (bar,) = (bar for bar in drawing.lanes[0].bars if bar.kind == "wait")
    assert round(bar.x - axis_break.x, 1) <= 0 < bar.x + bar.width - axis_break.x  # it goes through the break
    assert re.fullmatch(r"(waiting( for a person)?, )?1 min( \d+ s)?", bar.label)
    assert (axis_break.x < bar.label_x and bar.label_x + len(bar.label) * 6 < axis_break.x + axis_break.width) is inside
    assert bar.label_x + len(bar.label) * 6 < axis_break.x or bar.label_x > axis_break.x + axis_break.width or inside


def test_bold_label_of_an_unknown_outcome_needs_more_room() -> None:
    made = course(seconds=1_000)
    made.lane.marks.extend(mark(second, second + 1) for second in range(0, 1_000, 5))  # no gap is long
    widths_and_labels = set()
    for seconds in range(90, 200, 2):
        made.lane.stretches[:] = [Stretch("lost", at(0), at(seconds), "pay", 1)]
        (bar,) = draw(Timeframe((made,), BEGIN, later(1_000), None)).lanes[0].bars
        widths_and_labels.add((bar.width >= 126, bar.label == "Outcome unknown"))
    assert widths_and_labels == {(True, True), (False, False)}


def test_turn_is_drawn_without_the_time_in_which_it_waited() -> None:
    made = course(seconds=100)
    made.turns.append(Turn("model", at(10), at(90), 1, 3, ((at(20), at(80)),)))
    made.lane.stretches.append(Stretch("wait", at(20), at(80), "pay", 2))
    drawing = draw(Timeframe((made,), BEGIN, later(100), None))
    before, after, wait = drawing.lanes[0].bars
    assert (before.title, after.title) == ("Model answer of version 1: saved 10:01:30.000, 20 s",) * 2
    assert before.x + before.width <= wait.x
    assert after.x >= wait.x + wait.width
    assert [axis_break.seconds for axis_break in drawing.breaks] == [60]


def test_many_items_are_counted_by_kind_with_visible_failures() -> None:
    bars = [bar for bar in draw(busy(5_000)).lanes[0].bars if bar.kind == "ran"]
    assert bars
    assert {bar.grave for bar in bars} == {"failed", "lost"}
    assert bars[-1].grave == "lost"
    assert all(bar.label == str(bar.count) and bar.item is None for bar in bars[:-1])
    assert f"{bars[0].count:,} entries (Failed: 1, Tool call: {bars[0].count - 1:,})" == bars[0].title
    assert [bar.since for bar in bars] == sorted(bar.since for bar in bars)


def test_narrow_group_is_as_wide_as_its_number_where_no_other_bar_is() -> None:
    made = course(seconds=1_000)
    starts = (100, 100.1, 500, 500.1, 507)
    made.lane.stretches.extend(Stretch("ran", at(start), at(start + 0.1), "pay", pk) for pk, start in enumerate(starts))
    made.lane.stretches.append(Stretch("ran", at(200), at(400), "pay", 9))
    made.lane.marks.extend(mark(second, second + 1) for second in range(0, 1_000, 5))  # no gap is long
    alone, _long, beside, single = draw(Timeframe((made,), BEGIN, later(1_000), None)).lanes[0].bars
    assert (alone.count, alone.label, beside.count, beside.label, single.count) == (2, "2", 2, "", 1)
    assert beside.x + beside.width < single.x


@pytest.mark.parametrize("width", WIDTHS)
def test_every_element_is_inside_the_drawing(width: int) -> None:
    for count in (1, 5, 5_000):
        drawing = draw(busy(count), width)
        for bar in drawn(drawing):
            assert bar.x >= LEFT - 7
            assert bar.x + bar.width <= width
            assert bar.y + bar.height <= drawing.height


def test_list_has_the_same_items_as_the_drawing() -> None:
    runs = list_items_by_run(busy(5_000))
    assert count_listed_items(runs) == 3 * 5_000  # a version that ends a turn is told by the turn
    items = list_first_items_in_time_order(runs, 3 * 5_000)
    assert len(items) == 3 * 5_000
    times = [(entry.start, entry.end) for _, entry in items]
    assert times == sorted(times)


def test_first_items_of_the_list_are_the_beginning_of_the_whole_list() -> None:
    made = course(seconds=100)
    # Of calls that start together, the shortest comes first.
    made.lane.stretches = [Stretch("ran", at(10 * (n // 8)), at(90 - n), "pay", n) for n in range(40)]
    made.events = [event("decision", n, DecisionKind.APPROVE, "alice", "pay", n) for n in range(0, 40, 3)]
    runs = list_items_by_run(Timeframe((made, made), BEGIN, later(100), None))
    everything = list_first_items_in_time_order(runs, count_listed_items(runs))
    assert len(everything) == 2 * (40 + 14)
    for number in range(len(everything)):
        assert list_first_items_in_time_order(runs, number) == everything[:number]


def test_each_kind_of_event_has_an_icon_and_a_label() -> None:
    lost, taken = course(1, RunStatus.LOST), course(2)
    lost.events = [event("crash", 50), event("pause", 10), event("taken", 20)]
    lost.asked = [PeerWait("peer", at(10), at(20), "stock", PeerCallStatus.EXPIRED)]
    taken.lane.takeover = Takeover(2, later(90), None)
    taken.events = [
        event("takeover", 90),
        event("verified", 50, DecisionKind.PROBE_UNKNOWN, "verify hook of pay", "pay", 3),
        event("decision", 60, DecisionKind.MARK_FAILED, "bob", "pay", 3),
    ]
    drawing = draw(Timeframe((lost, taken), BEGIN, later(100), None))
    assert [kind for kind, _ in drawing.signs] == ["crash", "takeover", "pause", "taken", "verified", "decision"]
    assert [sign.title for lane in drawing.lanes for sign in lane.signs] == [
        "Run 1: paused for other agents",
        "Run 1: the task was continued",
        "Run 1: the run was lost",
        "pay: Tool’s own check: outcome still unknown",
        "bob decided about pay: It did not happen",
        "Run 2: the session was taken over",
    ]
    assert [bar.title for bar in drawing.lanes[0].bars] == ["Asked stock: no answer in time, 10 s"]
    assert [lane.lost for lane in drawing.lanes] == [True, False]
