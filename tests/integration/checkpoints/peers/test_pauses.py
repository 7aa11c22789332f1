"""A pause stores state, calls and joins in one transaction and releases the session."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer
from checkpoints.db.clock import read_database_time
from checkpoints.exceptions import (
    CallInProgress,
    InvalidIdentifier,
    InvalidInput,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
    PausedForPeers,
    PeerCallExists,
    ReviewRequired,
    SessionNotFound,
    StillNeeded,
)
from checkpoints.models import AuditEvent, PausedTask, PeerCall, Run, Session, Workspace
from checkpoints.models import Join as JoinRow
from checkpoints.peers import Join, Paused
from checkpoints.peers import PeerCall as Call
from tests.conftest import Open
from tests.integration.checkpoints.peers.paused_agents import (
    accepted,
    expire_deadlines,
    join,
    pause,
    peer_call_statuses,
)
from tests.integration.checkpoints.session_setups import interrupt_call, start_session


def assert_nothing_written() -> bool:
    return not (PausedTask.objects.exists() or JoinRow.objects.exists() or PeerCall.objects.exists())


def test_pause_stores_state_and_releases_the_session(cp: SyncCheckpointer) -> None:
    assert pause(cp, join("both", "c1", "c2"), join("one", "c3")) == Paused("s", 1, (), ready=False)

    session, task, run = Session.objects.get(), PausedTask.objects.get(), Run.objects.get()
    assert (session.status, session.owner, run.status) == ("paused", None, "released")
    assert (task.number, task.version, task.status, task.state) == (1, 1, "waiting", '{"step":1}')
    assert list(JoinRow.objects.order_by("pk").values_list("join_id", "completed", "total")) == [
        ("both", 0, 2),
        ("one", 0, 1),
    ]
    assert peer_call_statuses() == {"c1": "waiting", "c2": "waiting", "c3": "waiting"}
    assert AuditEvent.objects.filter(kind="paused_for_peers").count() == 1
    with pytest.raises(NotOwner):
        cp.save_checkpoint("s", [], None, 0)


def test_deadlines_are_computed_by_the_database_clock(cp: SyncCheckpointer) -> None:
    moment = datetime(2100, 1, 2, 3, 4, 5, tzinfo=UTC)
    before = read_database_time("default")
    calls = [
        Call("default", "stock"),
        Call("seconds", "stock", deadline=90),
        Call("duration", "stock", deadline=timedelta(hours=2)),
        Call("moment", "stock", deadline=moment),
    ]
    pause(cp, Join("j", calls))
    after = read_database_time("default")

    deadlines = dict(PeerCall.objects.values_list("call_id", "deadline"))
    ahead = {"default": timedelta(minutes=10), "seconds": timedelta(seconds=90), "duration": timedelta(hours=2)}
    for call_id, delta in ahead.items():
        assert before + delta <= deadlines[call_id] <= after + delta
    assert deadlines["moment"] == moment


@pytest.mark.parametrize(
    "deadline",
    [-1, timedelta(days=-1), datetime(2100, 1, 1), float("nan"), float("inf"), "soon", None],  # noqa: DTZ001
)
def test_invalid_deadline_is_refused(cp: SyncCheckpointer, deadline: Any) -> None:
    with pytest.raises(InvalidInput):
        pause(cp, join("j", "c1", deadline=deadline))
    assert assert_nothing_written()


@pytest.mark.parametrize(
    ("joins", "error"),
    [
        ([], InvalidInput),
        ([Join("j", [])], InvalidInput),
        ([join("j", "c1"), join("j", "c2")], InvalidInput),
        ([join("j", "c1"), join("k", "c1")], InvalidInput),
        ([join("", "c1")], InvalidIdentifier),
        ([join("j", "c\n1")], InvalidIdentifier),
        ([Join("j", [Call("c1", "")])], InvalidIdentifier),
        ([Join("j", [Call("c1", "stock", {1, 2})])], NotRepresentable),
    ],
)
def test_invalid_joins_are_refused_and_nothing_is_written(
    cp: SyncCheckpointer, joins: list[Join], error: type[Exception]
) -> None:
    with pytest.raises(error):
        pause(cp, *joins)
    assert assert_nothing_written()
    assert cp.save_checkpoint("s", [], None, 0) == 2


@pytest.mark.parametrize("state", [None, [1], "text", {"a": float("nan")}, {1: 2}])
def test_state_without_an_exact_json_form_is_refused(cp: SyncCheckpointer, state: Any) -> None:
    start_session(cp)

    with pytest.raises(NotRepresentable):
        cp.pause_for_peers("s", state, [join("j", "c1")])
    assert assert_nothing_written()


def test_duplicate_call_id_is_refused_and_the_run_continues(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    pause(open_checkpointer(), join("j", "c1"), session_id="other")

    with pytest.raises(PeerCallExists, match="'c1'"):
        pause(cp, join("j", "c2", "c1"))
    assert peer_call_statuses() == {}
    assert pause(cp, join("j", "c2")).number == 1


def test_pause_requires_ownership(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    start_session(cp)
    other = open_checkpointer()
    with pytest.raises(NotOwner):
        other.pause_for_peers("s", {}, [join("j", "c1")])
    with pytest.raises(SessionNotFound):
        other.pause_for_peers("t", {}, [join("j", "c1")])
    other.start_session("s", takeover=True)

    with pytest.raises(OwnershipLost):
        cp.pause_for_peers("s", {}, [join("j", "c1")])
    assert assert_nothing_written()


def test_pause_is_refused_with_running_or_undecided_calls(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    start_session(cp).record_tool_call_issued("s", "call_1", "pay", {}, "key")
    with pytest.raises(CallInProgress):
        cp.pause_for_peers("s", {}, [join("j", "c1")])
    cp.record_tool_call_result("s", "call_1", "paid", True)
    taker, _ = interrupt_call(cp, open_checkpointer, call_id="call_2")

    with pytest.raises(ReviewRequired):
        taker.pause_for_peers("s", {}, [join("j", "c1")])
    assert assert_nothing_written()


def test_paused_session_cannot_be_resumed(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))

    for again in (cp.resume, cp.start_session):
        with pytest.raises(PausedForPeers):
            again("s")
    assert (Session.objects.get().status, Run.objects.count()) == ("paused", 1)


def test_paused_session_is_not_removed(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    cp.prune("s", keep_last=1)

    with pytest.raises(StillNeeded):
        cp.delete_session("s")
    with pytest.raises(StillNeeded):
        cp.delete_checkpoint("s", 1)
    assert accepted(cp, "c1") == (True, 1, 1)


def test_finished_session_is_removed_with_its_peer_calls(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"), join("k", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.finish_session("s", "completed")
    cp.delete_session("s")

    assert assert_nothing_written()
    assert not Session.objects.exists()


def test_repeated_pauses(cp: SyncCheckpointer) -> None:
    """Each pause has its own row and state; join ids may be reused."""
    for number in range(1, 4):
        assert pause(cp, join("j", f"c{number}"), state={"pause": number}).number == number
        assert accepted(cp, f"c{number}", number) == (True, 1, 1)
        task = cp.take_paused("s")
        assert (task.state, task.results[f"c{number}"].result) == ({"pause": number}, number)
        assert [each.pause for each in task.joins] == [number]
    assert list(PausedTask.objects.order_by("number").values_list("status", flat=True)) == ["over", "over", "taken"]


def test_second_pause_without_a_version_uses_the_taken_join(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    accepted(cp, "c1")
    cp.take_paused("s")

    assert cp.pause_for_peers("s", {"has": "c1"}, [join("j", "c2")]).ready is False
    assert cp.list_paused(ready=True) == []
    accepted(cp, "c2")
    assert list(cp.take_paused("s").results) == ["c2"]


def test_second_join_of_the_same_pause_survives_the_first(cp: SyncCheckpointer) -> None:
    pause(cp, join("first", "c1"), join("second", "c2", "c3"))
    accepted(cp, "c1")
    taken = cp.take_paused("s")
    cp.append_checkpoint("s", [], expected_version=1)

    assert (list(taken.results), taken.open) == (["c1"], ("second",))
    assert accepted(cp, "c2") == (False, 1, 2)
    assert cp.pause_for_peers("s", {"step": 2}, [join("third", "c4")]) == Paused("s", 2, (), ready=False)
    assert accepted(cp, "c3") == (True, 2, 2)
    second = cp.take_paused("s")
    assert (second.state, list(second.results), second.open) == ({"step": 2}, ["c2", "c3"], ("third",))


def test_pause_reports_a_join_that_was_completed_during_the_run(cp: SyncCheckpointer) -> None:
    pause(cp, join("first", "c1"), join("second", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    accepted(cp, "c2")

    assert cp.pause_for_peers("s", {}, [join("third", "c3")]) == Paused("s", 2, (), ready=True)
    assert list(cp.take_paused("s").results) == ["c2"]


def test_deadline_is_kept_through_a_second_pause(cp: SyncCheckpointer) -> None:
    pause(cp, join("first", "c1"), join("second", "c2"))
    accepted(cp, "c1")
    cp.take_paused("s")
    cp.pause_for_peers("s", {}, [join("third", "c3")])
    expire_deadlines("c2")

    assert cp.sweep_deadlines().complete == (("s", "second"),)


def test_two_workspaces_may_use_the_same_call_id(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    Workspace.objects.create(slug="other", name="Other")
    other = open_checkpointer(workspace="other")
    pause(cp, join("j", "c1"))
    pause(other, join("j", "c1", "c2"))

    assert accepted(other, "c1") == (False, 1, 2)
    assert accepted(cp, "c1") == (True, 1, 1)


def test_pause_is_rolled_back_when_its_last_write_fails(cp: SyncCheckpointer) -> None:
    """A failure of the last statement leaves the run unchanged."""
    start_session(cp)
    cp.save_checkpoint("s", [], None, 0)

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "checkpoints_auditevent" in sql:
            raise RuntimeError("the power went out")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(fail), pytest.raises(RuntimeError):
        cp.pause_for_peers("s", {}, [join("j", "c1")])
    assert assert_nothing_written()
    assert (Session.objects.get().status, cp.save_checkpoint("s", [], None, 0)) == ("active", 2)


def test_name_of_an_agent_that_no_database_stores_lists_no_paused_session(cp: SyncCheckpointer) -> None:
    pause(cp, join("j", "c1"))
    assert cp.list_paused(agent="\0") == cp.list_paused(agent="no\0body") == []
