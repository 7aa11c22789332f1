"""Attacks on what has no seal of its own: contents of frameworks, the mark of a quarantine, the audit trail."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from checkpoints import audit
from checkpoints.exceptions import CheckpointsError, IntegrityError, SessionQuarantined
from checkpoints.framework_states import state_store
from checkpoints.framework_states.state_store import NewWrite
from checkpoints.integrity.verify_session_rows import VerificationCounts, iterate_session_problems
from checkpoints.models import (
    AuditChain,
    AuditEvent,
    Blob,
    Checkpoint,
    EarlyResponse,
    FrameworkWrite,
    PeerCall,
    Segment,
    Session,
    ToolCall,
    Workflow,
    Workspace,
)
from checkpoints.peers.agent_call_and_result_types import Join as JoinRequest
from checkpoints.peers.agent_call_and_result_types import PeerCall as PeerRequest
from checkpoints.peers.response_acceptance_outcomes import Early
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import create_sealed_session, plain, rolled_back
from tests.integration.checkpoints.session_setups import conversation, start_session


def find_tables_with_problems(session_id: str) -> set[str]:
    session = Session.objects.get(session_id=session_id)
    return {problem.table for problem in iterate_session_problems("default", session, VerificationCounts())}


def test_altered_content_of_a_framework_is_not_served(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    store = open_checkpointer().store
    assert state_store.load_state(store, "s", "ns", "2")
    for blob in plain(Blob).filter(session__session_id="s"):
        plain(Blob).filter(pk=blob.pk).update(content=b"forged", compressed=False)

    with pytest.raises(CheckpointsError):
        state_store.load_state(store, "s", "ns", "2")
    assert find_tables_with_problems("s") == {Blob._meta.db_table}


def test_content_of_a_framework_under_its_own_digest_does_not_take_the_place_of_another(
    open_checkpointer: Open,
) -> None:
    create_sealed_session(open_checkpointer, "s")
    store = open_checkpointer().store
    first, second = plain(Blob).filter(session__session_id="s").order_by("pk")[:2]
    content = {"type": second.type, "content": second.content, "compressed": second.compressed}
    plain(Blob).filter(pk=first.pk).update(**content)

    with pytest.raises(CheckpointsError):
        state_store.load_state(store, "s", "ns", "2")
    assert Blob._meta.db_table in find_tables_with_problems("s")


def test_missing_content_of_a_framework_is_noticed(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    store = open_checkpointer().store
    for blob in plain(Blob).filter(session__session_id="s"):
        plain(Blob).filter(pk=blob.pk).delete()

        with pytest.raises(CheckpointsError):
            state_store.load_state(store, "s", "ns", "2")
        assert find_tables_with_problems("s") == {Blob._meta.db_table}
        blob.save(force_insert=True)
    assert find_tables_with_problems("s") == set()


def test_missing_segment_of_a_transcript_is_noticed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    for transcript in ("abcd", "abxy", "abxz"):
        cp.save_checkpoint("s", conversation(transcript), None, 0)
    cp.close()
    segments = list(Segment.objects.filter(session__session_id="s").order_by("pk").values_list("pk", flat=True))
    assert (len(segments), find_tables_with_problems("s")) == (3, set())
    for segment, table in zip(segments, (Segment, Segment, Checkpoint), strict=True):
        with rolled_back(), connection.cursor() as cursor:  # what refers to it stays
            cursor.execute(f'DELETE FROM "{Segment._meta.db_table}" WHERE id = %s', [segment])  # noqa: S608
            assert table._meta.db_table in find_tables_with_problems("s")


@pytest.mark.skipif(connection.vendor == "postgresql", reason="its keys cannot be switched off so")
def test_segment_that_is_removed_while_a_run_lives_is_a_typed_error_of_its_next_save(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abcd"), None, 0)
    with connection.constraint_checks_disabled():
        plain(Segment).all()._raw_delete("default")
    with pytest.raises(IntegrityError, match="it is missing"):
        cp.save_checkpoint("s", conversation("abx"), None, 0)


def test_altered_value_that_is_stored_with_a_write_is_noticed(open_checkpointer: Open) -> None:
    create_sealed_session(open_checkpointer, "s")
    store = open_checkpointer().store
    state_store.save_task_writes_and_interrupt_calls(
        store, "s", "ns", "2", "other", "path", [NewWrite(0, "a", [("json", b"3")])]
    )
    assert find_tables_with_problems("s") == set()
    plain(FrameworkWrite).filter(task_id="other").update(content=b"forged")

    with pytest.raises(CheckpointsError):
        state_store.load_state(store, "s", "ns", "2")
    assert find_tables_with_problems("s") == {FrameworkWrite._meta.db_table}


def verify_all_rows() -> None:
    call_command("verify_integrity", "--all", stdout=StringIO(), stderr=StringIO())


@pytest.mark.parametrize(
    "forged",
    [{"result": '"forged"'}, {"call_id": "c2"}, {"peer": ""}, {"token_digest": ""}, {"row_seal": None}],
    ids=str,
)
def test_altered_early_response_is_not_taken(open_checkpointer: Open, forged: dict[str, Any]) -> None:
    cp = start_session(open_checkpointer())
    assert cp.accept_response("c1", {"left": 3}, peer="stock", token="secret") == Early("c1")
    verify_all_rows()
    plain(EarlyResponse).update(**forged)

    peers = [PeerRequest("c1", "stock"), PeerRequest("c2", "stock")]
    with pytest.raises(IntegrityError) as caught:
        cp.pause_for_peers("s", {}, [JoinRequest("j", peers)])
    assert caught.value.table == EarlyResponse._meta.db_table
    assert plain(PeerCall).count() == 0
    with pytest.raises(CommandError):
        verify_all_rows()


def test_exchanged_names_of_workflows_are_noticed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    for name in ("books", "shop"):
        cp.workflow("s", name).step("enter", str.upper, name)
    books, shop = plain(Workflow).order_by("pk").values()
    plain(Workflow).filter(pk=books["id"]).update(workflow_id="tmp")
    plain(Workflow).filter(pk=shop["id"]).update(workflow_id="books", row_seal=books["row_seal"])
    plain(Workflow).filter(pk=books["id"]).update(workflow_id="shop", row_seal=shop["row_seal"])

    with pytest.raises(IntegrityError):
        cp.workflow("s", "books")
    assert find_tables_with_problems("s") == {Workflow._meta.db_table}
    cp.close()
    with pytest.raises((IntegrityError, SessionQuarantined)):
        open_checkpointer().resume("s")


def test_removed_workflow_is_noticed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.workflow("s", "books")
    cp.close()
    plain(Workflow).delete()
    with pytest.raises(IntegrityError):
        open_checkpointer().resume("s")


def test_fork_continues_sealed_workflows(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    assert cp.workflow("s", "books").step("enter", str.upper, "entry") == "ENTRY"
    fork = cp.fork_session("s", "fork", version=1)
    assert fork == 1
    assert find_tables_with_problems("fork") == set()
    forked = open_checkpointer()
    forked.resume("fork")
    assert forked.workflow("fork", "books").step("enter", str.upper, "entry") == "ENTRY"


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL has no row of a session that is not there")
def test_row_that_awaits_the_next_session_stops_only_that_one(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    with connection.constraint_checks_disabled():
        plain(Checkpoint).filter(version=1).update(session=Session.objects.get().pk + 1)

    with pytest.raises(IntegrityError):
        start_session(cp, "next")
    assert Session.objects.get(session_id="next").quarantined_at is not None
    start_session(cp, "after that").save_checkpoint("after that", conversation("ab"), {}, 0)


def test_quarantine_whose_mark_was_removed_is_set_again_by_the_next_resume(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    cp.record_tool_call_result("s", "call_1", "paid", True)
    cp.close()
    plain(ToolCall).update(result='"refunded"')
    for _ in range(2):
        with pytest.raises(IntegrityError):
            open_checkpointer().resume("s")
        with pytest.raises(SessionQuarantined):
            open_checkpointer().resume("s")
        plain(Session).update(quarantined_at=None, quarantine="")


def test_session_moved_to_another_workspace_is_neither_read_nor_resumed(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    cp.close()
    other = Workspace.objects.create(slug="other")
    plain(Session).update(workspace=other)

    moved = open_checkpointer(workspace="other")
    with pytest.raises(IntegrityError):
        moved.load_latest("s")
    with pytest.raises((IntegrityError, SessionQuarantined)):
        moved.resume("s")
    assert Session._meta.db_table in find_tables_with_problems("s")


def test_audit_trail_without_its_newest_entries_is_reported_with_an_anchor(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.close()
    workspace = Workspace.objects.get()
    audit.seal_events_of_workspace(workspace.pk)
    first = AuditChain.objects.get(workspace=workspace)
    start_session(open_checkpointer(), "other").close()
    audit.seal_events_of_workspace(workspace.pk)
    anchor = audit.seal_and_verify_chain_and_store_result(workspace.pk).anchor
    plain(AuditEvent).filter(number__gt=first.number).delete()
    AuditChain.objects.update(number=first.number, seal=first.seal)

    call_command("verify_audit", stdout=StringIO())  # only an anchor that is kept elsewhere tells
    with pytest.raises(CommandError):
        call_command("verify_audit", anchor=anchor, stdout=StringIO(), stderr=StringIO())
