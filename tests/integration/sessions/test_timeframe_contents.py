"""Items of a timeline in a period."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from checkpoints.enums import (
    ActorKind,
    AuditKind,
    CallStatus,
    DecisionKind,
    JoinStatus,
    PauseStatus,
    PeerCallStatus,
    Phase,
    RunStatus,
)
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Checkpoint, Join, PausedTask, PeerCall, Run, Session
from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.sessions.timeline.selectors import running_totals_by_version, timeframe_contents
from harness_site.sessions.timeline.selectors.lane_turns import Turn
from harness_site.sessions.timeline.selectors.run_lanes import Stretch
from harness_site.sessions.timeline.selectors.timeframe_contents import Event, PeerWait
from harness_site.sessions.timeline.selectors.timeline_queries import CallGroupSize
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
)

pytestmark = pytest.mark.django_db


def later(seconds: float) -> datetime:
    return THEN + timedelta(seconds=seconds)


def at(seconds: float) -> int:
    return convert_to_microseconds(later(seconds))


def run(session: Session, start: float, end: float, **fields: Any) -> Run:
    return make_run(session=session, started_at=later(start), heartbeat_at=later(end), **fields)


def save(session: Session, seconds: float, phase: Phase = Phase.TURN, **fields: Any) -> Checkpoint:
    saved = make_checkpoint(session=session, phase=phase, **fields)
    Checkpoint.objects.filter(pk=saved.pk).update(created_at=later(seconds))
    return saved


def call(session: Session, start: float, end: float | None, name: str, **fields: Any) -> Any:
    fields.setdefault("status", CallStatus.COMPLETED)
    settled = None if end is None else later(end)
    return make_call(session=session, call_id=name, issued_at=later(start), settled_at=settled, **fields)


@pytest.fixture
def session() -> Session:
    session = make_session()
    run(session, 0, 10)
    return session


def read(
    session: Session,
    since: float | None = None,
    until: float | None = None,
    group_size: CallGroupSize | None = None,
) -> timeframe_contents.Timeframe:
    frame = timeframe_contents.load_timeframe(
        session.pk,
        since=None if since is None else later(since),
        until=None if until is None else later(until),
        group_size=group_size,
    )
    assert frame is not None
    return frame


def test_turn_spans_from_the_previous_version_to_its_own(session: Session) -> None:
    save(session, 1, Phase.RUN_STARTED)
    save(session, 2, Phase.PRE_LLM)
    save(session, 5, Phase.POST_LLM, length=3)
    save(session, 6, Phase.POST_TOOL_BATCH)
    save(session, 8, Phase.POST_SUBAGENT_BATCH)
    save(session, 9)
    (course,) = read(session).courses
    assert course.turns == [
        Turn("model", at(2), at(5), 3, 3),
        Turn("tools", at(5), at(6), 4, 0),
        Turn("agents", at(6), at(8), 5, 0),
        Turn("turn", at(8), at(9), 6, 0),
    ]
    assert [mark.version for mark in course.lane.marks] == [1, 2, 3, 4, 5, 6]


def save_version_for_each_message(session: Session, *messages: tuple[str, float]) -> None:
    """Save messages, of which each has a role and a time in seconds, in a version of their own."""
    for number, (role, seconds) in enumerate(messages, 1):
        make_message(session=session, role=role, text="text")
        save(session, seconds, length=number)


def test_time_until_the_next_prompt_of_a_person_is_no_turn(session: Session) -> None:
    save_version_for_each_message(session, ("user", 0), ("assistant", 4), ("user", 304), ("assistant", 309))
    (course,) = read(session).courses
    assert [(turn.version, turn.start, turn.end) for turn in course.turns] == [(2, at(0), at(4)), (4, at(304), at(309))]


def test_result_of_a_tool_with_the_role_of_a_person_is_part_of_a_turn(session: Session) -> None:
    save_version_for_each_message(session, ("user", 0), ("assistant", 4), ("user", 9))
    call(session, 5, 8, "a")
    (course,) = read(session).courses
    assert [turn.version for turn in course.turns] == [2, 3]


def test_last_version_of_a_run_ends_a_model_turn_if_it_adds_an_answer(session: Session) -> None:
    make_messages(session=session, texts=("May I have my money back?", "Yes."))
    save(session, 1, length=1)
    save(session, 5, Phase.RUN_TERMINAL, length=2)
    save(session, 6, Phase.RUN_TERMINAL, length=2)
    (course,) = read(session).courses
    assert course.turns == [Turn("model", at(1), at(5), 2, 2)]


def test_waiting_is_not_part_of_a_turn(session: Session) -> None:
    rejected = call(session, 2, None, "a", status=CallStatus.REJECTED)
    make_decision(call=rejected, kind=DecisionKind.REJECT, created_at=later(7))
    save(session, 1, Phase.POST_LLM, length=3)
    save(session, 9, Phase.POST_TOOL_BATCH, length=4)
    (course,) = read(session).courses
    assert [(turn.kind, turn.periods_of_work, turn.worked_microseconds) for turn in course.turns] == [
        ("model", ((at(0), at(1)),), 1_000_000),
        ("tools", ((at(1), at(2)), (at(7), at(9))), 3_000_000),
    ]


def test_calls_waits_and_events_are_on_their_runs(session: Session) -> None:
    lost = call(session, 2, 60, "a", interrupted_at=later(11))
    make_decision(call=lost, created_at=later(60))
    Run.objects.update(status=RunStatus.LOST, ended_at=later(11))
    run(session, 11, 61)
    first, second = read(session).courses
    assert first.lane.stretches == [Stretch("lost", at(2), at(11), "refund_card", lost.pk)]
    assert second.lane.stretches == [Stretch("wait", at(11), at(60), "refund_card", lost.pk)]
    assert first.events == [Event("crash", at(11), at(11))]
    assert second.events == [
        Event("decision", at(60), at(60), DecisionKind.CONFIRM_LANDED, "alice", "refund_card", lost.pk)
    ]


def test_run_that_was_taken_over_is_labelled(session: Session) -> None:
    AuditEvent.objects.create(
        workspace=session.workspace,
        session=session,
        kind=AuditKind.TAKEOVER,
        actor_kind=ActorKind.MACHINE,
        actor="run 1",
        created_at=later(9),
    )
    Run.objects.update(status=RunStatus.LOST, ended_at=later(9))
    (course,) = read(session).courses
    assert course.events == [Event("takeover", at(9), at(9))]


def pause(session: Session, status: PeerCallStatus, end: float | None) -> None:
    first = session.runs.get(number=1)
    task = PausedTask.objects.create(
        session=session,
        number=1,
        run=first,
        version=1,
        state="{}",
        status=PauseStatus.TAKEN,
        paused_at=later(10),
        taken_at=later(30),
    )
    join = Join.objects.create(session=session, task=task, join_id="j", total=1, status=JoinStatus.COMPLETE)
    PeerCall.objects.create(
        workspace=session.workspace,
        session=session,
        join=join,
        call_id="p",
        peer="stock",
        request="{}",
        status=status,
        created_at=later(10),
        deadline=later(40),
        settled_at=None if end is None else later(end),
    )


def test_peer_waits_are_on_the_paused_run(session: Session) -> None:
    pause(session, PeerCallStatus.ANSWERED, 20)
    run(session, 30, 40)
    first, _ = read(session).courses
    assert first.asked == [PeerWait("peer", at(10), at(20), "stock", PeerCallStatus.ANSWERED)]
    assert first.events == [Event("pause", at(10), at(10)), Event("taken", at(30), at(30))]


def test_open_peer_wait_lasts_until_now(session: Session) -> None:
    pause(session, PeerCallStatus.WAITING, None)
    frame = read(session)
    assert frame.courses[0].asked[0].end > at(86_400)
    assert convert_to_microseconds(frame.until) == frame.courses[0].asked[0].end


def test_only_items_in_the_period_are_included(session: Session) -> None:
    for seconds in (1, 2, 3, 4):
        save(session, seconds)
    before = call(session, 0, 1, "before")
    into = call(session, 1, 2.5, "into")
    around = call(session, 1, 9, "around")
    after = call(session, 3.5, 4, "after")
    frame = read(session, 2.2, 3.2)
    (course,) = frame.courses
    assert [stretch.call_pk for stretch in course.lane.stretches] == [into.pk, around.pk]
    assert {before.pk, after.pk}.isdisjoint({stretch.call_pk for stretch in course.lane.stretches})
    assert [(turn.start, turn.end) for turn in course.turns] == [(at(2), at(3)), (at(3), at(4))]
    assert [mark.version for mark in course.lane.marks] == [3]
    assert (frame.since, frame.until) == (later(2.2), later(3.2))


def test_wait_after_its_run_is_included_later(session: Session) -> None:
    Run.objects.update(status=RunStatus.LOST, ended_at=later(10))
    waits = call(session, 2, None, "a", status=CallStatus.INTERRUPTED, interrupted_at=later(10))
    (course,) = read(session, 5_000, 6_000).courses
    assert [(stretch.kind, stretch.call_pk) for stretch in course.lane.stretches] == [("wait", waits.pk)]


def test_period_ends_with_the_last_item(session: Session) -> None:
    call(session, 2, 25, "a")
    assert (read(session).since, read(session).until) == (later(0), later(25))


def test_start_of_truncated_items_is_reported(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeframe_contents, "LIMIT", 3)
    # Their ids have another order than their times, and all of them follow the same version.
    made = [call(session, number, number + 0.5, str(9 - number)) for number in range(5)]
    frame = read(session)
    assert (frame.cut, frame.since) == (later(2), later(2))
    assert [stretch.call_pk for stretch in frame.courses[0].lane.stretches] == [each.pk for each in made[2:]]
    rest = read(session, None, 1.9)
    assert rest.cut is None
    assert [stretch.call_pk for stretch in rest.courses[0].lane.stretches] == [each.pk for each in made[:2]]


def list_calls(frame: timeframe_contents.Timeframe) -> list[tuple[str, int, int, int]]:
    """Return kind, start, end and number of the calls of each stretch, in order of time."""
    stretches = [stretch for course in frame.courses for stretch in course.lane.stretches]
    return sorted(((each.kind, each.start, each.end, each.number) for each in stretches), key=lambda each: each[1:])


def test_short_completed_calls_are_grouped_if_there_are_many(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeframe_contents, "SINGLE_CALLS", 8)
    for second in (1, 2, 3, 21, 22):
        call(session, second, second + 0.5, f"short-{second}")
    call(session, 4, 30, "long")
    call(session, 5, 6, "failed", status=CallStatus.FAILED)
    call(session, 7, None, "running", status=CallStatus.ISSUED)
    call(session, 7.2, 7.8, "interrupted", interrupted_at=later(7.4))
    allowed = call(session, 8, 9, "allowed")
    make_decision(call=allowed, kind=DecisionKind.APPROVE, created_at=later(7.5))
    size = CallGroupSize(microseconds=20_000_000, steps=100)
    assert list_calls(read(session, group_size=size)) == [
        ("ran", at(1), at(3.5), 3),
        ("ran", at(4), at(30), 1),
        ("failed", at(5), at(6), 1),
        ("running", at(7), at(10), 1),
        ("lost", at(7.2), at(7.4), 1),
        ("wait", at(7.4), at(7.8), 1),
        ("ran", at(8), at(9), 1),
        ("ran", at(21), at(22.5), 2),
    ]
    few = read(session, 0.5, 4.5, group_size=size)
    assert [number for *_, number in list_calls(few)] == [1] * 4


def test_calls_of_other_steps_and_runs_are_in_other_groups(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeframe_contents, "SINGLE_CALLS", 1)
    first, other = session.runs.get(), run(session, 0, 10, number=2)
    for number, step in enumerate((1, 2, 11, 12, 12)):
        call(session, 1 + number / 10, 2, f"a-{number}", step=step, run=first)
    call(session, 1, 2, "b", step=1, run=other)
    frame = read(session, group_size=CallGroupSize(microseconds=10_000_000, steps=10))
    assert [[each.number for each in course.lane.stretches] for course in frame.courses] == [[2, 3], [1]]


def test_earlier_runs_are_counted_separately(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeframe_contents, "LANES", 2)
    Run.objects.update(ended_at=later(10), status=RunStatus.RELEASED)
    run(session, 20, 30, status=RunStatus.RELEASED, ended_at=later(30))
    run(session, 40, 50, status=RunStatus.RELEASED, ended_at=later(50))
    frame = read(session)
    assert ([course.lane.run.number for course in frame.courses], frame.cut) == ([2, 3], later(20))
    assert [course.lane.run.number for course in read(session, None, 19).courses] == [1]


def test_session_without_items_has_no_timeline() -> None:
    assert timeframe_contents.load_timeframe(make_session().pk) is None


def test_chart_has_a_bounded_number_of_points_with_the_newest(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_totals_by_version, "POINTS", 4)
    for number in range(10):
        save(session, number, budget_spent_usd=f"0.{number}", usage=to_canonical_json({"total_tokens": number}))
    found = running_totals_by_version.load_sampled_running_totals(session.pk)
    assert ([point.version for point in found.points], found.total, found.step) == ([1, 4, 7, 10], 10, 3)
    assert [(point.cost, point.tokens) for point in found.points][-1] == (Decimal("0.9"), 9)
    part = running_totals_by_version.load_sampled_running_totals(session.pk, since=later(1), until=later(3))
    assert ([point.version for point in part.points], part.step) == ([2, 3, 4], 1)
    assert (found.before, part.before) == (None, found.points[0])
