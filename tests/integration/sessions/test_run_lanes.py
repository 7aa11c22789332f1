import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.translation import override

from checkpoints.enums import IMPORTED_RUN_HOST, ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus
from checkpoints.models import AuditEvent, Checkpoint, Run, Session, ToolCall
from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions.timeline import overview_layout
from harness_site.sessions.timeline.selectors import run_lanes
from harness_site.sessions.timeline.selectors.run_lanes import Stretch
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def later(seconds: float) -> Any:
    return THEN + timedelta(seconds=seconds)


def at(seconds: float) -> int:
    return convert_to_microseconds(later(seconds))


def run(session: Session, start: float, end: float, **fields: Any) -> Run:
    return make_run(session=session, started_at=later(start), heartbeat_at=later(end), **fields)


@pytest.fixture
def session() -> Session:
    session = make_session()
    run(session, 0, 10)
    return session


def test_run_shows_its_calls_and_versions(session: Session) -> None:
    make_checkpoint(session=session)
    Checkpoint.objects.update(created_at=later(1))
    ran = make_call(session=session, call_id="a", status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(3))
    failed = make_call(session=session, call_id="b", status=CallStatus.FAILED, issued_at=later(4), settled_at=later(5))
    running = make_call(session=session, call_id="c", status=CallStatus.ISSUED, issued_at=later(6))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert [(mark.version, mark.start) for mark in lane.marks] == [(1, at(1))]
    assert lane.stretches == [
        Stretch("ran", at(2), at(3), "refund_card", ran.pk),
        Stretch("failed", at(4), at(5), "refund_card", failed.pk),
        Stretch("running", at(6), at(10), "refund_card", running.pk),
    ]


def test_interrupted_call_is_drawn_on_both_runs(session: Session) -> None:
    call = make_call(
        session=session, status=CallStatus.COMPLETED, issued_at=later(2), interrupted_at=later(11), settled_at=later(60)
    )
    make_decision(call=call, created_at=later(60))
    run(session, 11, 61)
    first, second = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert first.stretches == [Stretch("lost", at(2), at(11), "refund_card", call.pk)]
    assert second.stretches == [Stretch("wait", at(11), at(60), "refund_card", call.pk)]


def test_call_of_a_lost_run_is_unknown_until_the_run_ended(session: Session) -> None:
    lost = run(session, 20, 21, status=RunStatus.LOST, ended_at=later(22.676))
    make_call(session=session, run=lost, issued_at=later(22), interrupted_at=later(22.682))
    (_, lane) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    stretches = [stretch[:3] for stretch in lane.stretches]
    assert stretches[0] == ("lost", at(22), at(22.676))
    assert stretches[1][:2] == ("wait", at(22.676))


def test_undecided_call_waits_until_now(session: Session) -> None:
    make_call(session=session, issued_at=later(2), interrupted_at=later(3))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert [stretch.kind for stretch in lane.stretches] == ["lost", "wait"]
    assert lane.stretches[1].end > at(60)


def test_line_of_a_run_ends_where_its_call_begins_to_wait(session: Session) -> None:
    def draw() -> overview_layout.Row:
        drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
        assert drawing is not None
        return drawing.rows[-1]

    Run.objects.update(status=RunStatus.RELEASED, ended_at=later(3.3), heartbeat_at=later(3.3))
    make_call(session=session, issued_at=later(2), interrupted_at=later(3))
    row = draw()
    (wait,) = (bar for bar in row.bars if bar.kind == "wait")
    assert row.x + row.width == pytest.approx(wait.x)
    run(session, 5, 5.2, status=RunStatus.RELEASED, ended_at=later(5.2))
    row = draw()
    (wait,) = row.bars
    assert wait.x == row.x
    assert row.width < wait.width / 10


def test_rejected_call_only_has_a_wait(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.REJECTED, issued_at=later(2))
    make_decision(call=call, kind=DecisionKind.REJECT, created_at=later(7))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert lane.stretches == [Stretch("wait", at(2), at(7), "refund_card", call.pk)]


