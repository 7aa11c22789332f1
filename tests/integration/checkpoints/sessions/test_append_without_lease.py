"""Append without ownership: allowed while no run owns the session, with a compare-and-set in one transaction."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer, SyncSessionFiles, ToolRegistry
from checkpoints.exceptions import (
    ApprovalRequired,
    CheckpointCorrupted,
    CheckpointsError,
    InvalidInput,
    NotRepresentable,
    OwnershipLost,
    PausedForPeers,
    ReviewRequired,
    SchemaFromFuture,
    SessionBusy,
    SessionFinished,
    SessionNotFound,
    VersionConflict,
)
from checkpoints.loop_state import PostLlm, PreToolBatch, RuntimeSnapshot
from checkpoints.models import Checkpoint, Run, Session, ToolCall
from checkpoints.peers import Join, PeerCall
from checkpoints.store.owning_run_protocol import OwningRun
from harness_site.sessions.selectors import unmasked_session_export_records, version_list
from harness_site.sessions.timeline.selectors import timeframe_contents
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, conversation, count_messages, start_session


@pytest.fixture
def released(open_checkpointer: Open) -> str:
    """Session with one version and no owner."""
    with open_checkpointer() as cp:
        cp.start_session("s", "Refund order 17")
        cp.save_checkpoint("s", conversation("ab"), {"goal": 1}, 0.5, usage={"total_tokens": 3}, payload={"x": 1})
    return "s"


def test_version_continues_the_last_one(cp: SyncCheckpointer, released: str) -> None:
    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2

    latest = cp.load("s", 2)
    assert (latest["transcript"], latest["plan"]) == ([*conversation("ab"), *conversation("c")], {"goal": 1})
    assert (latest["budget_spent_usd"], latest["usage"], latest["payload"]) == (0.5, {"total_tokens": 3}, None)
    assert latest["run_id"] is None
    assert (Run.objects.count(), count_messages()) == (1, 3)
    assert cp.store.list_owned_sessions() == []


ANSWER = {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {"order": 17}}]}


def create_session_with_pending_answer(cp: SyncCheckpointer, how: str) -> None:
    """Create a session with a saved model answer, released before its tools ran."""
    cp.start_session("s", "Refund order 17")
    if how == "payload":
        cp.save_checkpoint("s", conversation("ab"), payload={"pending_llm_response": ANSWER})
    else:
        cp.save_phase(
            "s",
            PostLlm(model="m"),
            snapshot=RuntimeSnapshot(pending_llm_response=ANSWER),
            transcript=conversation("ab"),
        )
    if how == "phase":
        cp.save_phase("s", PreToolBatch(tool_call_count=1))
    cp.close()


@pytest.mark.parametrize("how", ["payload", "snapshot", "phase"])
def test_pending_answer_stays_pending_after_a_user_message(
    cp: SyncCheckpointer, open_checkpointer: Open, how: str
) -> None:
    """The appended message does not make the next run ask the model again."""
    create_session_with_pending_answer(open_checkpointer(), how)
    latest = cp.load_latest("s") or {}
    for at, text in enumerate("cd"):
        cp.append_checkpoint("s", conversation(text), expected_version=latest["version"] + at)

    point = cp.resume("s")
    assert (point.pending_response, point.transcript) == (
        ANSWER,
        [*conversation("ab"), *conversation("c"), *conversation("d")],
    )
    assert (point.snapshot is None) == (how == "payload")


@pytest.mark.parametrize("how", ["payload", "snapshot", "phase"])
def test_appended_answer_is_no_longer_pending(cp: SyncCheckpointer, open_checkpointer: Open, how: str) -> None:
    create_session_with_pending_answer(open_checkpointer(), how)
    latest = cp.load_latest("s") or {}
    paid = {"role": "tool", "tool_call_id": "call_1", "content": "paid"}
    cp.append_checkpoint("s", [{**ANSWER, "content": "I pay."}, paid], expected_version=latest["version"])

    assert (cp.resume("s").pending_response, cp.load_latest("s")["payload"]) == (None, None)  # type: ignore[index]


@pytest.mark.parametrize("damaged", ["null", "[]", '{"pending_llm_response": []}', "{"])
def test_append_after_a_damaged_payload_is_refused(cp: SyncCheckpointer, open_checkpointer: Open, damaged: str) -> None:
    create_session_with_pending_answer(open_checkpointer(), "payload")
    Checkpoint.objects.update(payload=damaged)

    with pytest.raises(CheckpointCorrupted):
        cp.append_checkpoint("s", conversation("c"), expected_version=1)
    with pytest.raises(CheckpointCorrupted):
        cp.start_session("s")
    assert (Checkpoint.objects.count(), cp.store.list_owned_sessions()) == (1, [])


def test_append_to_a_session_without_versions(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    start_session(open_checkpointer()).close()
    assert cp.append_checkpoint("s", conversation("a"), expected_version=0, plan={"goal": 2}) == 1
    Session.objects.create(workspace_id=cp.store.workspace_id, session_id="bare")
    assert cp.append_checkpoint("bare", conversation("a"), expected_version=0) == 1

    assert cp.resume("bare").transcript == conversation("a")


def test_next_run_continues_from_the_appended_version(cp: SyncCheckpointer, released: str) -> None:
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    point = cp.resume("s")

    assert (point.version, len(point.transcript)) == (2, 3)
    assert cp.append_checkpoint("s", conversation("d"), expected_version=2) == 3
    assert [each["run_id"] is None for each in cp.list_checkpoints("s")] == [False, True, False]


@pytest.mark.unsealed("its number of statements is that without seals")
def test_append_takes_one_transaction_with_few_statements(cp: SyncCheckpointer, released: str) -> None:
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    with CaptureQueriesContext(connection) as queries:
        cp.append_checkpoint("s", conversation("d"), expected_version=2)

    begins = [each for each in queries if each["sql"].startswith("BEGIN")]
    saves = 1 if connection.vendor == "postgresql" else 3
    others = [each for each in queries if each["sql"].split()[0] not in {"BEGIN", "COMMIT", "SAVEPOINT", "RELEASE"}]
    assert (len(begins), len(others)) == (1, 4 + saves)


# what refuses it


def refused(cp: SyncCheckpointer, error: type[CheckpointsError], expected_version: int = 1) -> CheckpointsError:
    before = (Checkpoint.objects.count(), count_messages())
    with pytest.raises(error) as caught:
        cp.append_checkpoint("s", conversation("z"), expected_version=expected_version)
    assert (Checkpoint.objects.count(), count_messages()) == before
    return caught.value


def test_append_during_a_live_run_is_refused(cp: SyncCheckpointer, open_checkpointer: Open, released: str) -> None:
    owner = open_checkpointer()
    owner.resume("s")

    error = refused(cp, SessionBusy)
    assert isinstance(error, SessionBusy)
    assert "run 2" in error.owner
    owner.release_session("s")
    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2


@pytest.mark.parametrize("expected", [0, 2])
def test_append_to_another_version_is_refused(cp: SyncCheckpointer, released: str, expected: int) -> None:
    error = refused(cp, VersionConflict, expected)
    assert isinstance(error, VersionConflict)
    assert (error.expected, error.latest) == (expected, 1)


def test_append_to_finished_and_unknown_sessions_is_refused(
    cp: SyncCheckpointer, open_checkpointer: Open, released: str
) -> None:
    with open_checkpointer().session("s") as session:
        session.finish("completed")

    refused(cp, SessionFinished)
    with pytest.raises(SessionNotFound):
        cp.append_checkpoint("unknown", conversation("a"), expected_version=0)


def test_append_with_an_undecided_call_is_refused(cp: SyncCheckpointer, open_checkpointer: Open, released: str) -> None:
    with open_checkpointer().session("s"):
        pass
    with open_checkpointer() as other:
        other.resume("s")
        other.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")

    error = refused(cp, ReviewRequired)
    assert isinstance(error, ReviewRequired)
    (call,) = error.calls
    cp.confirm_landed("s", "call_1", "paid", actor="alice", reason="Seen.", revision=call["revision"])
    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2


def test_append_with_a_call_that_awaits_approval_is_refused(
    cp: SyncCheckpointer, open_checkpointer: Open, released: str
) -> None:
    registry = ToolRegistry()
    registry.tool(name="mail", requires_approval=True)(lambda to: "sent")
    with open_checkpointer().session("s", registry=registry) as session, pytest.raises(ApprovalRequired):
        session.dispatch("mail", {"to": "alice"}, "call_1")

    refused(cp, ApprovalRequired)


def test_append_to_a_paused_session_is_refused(cp: SyncCheckpointer, open_checkpointer: Open, released: str) -> None:
    agent = open_checkpointer()
    agent.resume("s")
    agent.pause_for_peers("s", {"turn": 1}, [Join("quote", [PeerCall("peer-1", "courier")])])

    refused(cp, PausedForPeers)


def test_append_after_a_newer_format_is_refused(cp: SyncCheckpointer, released: str) -> None:
    Checkpoint.objects.update(schema_version=99)
    refused(cp, SchemaFromFuture)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"expected_version": "1"}, InvalidInput),
        ({"new_messages": [{"a": {1}}]}, NotRepresentable),
        ({"new_messages": "hello"}, NotRepresentable),
        ({"phase": "lunch"}, InvalidInput),
        ({"plan": [1]}, NotRepresentable),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(
    cp: SyncCheckpointer, released: str, arguments: dict[str, Any], error: type[Exception]
) -> None:
    given: dict[str, Any] = {"new_messages": conversation("c"), "expected_version": 1} | arguments
    with pytest.raises(error):
        cp.append_checkpoint("s", **given)
    assert Checkpoint.objects.count() == 1


# an owner that is gone


def lose(run: OwningRun) -> None:
    Run.objects.filter(pk=run.pk).update(lease_expires_at="2020-01-01T00:00:00Z")


def test_append_declares_a_lost_owner_lost(cp: SyncCheckpointer, open_checkpointer: Open, released: str) -> None:
    zombie = open_checkpointer()
    lose(zombie.start_session("s"))

    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["released", "lost"]
    with pytest.raises(OwnershipLost):
        zombie.append_checkpoint("s", conversation("z"), expected_version=1)
    with pytest.raises(VersionConflict):
        zombie.append_checkpoint("s", conversation("z"), expected_version=1)
    assert [each["message"] for each in cp.messages("s")] == [*conversation("ab"), *conversation("c")]


def test_open_calls_of_a_lost_owner_need_a_decision(
    cp: SyncCheckpointer, open_checkpointer: Open, released: str
) -> None:
    zombie = open_checkpointer()
    run = zombie.start_session("s")
    zombie.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    lose(run)

    refused(cp, ReviewRequired)
    assert call_statuses() == [("call_1", 1, "interrupted")]
    assert ToolCall.objects.get().reason == "run_lost"
    assert (Session.objects.get().status, Session.objects.get().owner) == ("needs_review", None)
    with pytest.raises(OwnershipLost):
        zombie.save_checkpoint("s", conversation("z"), None, 0)


def test_unreleased_run_of_a_closed_client_does_not_block_the_append(
    cp: SyncCheckpointer, released: str, open_checkpointer: Open
) -> None:
    cp.start_session("s")
    cp.store.remove_owned_session(
        cp.store.get_owned_session("s")
    )  # as after a release that the database was not told of
    refused(open_checkpointer(), SessionBusy)

    assert cp.append_checkpoint("s", conversation("c"), expected_version=1) == 2
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["released", "lost"]


# at the same time, again, and beside others


def test_one_of_many_concurrent_appends_succeeds(open_checkpointer: Open, released: str) -> None:
    outcomes: list[str] = []
    ready = threading.Barrier(6)

    def add(number: int) -> None:
        cp = SyncCheckpointer()
        ready.wait(60)
        try:
            outcomes.append(str(cp.append_checkpoint("s", [{"n": number}], expected_version=1)))
        except CheckpointsError as error:
            outcomes.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(outcomes) == ["2"] + ["VersionConflict"] * 5
    assert count_messages() == 3


def test_autosave_writes_the_appended_version(
    cp: SyncCheckpointer, open_checkpointer: Open, released: str, tmp_path: Path
) -> None:
    files = SyncSessionFiles(cp, tmp_path, autosave=True)
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    assert files.get_file_path("s").exists()

    with open_checkpointer() as other:
        other.delete_session("s")
    assert files.load("s").version == 2
    assert [each["run_id"] is None for each in cp.list_checkpoints("s")] == [True, False]
    assert cp.messages("s", after=2)[0]["message"] == conversation("c")[0]


def test_appended_version_can_be_forked_and_pruned(cp: SyncCheckpointer, released: str) -> None:
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    cp.fork_session("s", "copy")
    cp.prune("s", keep_last=1)

    assert len(cp.load("copy", 1)["transcript"]) == len(cp.load("s", 2)["transcript"]) == 3


def test_listings_show_the_appended_version_without_a_run(cp: SyncCheckpointer, released: str) -> None:
    cp.append_checkpoint("s", conversation("c"), expected_version=1)
    session = Session.objects.get()

    assert [row.version.run_number for row in version_list.load_version_page(session.pk).rows] == [None, 1]
    saved = [
        each["run"]
        for each in unmasked_session_export_records.verify_session_and_generate_export_records(session.pk)
        if each["record"] == "checkpoint"
    ]
    assert saved == [1, None]
    frame = timeframe_contents.load_timeframe(session.pk)
    assert frame is not None
    (course,) = frame.courses
    assert [(mark.version, mark.by_run) for mark in course.lane.marks] == [(1, True), (2, False)]
    assert [turn.version for turn in course.turns] == [1]
    ended = Run.objects.get().ended_at
    assert ended is not None
    assert course.lane.end <= int(ended.timestamp() * 1_000_000) + 1
