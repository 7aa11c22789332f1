"""Durable writes are refused inside a transaction of the caller; reads are allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import TestCase

from checkpoints import Checkpointer, SyncCheckpointer, SyncWorkflow, Tool, ToolRegistry
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import ApprovalRequired, CheckpointsError, InsideTransaction, ResultNotRecorded, StorageBusy
from checkpoints.loop_state.phase_details import StepStarted
from checkpoints.models import Session, Workspace
from checkpoints.peers import Join, PeerCall
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, interrupt_call, start_session, text_message

DECISION: dict[str, Any] = {"actor": "ana", "reason": "I looked."}


class SessionsInEveryState:
    """Sessions in every state that a writing method requires."""

    def __init__(self, cp: SyncCheckpointer, open_checkpointer: Open, folder: Path) -> None:
        self.cp = cp
        self.folder = folder
        self.ran: list[str] = []
        self.tools = [
            Tool("pay", self._run("pay"), side_effects=frozenset({"mutate"})),
            Tool("note", self._run("note"), side_effects=frozenset({"write"})),
            Tool("look", self._run("look"), side_effects=frozenset({"read"})),
            Tool("ask", self._run("ask"), side_effects=frozenset({"mutate"}), requires_approval=True),
        ]
        for session_id in ("calm", "busy", "asked", "waits", "complete"):
            start_session(cp, session_id)
            for turn in range(1, 4):
                cp.save_checkpoint(session_id, conversation("abc"[:turn]), None, 0)
        cp.record_tool_call_issued("busy", "open", "pay", {}, "key of open")
        with pytest.raises(ApprovalRequired):
            self.registry("asked").dispatch("ask", {}, "call_1")
        (self.asked,) = cp.pending_tool_calls("asked")
        cp.pause_for_peers("waits", {}, [Join("j", [PeerCall("c1", "stock", sent=False)])])
        cp.pause_for_peers("complete", {}, [Join("j", [PeerCall("c2", "stock")])])
        cp.accept_response("c2", "here")
        start_session(cp, "still")
        Session.objects.filter(session_id="still").update(quarantined_at=Now())
        other = open_checkpointer()
        start_session(other, "left").save_checkpoint("left", conversation("a"), None, 0)
        self.run_id = str(other.start_session("left").pk)
        other.close()
        self.taker, self.lost = interrupt_call(start_session(open_checkpointer(), "lost"), open_checkpointer, "lost")
        self.flow: SyncWorkflow = cp.workflow("calm", "flow")
        with start_session(open_checkpointer(), "gone") as brief:
            brief.export_session("gone", folder / "gone.session")
        brief.delete_session("gone")
        self.registry("calm").dispatch("pay", {"order": 1}, "replayed")
        self.ran.clear()

    def registry(self, session_id: str = "calm") -> ToolRegistry:
        return ToolRegistry(self.tools, self.cp, session_id)

    def _run(self, name: str) -> Callable[..., str]:
        def run(order: int = 0) -> str:
            self.ran.append(name)
            return f"{name} {order}"

        return run


@pytest.fixture
def sessions(open_checkpointer: Open, tmp_path: Path) -> SessionsInEveryState:
    """Sessions whose runs do not beat during a test, because that changes their rows."""
    open_with_long_lease = partial(open_checkpointer, lease_seconds=3600)
    return SessionsInEveryState(open_with_long_lease(), open_with_long_lease, tmp_path)


WRITES: dict[str, Callable[[SessionsInEveryState], Any]] = {
    "start_session": lambda w: w.cp.start_session("new"),
    "start_session, owned": lambda w: w.cp.start_session("calm"),
    "session": lambda w: w.cp.session("new").__enter__(),
    "session, owned": lambda w: w.cp.session("calm").__enter__(),
    "release_session": lambda w: w.cp.release_session("calm"),
    "finish_session": lambda w: w.cp.finish_session("calm", "completed"),
    "fork_session": lambda w: w.cp.fork_session("calm", "fork"),
    "export_session": lambda w: w.cp.export_session("calm", w.folder / "calm.session"),
    "import_session": lambda w: w.cp.import_session(w.folder / "gone.session"),
    "release_quarantine": lambda w: w.cp.release_quarantine("still", actor="ana", reason="Seen."),
    "delete_session": lambda w: w.cp.delete_session("left"),
    "save_checkpoint": lambda w: w.cp.save_checkpoint("calm", conversation("abcd"), None, 0),
    "save_checkpoint, edited": lambda w: w.cp.save_checkpoint("calm", conversation("x"), None, 0),
    "append_checkpoint": lambda w: w.cp.append_checkpoint("calm", [text_message("d")], expected_version=3),
    "append_checkpoint, without a run": lambda w: w.cp.append_checkpoint("left", conversation("b"), expected_version=1),
    "save_phase": lambda w: w.cp.save_phase("calm", StepStarted(message_count=3)),
    "import_record": lambda w: w.cp.import_record("calm", RECORD),
    "delete_checkpoint": lambda w: w.cp.delete_checkpoint("calm", 1),
    "prune": lambda w: w.cp.prune("calm", keep_last=1),
    "record_tool_call_issued": lambda w: w.cp.record_tool_call_issued("calm", "c", "pay", {}, "k"),
    "record_tool_call_issued, read": lambda w: w.cp.record_tool_call_issued(
        "calm", "c", "look", {}, "k", side_effects=["read"]
    ),
    "record_tool_call_result": lambda w: w.cp.record_tool_call_result("busy", "open", "paid", True),
    "resume": lambda w: w.cp.resume("left"),
    "resume, owned": lambda w: w.cp.resume("calm"),
    "resume_run": lambda w: w.cp.resume_run(w.run_id),
    "sweep_lost_runs": lambda w: w.cp.sweep_lost_runs(),
    "workflow": lambda w: w.cp.workflow("calm", "another"),
    "workflow.step": lambda w: w.flow.step("charge", w.tools[0]),
    "verify_call": lambda w: w.taker.verify_call("lost", "call_1", actor="ana"),
    "confirm_landed": lambda w: w.taker.confirm_landed(
        "lost", "call_1", "paid", revision=w.lost["revision"], **DECISION
    ),
    "mark_failed": lambda w: w.taker.mark_failed("lost", "call_1", revision=w.lost["revision"], **DECISION),
    "approve_rerun": lambda w: w.taker.approve_rerun("lost", "call_1", revision=w.lost["revision"], **DECISION),
    "withdraw_decision": lambda w: w.cp.withdraw_decision("lost", "call_1", revision=w.lost["revision"], **DECISION),
    "approve_call": lambda w: w.cp.approve_call("asked", "call_1", revision=w.asked["revision"], **DECISION),
    "edit_call": lambda w: w.cp.edit_call("asked", "call_1", {"order": 2}, revision=w.asked["revision"], **DECISION),
    "reject_call": lambda w: w.cp.reject_call("asked", "call_1", "No.", actor="ana", revision=w.asked["revision"]),
    "respond_call": lambda w: w.cp.respond_call("asked", "call_1", "Yes.", actor="ana", revision=w.asked["revision"]),
    "pause_for_peers": lambda w: w.cp.pause_for_peers("calm", {}, [Join("j", [PeerCall("c3", "stock")])]),
    "accept_response": lambda w: w.cp.accept_response("c1", "here"),
    "accept_response, early": lambda w: w.cp.accept_response("c9", "here"),
    "take_paused": lambda w: w.cp.take_paused("complete"),
    "extend_deadline": lambda w: w.cp.extend_deadline("c1", 3600),
    "cancel_paused": lambda w: w.cp.cancel_paused("waits"),
    "tell_peers": lambda w: w.cp.tell_peers(lambda notice: w.ran.append(notice.call_id)),
    "sweep_deadlines": lambda w: w.cp.sweep_deadlines(),
    "close": lambda w: w.cp.close(),
    "dispatch, mutate": lambda w: w.registry().dispatch("pay", {"order": 2}, "c"),
    "dispatch, write": lambda w: w.registry().dispatch("note", {"order": 2}, "c"),
    "dispatch, replay": lambda w: w.registry().dispatch("pay", {"order": 1}, "replayed"),
}
READS: dict[str, Callable[[SessionsInEveryState], Any]] = {
    "load_latest": lambda w: w.cp.load_latest("calm"),
    "load": lambda w: w.cp.load("calm", 2),
    "list_checkpoints": lambda w: w.cp.list_checkpoints("calm"),
    "list_sessions": lambda w: w.cp.list_sessions(),
    "messages": lambda w: w.cp.messages("calm", after=1),
    "pending_decisions": lambda w: w.cp.pending_decisions(),
    "find_completed_call": lambda w: w.cp.find_completed_call("k"),
    "pending_tool_calls": lambda w: w.cp.pending_tool_calls("busy"),
    "preview_resume": lambda w: w.cp.preview_resume("left"),
    "list_paused": lambda w: w.cp.list_paused(),
    "peer_calls": lambda w: w.cp.peer_calls("waits"),
    "journal": lambda w: w.flow.journal(),
}
#: Of the public names of a checkpointer, those that neither read nor write: what makes one, and its state.
NO_OPERATIONS = {"open", "store"}
RECORD: dict[str, Any] = {
    "schema_version": 1,
    "run_id": "r-1",
    "phase": "step_started",
    "payload": {"messages": conversation("a"), "step": 1, "state": "running"},
}


def rows() -> dict[str, list[Any]]:
    """Return all rows of the library's tables."""
    return {model.__name__: list(model._default_manager.order_by("pk").values_list()) for model in MODELS}


