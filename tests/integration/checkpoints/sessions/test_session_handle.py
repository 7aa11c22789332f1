"""The session handle: one session from start or resume to release, in one `with` block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from checkpoints import Landed, SyncCheckpointer, SyncWriteBehind, ToolRegistry
from checkpoints.exceptions import (
    InvalidInput,
    NotOwner,
    OwnershipLost,
    ReviewRequired,
    SessionBusy,
    SessionFinished,
)
from checkpoints.models import Run, Session
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, conversation, lose_run, start_session


def owner() -> Run | None:
    return Session.objects.select_related("owner").get().owner


def tools(pay: Callable[[int], str], **options: Any) -> ToolRegistry:
    registry = ToolRegistry()
    registry.tool(name="pay", side_effects={"mutate"}, **options)(pay)
    return registry


def paid(order: int) -> str:
    return f"paid {order}"


def test_block_starts_the_session_and_releases_it(cp: SyncCheckpointer) -> None:
    with cp.session("s", "Refund order 17", agent="desk", labels=["vip"]) as session:
        assert (session.point.transcript, session.version, session.finished) == ([], 0, False)
        assert session.append(conversation("a"), plan={"goal": 1}, budget_spent_usd=0.5) == 1
        assert session.append(conversation("b")) == session.version == 2
        held = owner()
        assert held is not None
        assert held.status == "running"

    row = Session.objects.get()
    assert (row.title, row.agent, row.owner) == ("Refund order 17", "desk", None)
    assert Run.objects.get().status == "released"
    latest = cp.load_latest("s")
    assert latest is not None
    assert (latest["transcript"], latest["plan"], latest["budget_spent_usd"]) == (
        conversation("a") + conversation("b"),
        {"goal": 1},
        0.5,
    )


def test_next_block_continues_after_the_last_one(open_checkpointer: Open) -> None:
    for turn in range(4):
        with open_checkpointer().session("s", f"turn {turn}") as session:
            assert (session.version, len(session.point.transcript)) == (turn, turn)
            session.append(conversation("x"))

    assert Session.objects.get().title == "turn 0"
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["released"] * 4


def test_complete_transcript_can_be_saved(cp: SyncCheckpointer) -> None:
    with cp.session("s") as session:
        session.append(conversation("abc"), plan={"goal": 1}, budget_spent_usd=2)
        assert session.save(conversation("x"), usage={"total_tokens": 5}) == 2
        assert [each["message"] for each in session.messages()] == conversation("x")
    latest = cp.load("s", 2)

    assert (latest["transcript"], latest["plan"], latest["budget_spent_usd"]) == (conversation("x"), {"goal": 1}, 2)
    assert latest["usage"] == {"total_tokens": 5}


def test_handle_continues_after_versions_saved_by_the_client(cp: SyncCheckpointer) -> None:
    with cp.session("s") as session:
        session.append(conversation("a"))
        cp.save_checkpoint("s", conversation("ab"), None, 0)
        assert session.version == 2
        assert session.append(conversation("c")) == 3
        with SyncWriteBehind(cp) as writer:
            writer.save_checkpoint("s", conversation("abcd"), None, 0)
            assert session.append(conversation("e")) == 5


def test_open_call_is_interrupted_at_the_end_of_the_block(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    def die_in_the_block() -> None:
        with cp.session("s"):
            cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        die_in_the_block()
    assert call_statuses() == [("call_1", 1, "interrupted")]
    with pytest.raises(ReviewRequired), open_checkpointer().session("s"):
        raise AssertionError("an undecided call was passed")
    assert owner() is None


def test_handle_ends_when_the_session_is_finished(open_checkpointer: Open) -> None:
    with open_checkpointer().session("s") as session:
        session.append(conversation("a"))
        session.finish("completed", {"refunded": 40})
        assert (session.finished, session.result, session.version) == (True, {"refunded": 40}, 1)
        with pytest.raises(SessionFinished):
            session.append(conversation("b"))

    assert Run.objects.get().status == "completed"
    with open_checkpointer().session("s") as session:
        assert (session.finished, session.result, session.version) == (True, {"refunded": 40}, 1)
        assert session.point.transcript == conversation("a")
        with pytest.raises(SessionFinished):
            session.save(conversation("b"))
    assert Run.objects.count() == 1


def test_handle_writes_nothing_after_its_end(cp: SyncCheckpointer) -> None:
    with cp.session("s", registry=tools(paid)) as old:
        old.append(conversation("a"))
    with pytest.raises(NotOwner):
        old.append(conversation("b"))

    with cp.session("s", registry=tools(paid)):
        for late in (
            lambda: old.append(conversation("b")),
            lambda: old.save(conversation("b")),
            lambda: old.dispatch("pay", {"order": 17}, "call_1"),
            lambda: old.finish("completed"),
        ):
            with pytest.raises(NotOwner):
                late()
    assert (old.version, call_statuses()) == (1, [])


def test_lost_session_is_reported_and_not_changed(open_checkpointer: Open) -> None:
    with open_checkpointer().session("s") as session:
        lose_run(open_checkpointer)
        with pytest.raises(OwnershipLost):
            session.append(conversation("a"))

    held = owner()
    assert held is not None
    assert (held.number, held.status) == (2, "running")


def test_session_has_one_open_handle_at_a_time(cp: SyncCheckpointer) -> None:
    with cp.session("s") as session:
        with pytest.raises(SessionBusy, match="another handle"), cp.session("s"):
            raise AssertionError("two handles share a run")
        assert session.append(conversation("a")) == 1
    with cp.session("s") as session:
        assert session.append(conversation("b")) == 2


def test_handle_takes_over_from_one_of_the_same_process(cp: SyncCheckpointer) -> None:
    with cp.session("s") as old:
        with cp.session("s", takeover=True) as new:
            with pytest.raises(OwnershipLost):
                old.append(conversation("a"))
            assert new.append(conversation("b")) == 1
        with pytest.raises(NotOwner):
            old.append(conversation("a"))

    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["lost", "released"]


def test_handle_of_a_started_session_uses_the_same_run(cp: SyncCheckpointer) -> None:
    run = cp.start_session("s")
    with cp.session("s") as session:
        assert session.point.run == run
    assert Run.objects.get().status == "released"


def test_calls_are_logged_and_replayed(open_checkpointer: Open) -> None:
    registry = tools(paid)
    for replayed in (False, True):
        with open_checkpointer().session("s", registry=registry) as session:
            result = session.dispatch("pay", {"order": 17}, "call_1")
            assert (result.content, result.replayed) == ("paid 17", replayed)

    assert call_statuses() == [("call_1", 1, "completed")]


def test_one_registry_serves_several_sessions_at_once(cp: SyncCheckpointer) -> None:
    inside, leave = threading.Barrier(3), threading.Event()

    def pay(order: int) -> str:
        inside.wait(60)
        leave.wait(60)
        return f"paid {order}"

    registry = tools(pay)

    def request(session_id: str, order: int) -> None:
        with cp.session(session_id, registry=registry) as session:
            session.dispatch("pay", {"order": order}, "call_1")
        connection.close()

    threads = [threading.Thread(target=request, args=(f"s{order}", order)) for order in (1, 2)]
    for thread in threads:
        thread.start()
    inside.wait(60)
    assert {(sid, call_statuses(sid)[0][2]) for sid in ("s1", "s2")} == {("s1", "issued"), ("s2", "issued")}
    leave.set()
    for thread in threads:
        thread.join(60)

    assert (registry.checkpointer, registry.session_id) == (None, None)
    assert [(sid, call_statuses(sid)) for sid in ("s1", "s2")] == [
        ("s1", [("call_1", 1, "completed")]),
        ("s2", [("call_1", 1, "completed")]),
    ]


def test_hooks_of_the_registry_settle_interrupted_calls(open_checkpointer: Open) -> None:
    with start_session(open_checkpointer()) as first:
        first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    registry = tools(paid, verify=lambda args: Landed(f"found {args['order']}"))
    with open_checkpointer().session("s", registry=registry) as session:
        assert session.point.replayable["call_1"].content == "found 17"


def test_dispatch_without_tools_is_refused(cp: SyncCheckpointer) -> None:
    with cp.session("s") as session, pytest.raises(InvalidInput, match="registry=registry"):
        session.dispatch("pay", {"order": 17}, "call_1")


def test_resume_point_is_available_in_the_block(cp: SyncCheckpointer) -> None:
    session = cp.session("s")
    with pytest.raises(NotOwner):
        session.point  # noqa: B018
    assert not Session.objects.exists()


def test_handle_can_be_entered_again(cp: SyncCheckpointer) -> None:
    session = cp.session("s")
    with session:
        session.append(conversation("a"))
    with session:
        assert session.append(conversation("b")) == 2


# release_session


def test_released_session_is_taken_at_once_by_another(open_checkpointer: Open) -> None:
    first, second = open_checkpointer(), open_checkpointer()
    first.start_session("s")
    first.start_session("other")
    with pytest.raises(SessionBusy):
        second.start_session("s")

    assert first.release_session("s") is True
    assert second.start_session("s").number == 2
    assert first.save_checkpoint("other", [], None, 0) == 1
    with pytest.raises(NotOwner):
        first.save_checkpoint("s", [], None, 0)


def test_release_without_ownership_does_nothing(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    second = open_checkpointer()

    assert (second.release_session("s"), second.release_session("unknown")) == (False, False)
    assert (first.release_session("s"), first.release_session("s")) == (True, False)
    lose_run(open_checkpointer).finish_session("s", "completed")
    assert first.release_session("s") is False


def test_release_writes_queued_versions_and_interrupts_running_calls(cp: SyncCheckpointer) -> None:
    start_session(cp)
    with SyncWriteBehind(cp) as writer:
        cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
        ticket = writer.save_checkpoint("s", conversation("a"), None, 0)
        assert cp.release_session("s") is True
        assert ticket.durable

    assert call_statuses() == [("call_1", 1, "interrupted")]
    assert Session.objects.get().status == "needs_review"