def ask(session: Session, seconds: float, run_number: int = 1) -> None:
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.APPROVAL_REQUESTED,
        actor_kind=ActorKind.MACHINE,
        actor=f"run {run_number}",
        details='{"call_id":"call_9"}',
        created_at=later(seconds),
    )


def test_approved_call_has_a_wait_before_its_execution(session: Session) -> None:
    ask(session, 2)
    run(session, 8, 20)
    second = session.runs.get(number=2)
    call = make_call(
        session=session, run=second, status=CallStatus.COMPLETED, issued_at=later(9), settled_at=later(10), approvals=2
    )
    make_decision(call=call, kind=DecisionKind.APPROVE, final=False, created_at=later(4))
    make_decision(call=call, kind=DecisionKind.EDIT, created_at=later(5), revision=2)
    make_decision(call=call, kind=DecisionKind.APPROVE, created_at=later(7), revision=3)
    first, following = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert first.stretches == [Stretch("wait", at(2), at(7), "refund_card", call.pk)]
    assert following.stretches == [Stretch("ran", at(9), at(10), "refund_card", call.pk)]


def test_wait_continues_after_withdrawn_decisions(session: Session) -> None:
    ask(session, 2)
    run(session, 21, 60)
    second = session.runs.get(number=2)
    call = make_call(
        session=session,
        run=second,
        status=CallStatus.COMPLETED,
        issued_at=later(22),
        interrupted_at=later(23),
        settled_at=later(50),
    )
    decided = ((4, "approve"), (5, "withdraw"), (20, "approve"), (30, "mark_failed"), (31, "withdraw"))
    for revision, (seconds, kind) in enumerate((*decided, (50, "confirm_landed"))):
        make_decision(call=call, kind=DecisionKind(kind), created_at=later(seconds), revision=revision)
    first, following = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert first.stretches == [Stretch("wait", at(2), at(20), "refund_card", call.pk)]
    assert following.stretches == [
        Stretch("lost", at(22), at(23), "refund_card", call.pk),
        Stretch("wait", at(23), at(50), "refund_card", call.pk),
    ]


def test_call_with_a_response_only_has_a_wait(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(7))
    make_decision(call=call, kind=DecisionKind.RESPOND, created_at=later(7))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert lane.stretches == [Stretch("wait", at(2), at(7), "refund_card", call.pk)]


def test_discarded_call_has_no_wait(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.DISCARDED, issued_at=later(2), interrupted_at=later(3))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert lane.stretches == [Stretch("unanswered", at(2), at(3), "refund_card", call.pk)]


def test_call_without_a_result_ends_with_its_run(session: Session) -> None:
    Run.objects.update(status=RunStatus.CANCELLED, ended_at=later(4), heartbeat_at=later(4))
    call = make_call(session=session, status=CallStatus.DISCARDED, issued_at=later(2), settled_at=later(600))
    (lane,) = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert lane.stretches == [Stretch("unanswered", at(2), at(4), "refund_card", call.pk)]
    assert lane.end == at(4)


def test_call_settled_by_a_hook_has_no_wait(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.COMPLETED, issued_at=later(2), interrupted_at=later(11))
    make_decision(
        call=call, kind=DecisionKind.PROBE_LANDED, actor_kind=ActorKind.HOOK, actor="hook", created_at=later(12)
    )
    run(session, 11, 61)
    first, second = run_lanes.load_timeline_of_newest_runs(session.pk).lanes
    assert first.stretches == [Stretch("lost", at(2), at(11), "refund_card", call.pk)]
    assert second.stretches == []


def test_label_of_a_short_bar_is_beside_it(session: Session) -> None:
    make_call(session=session, call_id="a", status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(2.001))
    make_call(session=session, call_id="b", tool="t" * 200, status=CallStatus.ISSUED, issued_at=later(9))
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert not drawing.needs_milliseconds
    assert replace(drawing, end=drawing.start).needs_milliseconds
    short, long = drawing.rows[0].bars
    assert (short.label, short.beside) == ("refund_card", True)
    assert short.label_x > short.x + short.width
    assert (long.label, long.beside) == ("", False)


