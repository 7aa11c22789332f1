"""Rows that somebody removes or alters while a run lives do not let a call of that run happen again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from checkpoints import NotLanded, SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    ApprovalRequired,
    IntegrityError,
    NotOwner,
    ResultNotRecorded,
    ReviewRequired,
    SessionNotFound,
    SessionQuarantined,
    StorageError,
    WitnessAhead,
)
from checkpoints.formats import digests
from checkpoints.integrity.verify_session_rows import VerificationCounts, iterate_session_problems
from checkpoints.models import Checkpoint, Run, Session, ToolCall, WorkflowStep
from checkpoints.peers import Join, PeerCall
from checkpoints.seals import session_heads
from checkpoints.store import optimistic_lock_on_sealed_heads
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.integrity.conftest import KEY
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_witness import remember_state
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.integration.checkpoints.workflows import order_workflow
from tests.support.processes import database_url


@pytest.fixture
def paid() -> list[int]:
    return []


def make_registry(cp: SyncCheckpointer, paid: list[int], session_id: str = "s", **options: Any) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id=session_id)

    def pay(order: int) -> str:
        paid.append(order)
        if order < 0:
            raise ValueError("there is no such order")
        return f"paid {order}"

    registry.tool(side_effects={"mutate"}, **options)(pay)
    return registry


def delete_calls() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM checkpoints_toolcall")


ATTACKS: dict[str, Callable[[], object]] = {
    "deleted": delete_calls,
    "renamed": lambda: plain(ToolCall).update(idempotency_key="other"),
    "not live": lambda: plain(ToolCall).update(status="failed"),
    "moved": lambda: plain(ToolCall).update(session=plain(Session).get(session_id="other")),
    "unsealed": lambda: plain(ToolCall).update(status="failed", row_seal=None),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("resumed", [False, True], ids=["same run", "after a resume"])
def test_call_that_was_removed_or_altered_does_not_run_again(
    open_checkpointer: Open, paid: list[int], attack: str, resumed: bool
) -> None:
    cp = start_session(open_checkpointer())
    start_session(cp, "other")
    assert make_registry(cp, paid).dispatch("pay", {"order": 17}, "call_1").content == "paid 17"
    if resumed:
        cp.close()
        cp = open_checkpointer()
        cp.resume("s")
    ATTACKS[attack]()

    with pytest.raises(IntegrityError):
        make_registry(cp, paid).dispatch("pay", {"order": 17}, "call_1")
    assert paid == [17]
    with pytest.raises((IntegrityError, SessionQuarantined)):
        open_checkpointer().resume("s")


@pytest.mark.parametrize("attack", ATTACKS)
def test_call_of_another_session_that_was_replayed_and_then_removed_does_not_run_again(
    open_checkpointer: Open, paid: list[int], attack: str
) -> None:
    first, second = start_session(open_checkpointer()), start_session(open_checkpointer(), "other")
    options: dict[str, Any] = {"scope": "workspace"}
    make_registry(first, paid, **options).dispatch("pay", {"order": 17}, "call_1")
    registry = make_registry(second, paid, "other", **options)
    assert registry.dispatch("pay", {"order": 17}, "call_1").content == "paid 17"
    ATTACKS[attack]()

    for call_id in ("call_2", "call_3"):
        with pytest.raises((IntegrityError, SessionQuarantined)):
            registry.dispatch("pay", {"order": 17}, call_id)
    assert paid == [17]


@pytest.mark.parametrize("act", ["repeat", "new call", "save", "report", "as the first write"])
def test_run_whose_session_was_put_back_whole_writes_nothing_more(
    open_checkpointer: Open, paid: list[int], act: str
) -> None:
    cp = start_session(open_checkpointer())
    registry = make_registry(cp, paid)
    registry.dispatch("pay", {"order": 17}, "call_1")
    cp.record_tool_call_issued("s", "call_2", "mail", {}, "mail 1")
    put_back = remember_state()
    registry.dispatch("pay", {"order": 18}, "call_3")
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    if act == "as the first write":
        cp.record_tool_call_result("s", "call_2", "sent", True)
        cp.release_session("s")
        cp.resume("s")
    put_back()
    acts: dict[str, Callable[[], object]] = {
        "repeat": lambda: registry.dispatch("pay", {"order": 18}, "call_3"),
        "new call": lambda: registry.dispatch("pay", {"order": 19}, "call_4"),
        "save": lambda: cp.save_checkpoint("s", conversation("abc"), {}, 0),
        "as the first write": lambda: registry.dispatch("pay", {"order": 19}, "call_4"),
        "report": lambda: cp.record_tool_call_result("s", "call_2", "sent", True),
    }

    for _ in range(2):
        with pytest.raises(IntegrityError, match="put back to a former state"):
            acts[act]()
    assert paid == [17, 18]
    plain(ToolCall).update(status="failed")  # nothing is left to interrupt


@pytest.mark.parametrize("attack", ["deleted", "not live", "moved", "forged"])
def test_result_of_a_tool_whose_call_is_altered_while_it_runs_is_not_lost(
    open_checkpointer: Open, paid: list[int], attack: str
) -> None:
    cp = start_session(open_checkpointer())
    start_session(cp, "other")
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    forged = {"status": "completed", "result": '"forged"', "result_digest": digests.digest_text('"forged"')}

    @registry.tool
    def pay(order: int) -> str:
        paid.append(order)
        ATTACKS.get(attack, lambda: plain(ToolCall).update(**forged))()
        return f"paid {order}"

    with pytest.raises(ResultNotRecorded) as caught:
        registry.dispatch("pay", {"order": 17}, "call_1")
    assert caught.value.result == "paid 17"
    assert isinstance(caught.value.__cause__, IntegrityError)
    with pytest.raises((IntegrityError, SessionQuarantined, NotOwner)):
        registry.dispatch("pay", {"order": 17}, "call_1")
    assert paid == [17]
    assert plain(Session).filter(quarantined_at=None).get().session_id == "other"
    cp.save_checkpoint("other", conversation("ab"), {}, 0)


ACTS: dict[str, Callable[[SyncCheckpointer], object]] = {
    "finish": lambda cp: cp.finish_session("s", "completed", "done"),
    "pause": lambda cp: cp.pause_for_peers("s", {}, [Join("j", [PeerCall("p", "stock")])]),
    "workflow": lambda cp: cp.workflow("s", "books"),
    "step": lambda cp: cp.workflow("s", "orders").step("two", str.upper, "b"),
}


@pytest.mark.parametrize("act", ACTS)
def test_act_that_finds_an_altered_row_puts_the_session_under_quarantine(open_checkpointer: Open, act: str) -> None:
    cp = start_session(open_checkpointer())
    cp.workflow("s", "orders").step("one", str.upper, "a")
    plain(Session).update(session_id="renamed", head_number=99)
    plain(WorkflowStep).update(function="other")
    with pytest.raises(IntegrityError):
        ACTS[act](cp)
    assert plain(Session).get().quarantined_at is not None


def test_head_that_another_thread_of_the_run_replaces_after_it_was_read_is_no_former_state(
    open_checkpointer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    cp = start_session(open_checkpointer())
    owned_session = cp.store.get_owned_session("s")
    owned_session.sealed_head = None

    def build_head_before_another_write(row: Any, keys: Any) -> Any:
        head = build(row, keys)
        owned_session.newest_head = (head.number + 1, b"another")
        return head

    build = session_heads.verify_session_row_and_build_head
    monkeypatch.setattr(session_heads, "verify_session_row_and_build_head", build_head_before_another_write)
    head = optimistic_lock_on_sealed_heads.get_or_load_head_and_seal_if_unsealed("default", owned_session)
    assert head is not None
    assert head.number == owned_session.newest_head[0] - 1


def test_call_that_is_gone_while_its_verify_hook_is_asked_is_a_typed_error(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    put_back = remember_state()
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    def was_mailed(args: dict[str, Any]) -> NotLanded:
        put_back()
        return NotLanded()

    @registry.tool(verify=was_mailed)
    def mail(order: int) -> str:
        raise TimeoutError(f"no answer about order {order}")

    with pytest.raises(SessionNotFound):
        registry.dispatch("mail", {"order": 17}, "call_1")


def test_client_that_cannot_release_a_session_releases_the_others(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    start_session(cp, "other")
    cp.record_tool_call_issued("s", "call_1", "mail", {}, "mail 1")
    put_back = remember_state()
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    put_back()
    with pytest.raises(IntegrityError):
        cp.close()
    assert plain(Session).get(session_id="s").owner is not None
    assert plain(Session).get(session_id="other").owner is None
    plain(ToolCall).update(status="failed")  # nothing is left to interrupt


def log_shared_call(open_checkpointer: Open, paid: list[int]) -> SyncCheckpointer:
    """Let session `s` pay order 17, with a key that holds in the whole workspace."""
    first = start_session(open_checkpointer())
    make_registry(first, paid, scope="workspace").dispatch("pay", {"order": 17}, "call_1")
    return first


def replay_shared_call(open_checkpointer: Open, paid: list[int]) -> str:
    """Let session `other` ask for the same, for the first time."""
    second = start_session(open_checkpointer(), "other")
    return make_registry(second, paid, "other", scope="workspace").dispatch("pay", {"order": 17}, "call_1").content


def test_run_keeps_no_arguments_of_its_calls_in_memory(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {"text": "a long text"}, "key")
    owned_session = cp.store.get_owned_session("s")
    (remembered,) = owned_session.sealed_calls.values()
    assert "a long text" not in repr(remembered)
    cp.record_tool_call_result("s", "call_1", "paid", True)
    assert not owned_session.sealed_calls


def test_call_of_an_intact_session_is_replayed(open_checkpointer: Open, paid: list[int], witness: Path) -> None:
    log_shared_call(open_checkpointer, paid)
    assert replay_shared_call(open_checkpointer, paid) == "paid 17"
    assert paid == [17]


def test_call_of_a_session_with_a_missing_row_is_not_replayed(open_checkpointer: Open, paid: list[int]) -> None:
    first = log_shared_call(open_checkpointer, paid)
    first.save_checkpoint("s", conversation("ab"), {}, 0)
    plain(Checkpoint).filter(session__session_id="s").delete()

    with pytest.raises(IntegrityError):
        replay_shared_call(open_checkpointer, paid)
    assert paid == [17]
    assert plain(Session).get(session_id="s").quarantined_at is not None
    assert plain(Session).get(session_id="other").quarantined_at is None
    with pytest.raises(IntegrityError):
        open_checkpointer().find_completed_call(plain(ToolCall).get().idempotency_key)


def test_call_of_a_session_that_was_put_back_whole_is_not_replayed(
    open_checkpointer: Open, paid: list[int], witness: Path
) -> None:
    first = log_shared_call(open_checkpointer, paid)
    former = (
        plain(Session).values("head_number", "row_sum", "row_seal", "newest_seal", "latest_version", "status").get()
    )
    calls = list(plain(ToolCall).values())
    first.record_tool_call_issued("s", "call_2", "mail", {}, "mail")
    plain(ToolCall).exclude(pk__in=[call["id"] for call in calls]).delete()
    plain(Session).update(**former)

    with pytest.raises(WitnessAhead):
        replay_shared_call(open_checkpointer, paid)
    assert paid == [17]


def test_key_is_free_again_when_the_other_session_has_been_deleted(open_checkpointer: Open, paid: list[int]) -> None:
    first, second = start_session(open_checkpointer()), start_session(open_checkpointer(), "other")
    options: dict[str, Any] = {"scope": "workspace"}
    make_registry(first, paid, **options).dispatch("pay", {"order": 17}, "call_1")
    registry = make_registry(second, paid, "other", **options)
    registry.dispatch("pay", {"order": 17}, "call_1")
    first.close()
    first.delete_session("s")
    assert registry.dispatch("pay", {"order": 17}, "call_2").content == "paid 17"
    assert paid == [17, 17]


def test_failed_call_runs_again(open_checkpointer: Open, paid: list[int]) -> None:
    registry = make_registry(start_session(open_checkpointer()), paid)
    assert registry.dispatch("pay", {"order": -1}, "call_1").is_error
    assert registry.dispatch("pay", {"order": -1}, "call_1").is_error
    assert paid == [-1, -1]


def test_key_is_free_again_after_a_person_has_marked_its_call_as_failed(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    first.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    first.close()
    cp = open_checkpointer()
    with pytest.raises(ReviewRequired):
        cp.resume("s")
    (call,) = cp.pending_tool_calls("s")
    cp.mark_failed("s", "call_1", actor="alice", reason="It was not paid.", revision=call["revision"])
    cp.resume("s")
    cp.record_tool_call_issued("s", "call_2", "pay", {"order": 17}, "key")
    cp.record_tool_call_result("s", "call_2", "paid", True)
    assert cp.find_completed_call("key")


def test_approval_that_was_used_does_not_hold_again(open_checkpointer: Open, paid: list[int]) -> None:
    cp = start_session(open_checkpointer())
    registry = make_registry(cp, paid, requires_approval=True)
    with suppress(ApprovalRequired):
        registry.dispatch("pay", {"order": 17}, "call_1")
    cp.approve_call("s", "call_1", actor="alice", reason="I looked.", revision=1)
    approved = plain(ToolCall).values().get()
    assert approved["status"] == "approved"
    assert registry.dispatch("pay", {"order": 17}, "call_1").content == "paid 17"
    plain(ToolCall).update(**approved)  # with its own seal

    with pytest.raises(IntegrityError):
        registry.dispatch("pay", {"order": 17}, "call_1")
    assert paid == [17]


@pytest.mark.skipif(connection.vendor == "postgresql", reason="its keys cannot be switched off so")
def test_removed_run_is_a_typed_error_of_a_call_that_needs_approval(open_checkpointer: Open, paid: list[int]) -> None:
    cp = start_session(open_checkpointer())
    registry = make_registry(cp, paid, requires_approval=True)
    with connection.constraint_checks_disabled():
        plain(Run).all()._raw_delete("default")
    with pytest.raises(StorageError):
        registry.dispatch("pay", {"order": 17}, "call_1")
    assert paid == []


def test_program_with_its_own_connection_opens_a_workflow(
    open_checkpointer: Open, start_child: StartChild, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cp = open_checkpointer()
    monkeypatch.setenv("HARNESS_SEAL_KEY", KEY)
    effects = {"effects": str(tmp_path / "effects"), "step": "ship", "point": "after the record"}
    child = start_child(order_workflow.die_in_step, url=database_url(), **effects)
    assert child.died_by() == signal.SIGKILL
    cp.resume("s", takeover=True)
    cp.workflow("s", "order-17")
    assert list(iterate_session_problems("default", Session.objects.get(), VerificationCounts())) == []