MODELS = list(apps.get_app_config("checkpoints").get_models())


def test_every_public_method_is_tested() -> None:
    public = {name for name in dir(SyncCheckpointer) if not name.startswith("_")}
    listed = {name.partition(",")[0] for name in (*WRITES, *READS)}

    assert public - listed == NO_OPERATIONS


def test_writes_are_refused_inside_a_transaction(sessions: SessionsInEveryState) -> None:
    before, files = rows(), sorted(sessions.folder.iterdir())
    for name, write in WRITES.items():
        with transaction.atomic(), pytest.raises(InsideTransaction):
            write(sessions)
        assert (name, rows(), sorted(sessions.folder.iterdir())) == (name, before, files)
    assert sessions.ran == []


def test_refusal_names_the_alternatives() -> None:
    text = str(InsideTransaction("default"))

    for way_out in ("transaction.atomic()", "non_atomic_requests", "using=", "'default'", "Nothing was written or run"):
        assert way_out in text


def test_writes_are_not_refused_after_the_transaction(sessions: SessionsInEveryState) -> None:
    """Some writes exclude each other; none may fail because of a transaction."""
    with transaction.atomic():
        pass
    refused = [name for name, write in WRITES.items() if isinstance(raised_by(write, sessions), InsideTransaction)]

    assert refused == []