def test_expected_calls_have_labels_only_if_all_of_a_run_have_room(session: Session) -> None:
    for number, (status, tool) in enumerate(
        ((CallStatus.COMPLETED, "look"), (CallStatus.FAILED, "pay"), (CallStatus.COMPLETED, "t" * 200))
    ):
        times = {"issued_at": later(2 + 3 * number), "settled_at": later(3 + 3 * number)}
        make_call(session=session, call_id=str(number), tool=tool, status=status, **times)
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert [bar.label for bar in drawing.rows[0].bars] == ["", "pay", ""]
    ToolCall.objects.filter(call_id="2").update(tool="send")
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert [bar.label for bar in drawing.rows[0].bars] == ["look", "pay", "send"]


def test_label_of_a_wait_fits_its_width(session: Session) -> None:
    call = make_call(session=session, status=CallStatus.REJECTED, issued_at=later(2))
    make_decision(call=call, kind=DecisionKind.REJECT, created_at=later(2.1))
    make_call(session=session, call_id="b", status=CallStatus.ISSUED, issued_at=later(2.11))
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert drawing.rows[0].bars[0].label == "waiting, 100 ms"


def test_wait_that_goes_on_takes_about_a_third(session: Session) -> None:
    make_call(session=session, issued_at=later(2), interrupted_at=later(3))
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    (row,) = drawing.rows
    wait = row.bars[-1]
    assert wait.width <= overview_layout.WIDTH * 0.35
    assert wait.x <= row.x + row.width <= wait.x + wait.width
    assert drawing.shortened


def test_runs_that_did_nothing_are_not_drawn(session: Session) -> None:
    make_checkpoint(session=session)
    Run.objects.update(status=RunStatus.RELEASED)
    for start in (20, 30, 40):
        run(session, start, start + 1, status=RunStatus.RELEASED)
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert [row.name for row in drawing.rows] == ["run 1"]
    assert drawing.omitted == 3


def test_omitted_earlier_items_are_reported(session: Session) -> None:
    assert run_lanes.load_timeline_of_newest_runs(session.pk).complete_since is None
    for number in range(run_lanes.LANES):
        run(session, 20 + number, 21 + number)
    found = run_lanes.load_timeline_of_newest_runs(session.pk)
    assert [lane.run.number for lane in found.lanes] == list(range(2, 2 + run_lanes.LANES))
    assert found.complete_since == found.lanes[0].start


def test_drawing_begins_with_the_first_drawn_call(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lanes, "CALLS", 2)
    for second in range(1, 5):
        make_checkpoint(session=session)
        Checkpoint.objects.filter(version=second).update(created_at=later(second))
        make_call(
            session=session,
            call_id=f"call_{second}",
            step=second,
            status=CallStatus.COMPLETED,
            issued_at=later(second + 0.2),
            settled_at=later(second + 0.5),
        )
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert (drawing.start, drawing.earlier) == (later(3.2), True)
    (row,) = drawing.rows
    assert row.bars[0].x == row.x == overview_layout.LEFT
    assert ([tick.version for tick in row.ticks], len(row.bars)) == ([4], 2)
    assert not drawing.has_many_bars


@pytest.mark.parametrize(("versions", "many"), [(36, False), (37, True)])
def test_dots_of_many_versions_are_marked_for_phones(
    session: Session, client: Client, versions: int, many: bool
) -> None:
    for version in range(1, versions + 1):
        make_checkpoint(session=session)
        Checkpoint.objects.filter(version=version).update(created_at=later(version))
    client.force_login(make_user(name="alice"))
    page = client.get(f"/sessions/{session.pk}/").content.decode()
    assert page.count('<circle class="tick"') == versions
    assert ('class="card lanes many-versions"' in page) == many


def test_every_element_is_inside_the_drawing_and_in_order(session: Session) -> None:
    make_checkpoint(session=session)
    Checkpoint.objects.update(created_at=later(1))
    make_call(session=session, call_id="a", status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(2.1))
    make_call(session=session, call_id="b", status=CallStatus.COMPLETED, issued_at=later(3), interrupted_at=later(4000))
    run(session, 4000, 90_000, status=RunStatus.RUNNING)
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    bars = [bar for row in drawing.rows for bar in row.bars]
    assert [bar.kind for bar in bars] == ["ran", "lost", "wait"]
    assert bars[0].x + bars[0].width < bars[1].x
    assert bars[1].x + bars[1].width == pytest.approx(bars[2].x, abs=0.2)
    places = [(bar.x, bar.width) for bar in bars] + [(row.x, row.width) for row in drawing.rows]
    assert min(x for x, _ in places) >= overview_layout.LEFT
    assert max(x + width for x, width in places) <= drawing.width
    assert drawing.words == (
        "Timeline of the runs. Run 1 (Running) made 2 tool calls. The outcome of 1 call is unknown. "
        "Run 2 (Running) made 0 tool calls. The run waited for a decision."
    )


def test_wait_that_ended_before_everything_else_is_drawn_at_the_beginning() -> None:
    """Clocks of agents that differ give such times."""
    session = make_session()
    run(session, 0, 10)
    call = make_call(session=session, status=CallStatus.REJECTED, issued_at=later(-9000), settled_at=later(-5000))
    make_decision(call=call, kind=DecisionKind.REJECT, created_at=later(-5000))
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert [(bar.kind, bar.x) for bar in drawing.rows[0].bars] == [("wait", overview_layout.LEFT)]


def test_session_of_one_moment_can_be_drawn() -> None:
    session = make_session()
    run(session, 0, 0)
    drawing = overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(session.pk))
    assert drawing
    assert not drawing.shortened
    assert drawing.rows[0].x == overview_layout.LEFT


def test_session_without_items_is_not_drawn() -> None:
    assert overview_layout.compute_run_lanes_layout(run_lanes.load_timeline_of_newest_runs(make_session().pk)) is None


def test_page_contains_the_drawing(client: Client, session: Session) -> None:
    call = make_call(session=session, tool='"><script>', issued_at=later(2), interrupted_at=later(3))
    client.force_login(make_user())
    html = client.get(f"/sessions/{session.pk}/").content.decode()
    assert f'<a href="/sessions/{session.pk}/calls/{call.pk}/" tabindex="-1"><title>&quot;&gt;&lt;script&gt;' in html
    assert '<rect class="lost"' in html


@pytest.mark.parametrize(
    ("versions", "calls", "ended", "is_hidden"),
    [(1, 1, True, True), (1, 0, True, True), (2, 1, True, False), (1, 2, True, False), (1, 1, False, False)],
)
def test_drawing_of_one_ended_turn_is_hidden(
    session: Session, reader: Client, versions: int, calls: int, ended: bool, is_hidden: bool
) -> None:
    if ended:
        Run.objects.update(status=RunStatus.RELEASED, ended_at=later(10))
    for number in range(versions):
        make_checkpoint(session=session, created_at=later(number))
    for number in range(calls):
        moments = {"issued_at": later(3 * number + 1), "settled_at": later(3 * number + 3)}
        make_call(session=session, call_id=f"c{number}", status=CallStatus.COMPLETED, **moments)
    page = reader.get(f"/sessions/{session.pk}/").content.decode()
    assert ('id="lanes" hidden></section>' in page, "Open the timeline" in page) == (is_hidden, not is_hidden)


def test_drawing_of_a_lost_run_is_shown(session: Session, reader: Client) -> None:
    Run.objects.update(status=RunStatus.LOST, ended_at=later(10))
    assert "Open the timeline" in reader.get(f"/sessions/{session.pk}/").content.decode()