def raised_by(write: Callable[[SessionsInEveryState], Any], sessions: SessionsInEveryState) -> CheckpointsError | None:
    try:
        write(sessions)
    except CheckpointsError as error:
        return error
    return None


@pytest.mark.parametrize("name", ["save_checkpoint", "dispatch, mutate", "confirm_landed", "import_session"])
def test_refused_write_succeeds_after_the_transaction(sessions: SessionsInEveryState, name: str) -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        WRITES[name](sessions)
    WRITES[name](sessions)


def test_reads_are_allowed_inside_a_transaction(sessions: SessionsInEveryState) -> None:
    outside = {name: read(sessions) for name, read in READS.items()}
    with transaction.atomic():
        assert {name: read(sessions) for name, read in READS.items()} == outside


def test_unlogged_tool_runs_inside_a_transaction(sessions: SessionsInEveryState) -> None:
    with transaction.atomic():
        assert sessions.registry().dispatch("look", {"order": 7}, "c").content == "look 7"


def test_tool_may_use_its_own_transaction(
    sessions: SessionsInEveryState,
) -> None:
    def note_atomically() -> str:
        with transaction.atomic(), pytest.raises(InsideTransaction):
            sessions.cp.append_checkpoint("calm", [text_message("d")], expected_version=3)
        return "noted"

    registry = ToolRegistry([Tool("atomic", note_atomically)], sessions.cp, "calm")
    assert registry.dispatch("atomic", {}, "c").content == "noted"


def test_result_of_a_tool_that_leaves_a_transaction_open_is_not_recorded(
    sessions: SessionsInEveryState,
) -> None:
    def leave_open() -> str:
        transaction.set_autocommit(False)
        return "done"

    registry = ToolRegistry([Tool("leave_open", leave_open)], sessions.cp, "calm")
    with pytest.raises(ResultNotRecorded) as raised:
        registry.dispatch("leave_open", {}, "c")
    transaction.rollback()
    transaction.set_autocommit(True)

    assert isinstance(raised.value.__cause__, InsideTransaction)
    assert [call["call_id"] for call in sessions.cp.pending_tool_calls("calm")] == ["c"]


@contextmanager
def autocommit_off() -> Iterator[None]:
    transaction.set_autocommit(False)
    try:
        yield
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


@pytest.mark.parametrize("inside", ["nothing else", "a block"])
def test_connection_without_autocommit_is_refused(sessions: SessionsInEveryState, inside: str) -> None:
    before = rows()
    for name in ("start_session", "save_checkpoint", "dispatch, mutate", "confirm_landed"):
        block = transaction.atomic() if inside == "a block" else nullcontext()
        with autocommit_off(), block, pytest.raises(InsideTransaction):
            WRITES[name](sessions)
        assert (rows(), sessions.ran) == (before, [])


def test_unopened_connection_without_autocommit_is_refused(sessions: SessionsInEveryState, monkeypatch: Any) -> None:
    monkeypatch.setitem(connection.settings_dict, "AUTOCOMMIT", False)
    connection.close()
    with pytest.raises(InsideTransaction, match="autocommit is off"):
        sessions.cp.start_session("new")

    monkeypatch.undo()
    connection.close()
    sessions.cp.start_session("new")


def test_transactions_of_a_django_test_case_are_ignored(sessions: SessionsInEveryState) -> None:
    """They are ignored as by `transaction.atomic(durable=True)`; an inner block is not."""
    with block_of_a_test_case():
        WRITES["save_checkpoint"](sessions)
        assert sessions.registry().dispatch("pay", {"order": 2}, "c").content == "pay 2"
        with transaction.atomic(), pytest.raises(InsideTransaction):
            WRITES["start_session"](sessions)
        with transaction.atomic(durable=True):
            pass
        WRITES["start_session"](sessions)


def test_transaction_of_the_pytest_django_fixture_is_ignored(db: None) -> None:
    Workspace.objects.get_or_create(slug=DEFAULT_WORKSPACE)
    with SyncCheckpointer() as cp:
        registry = ToolRegistry([Tool("pay", lambda: "paid")], start_session(cp), "s")
        assert connection.in_atomic_block
        assert registry.dispatch("pay", {}, "c").content == "paid"


@contextmanager
def block_of_a_test_case() -> Iterator[None]:
    """Open the transaction in which Django's `TestCase` runs a test."""
    atomics = TestCase._enter_atomics()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        TestCase._rollback_atomics(atomics)  # type: ignore[attr-defined]


def test_refused_recording_of_a_result_can_be_repeated(sessions: SessionsInEveryState) -> None:
    with transaction.atomic(), pytest.raises(InsideTransaction):
        WRITES["record_tool_call_result"](sessions)
    WRITES["record_tool_call_result"](sessions)

    assert (sessions.cp.find_completed_call("key of open") or {})["result_text"] == "paid"


def test_async_checkpointer_uses_its_own_connections(sessions: SessionsInEveryState) -> None:
    """A save beside a transaction of the caller remains when that is rolled back.

    SQLite allows one writer at a time: the save waits there for the end of the transaction, and names it.
    """

    async def save() -> int:
        async with Checkpointer() as cp:
            await cp.start_session("beside")
            return await cp.save_checkpoint("beside", [], None, 0)

    if connection.vendor == "sqlite":
        with transaction.atomic(), short_lock_timeout(), pytest.raises(StorageBusy, match=r"transaction\.atomic"):
            asyncio.run(save())
        assert sessions.cp.load_latest("beside") is None
        return
    with transaction.atomic():
        assert asyncio.run(save()) == 1
        transaction.set_rollback(True)
    assert (sessions.cp.load_latest("beside") or {})["version"] == 1


@contextmanager
def short_lock_timeout() -> Iterator[None]:
    """Shorten the lock timeout of connections that are opened in the block."""
    options = connection.settings_dict["OPTIONS"]
    before = options["timeout"]
    options["timeout"] = 0.2
    try:
        yield
    finally:
        options["timeout"] = before