def test_line_of_a_lost_run_ends_at_its_last_sign_of_life(session: Session, reader: Client) -> None:
    make_call(session=session, status=CallStatus.COMPLETED, issued_at=later(8), settled_at=later(12))
    Run.objects.update(status=RunStatus.LOST, ended_at=later(70_000))
    timeline = run_lanes.load_timeline_of_newest_runs(session.pk)
    (lane,) = timeline.lanes
    assert (lane.seen_until, lane.end) == (at(12), at(70_000))
    drawing = overview_layout.compute_run_lanes_layout(timeline)
    assert drawing is not None
    (row,) = drawing.rows
    (bar,) = row.bars
    assert row.x + row.width == pytest.approx(bar.x + bar.width, abs=0.2)
    assert (row.silent_until, drawing.end) == (overview_layout.WIDTH - 8, later(70_000))
    for page in ("", "timeline/"):
        html = reader.get(f"/sessions/{session.pk}/{page}").content.decode()
        assert 'class="silent"' in html
        assert "No sign of life until the loss was noticed" in html
    Run.objects.update(heartbeat_at=later(70_000))
    assert 'class="silent"' not in reader.get(f"/sessions/{session.pk}/timeline/").content.decode()


def test_call_read_from_a_transcript_belongs_to_no_run(session: Session, reader: Client) -> None:
    read_run = make_run(
        session=session, number=0, status=RunStatus.COMPLETED, owner=False, host=IMPORTED_RUN_HOST, ended_at=later(1)
    )
    call = make_call(
        session=session, run=read_run, step=0, status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(3)
    )
    assert "outside of a run" in visible_text(reader.get(f"/sessions/{session.pk}/"))
    timeline = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert "outside of a run" in timeline
    assert re.search(r"Tool call completed [^–]{1,12} –", timeline)
    calls = visible_text(reader.get(f"/sessions/{session.pk}/calls/"))
    assert "outside of a run" in calls
    assert "Logged at" in calls
    record = visible_text(reader.get(f"/sessions/{session.pk}/calls/{call.pk}/"))
    assert "Run outside of a run" in record
    assert "run 0" not in timeline + calls + record


def test_turn_before_the_run_that_saved_it_is_outside_of_a_run(session: Session, reader: Client) -> None:
    """A framework's transcript has times from before the run that saves it."""
    read_run = make_run(
        session=session, number=0, status=RunStatus.COMPLETED, owner=False, host=IMPORTED_RUN_HOST, ended_at=later(1)
    )
    make_call(
        session=session, run=read_run, step=0, status=CallStatus.COMPLETED, issued_at=later(2), settled_at=later(3)
    )
    run = make_run(session=session, number=5, status=RunStatus.COMPLETED, owner=False, ended_at=later(900))
    Run.objects.filter(pk=run.pk).update(started_at=later(600))
    for seconds in (100, 200, 700):
        make_message(session=session, role="assistant")
        version = make_checkpoint(session=session, run=run)
        Checkpoint.objects.filter(pk=version.pk).update(created_at=later(seconds))
    versions = visible_text(reader.get(f"/sessions/{session.pk}/versions/"))
    assert versions.count("before run 5 this run saved it afterwards") == 2
    words = visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    found = re.findall(r"version (\d) saved [-\d:. ]+ .{1,16}? (–|5) (?=2025|Not)", words)
    assert found == [("1", "–"), ("2", "–"), ("3", "5")]


def test_name_of_a_lane_ends_before_its_line_in_each_language(session: Session) -> None:
    make_checkpoint(session=session)
    timeline = run_lanes.load_timeline_of_newest_runs(session.pk)
    (lane,) = timeline.lanes
    outside = replace(timeline, lanes=(replace(lane, run=replace(lane.run, number=0, host=IMPORTED_RUN_HOST)),))
    with override("de"):
        drawing = overview_layout.compute_run_lanes_layout(outside)
    assert drawing is not None
    (row,) = drawing.rows
    assert row.name == "kein Lauf"
    assert row.x >= len(row.name) * 7
