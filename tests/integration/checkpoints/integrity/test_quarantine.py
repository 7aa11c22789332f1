"""A session with an altered row is quarantined until an admin releases it; other sessions are not affected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import models, transaction

from checkpoints import SyncCheckpointer
from checkpoints.decisions.actors import Actor
from checkpoints.enums import ActorKind, Role
from checkpoints.exceptions import (
    CheckpointCorrupted,
    IntegrityError,
    NotPermitted,
    NotQuarantined,
    QuarantineStays,
    ReasonRequired,
    ReviewRequired,
    SessionQuarantined,
    WitnessAhead,
)
from checkpoints.models import AuditEvent, Decision, Message, Session, ToolCall
from tests.conftest import Open
from tests.integration.checkpoints.integrity.sealed_history import plain
from tests.integration.checkpoints.integrity.test_witness import forget_witness, set_witness
from tests.integration.checkpoints.session_setups import conversation, start_session


@pytest.fixture
def cp(open_checkpointer: Open) -> SyncCheckpointer:
    """Session `s` with two versions and an undecided call, and a second session."""
    checkpointer = start_session(open_checkpointer())
    start_session(checkpointer, "other").save_checkpoint("other", conversation("ab"), {}, 0)
    checkpointer.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
    checkpointer.save_checkpoint("s", conversation("ab"), {}, 0)
    return checkpointer


def alter_call() -> None:
    plain(ToolCall).update(tool="refund")


def alter_message() -> None:
    plain(Message).filter(position=1, session__session_id="s").update(body='{"forged":true}')


def get_session(session_id: str = "s") -> Session:
    session: Session = plain(Session).get(session_id=session_id)
    return session


@pytest.mark.parametrize(
    ("alter", "use"),
    [
        (alter_message, lambda cp: cp.load_latest("s")),
        (alter_message, lambda cp: cp.load("s", 1)),
        (alter_message, lambda cp: cp.messages("s")),
        (alter_call, lambda cp: cp.record_tool_call_result("s", "call_1", "x", True, step=0)),
        (alter_call, lambda cp: cp.pending_tool_calls("s")),
        (alter_call, lambda cp: cp.preview_resume("s")),
    ],
    ids=["load_latest", "load", "messages", "result", "pending", "preview"],
)
def test_every_reader_that_finds_an_altered_row_quarantines_the_session(
    cp: SyncCheckpointer, alter: Callable[[], None], use: Callable[[SyncCheckpointer], Any]
) -> None:
    alter()
    with pytest.raises(IntegrityError):
        use(cp)

    session = get_session()
    assert session.quarantined_at is not None
    assert len(json.loads(session.quarantine)) == 1
    assert session.owner is None
    with pytest.raises(SessionQuarantined):
        cp.save_checkpoint("s", conversation("abc"), {}, 0)
    assert AuditEvent.objects.filter(kind="session_quarantined", session=session).count() == 1
    assert get_session("other").quarantined_at is None
    assert [row["session_id"] for row in cp.list_sessions(status="quarantined")] == ["s"]
    assert cp.save_checkpoint("other", conversation("abc"), {}, 0) == 2


def test_quarantined_session_runs_nothing(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    cp.release_session("s")
    (call,) = cp.pending_tool_calls("s")
    alter_call()
    with pytest.raises(IntegrityError):
        cp.resume("s")
    plain(ToolCall).update(tool="pay")  # restored, and not released yet
    stored = plain(ToolCall).values().get()

    decide = {"actor": "alice", "reason": "Seen.", "revision": call["revision"]}
    for act in (
        lambda: cp.resume("s"),
        lambda: cp.start_session("s"),
        lambda: cp.fork_session("s", "copy"),
        lambda: cp.append_checkpoint("s", conversation("c"), expected_version=1),
        lambda: cp.approve_rerun("s", "call_1", **decide),
        lambda: cp.verify_call("s", "call_1", actor="alice"),
    ):
        with pytest.raises(SessionQuarantined):
            act()
    assert plain(ToolCall).values().get() == stored
    assert not Decision.objects.exists()
    latest = cp.load_latest("s")
    assert latest
    assert latest["version"] == 1


def test_admin_releases_a_restored_session_with_a_reason(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    cp.release_session("s")
    with pytest.raises(NotQuarantined):
        cp.release_quarantine("s", actor="ann", reason="Nothing.")
    alter_call()
    with pytest.raises(IntegrityError):
        cp.resume("s")
    with pytest.raises(QuarantineStays, match="checkpoints_toolcall"):
        cp.release_quarantine("s", actor="ann", reason="Looks fine.")
    with pytest.raises(ReasonRequired):
        cp.release_quarantine("s", actor="ann", reason=" ", accept_altered=True)
    with pytest.raises(NotPermitted):
        cp.release_quarantine("s", actor=Actor(ActorKind.PERSON, "bob", Role.APPROVER), reason="I want to.")
    assert get_session().quarantined_at is not None

    plain(ToolCall).update(tool="pay")
    admin = Actor(ActorKind.PERSON, "ann", Role.ADMIN)
    assert cp.release_quarantine("s", actor=admin, reason="Restored from the backup of Monday.") == 0
    event = AuditEvent.objects.get(kind="quarantine_released")
    assert (event.actor, event.actor_kind) == ("ann", "person")
    assert json.loads(event.details) == {"reason": "Restored from the backup of Monday.", "accepted": 0}
    assert [call["call_id"] for call in cp.pending_tool_calls("s")] == ["call_1"]


def test_altered_row_can_be_accepted_but_not_an_altered_transcript(cp: SyncCheckpointer) -> None:
    cp.release_session("s")
    alter_call()
    with pytest.raises(IntegrityError):
        cp.pending_tool_calls("s")
    assert cp.release_quarantine("s", actor="ann", reason="I corrected the tool.", accept_altered=True) == 2
    assert cp.pending_tool_calls("s")[0]["tool_name"] == "refund"

    alter_message()
    with pytest.raises(IntegrityError):
        cp.load_latest("s")
    with pytest.raises(QuarantineStays):
        cp.release_quarantine("s", actor="ann", reason="It looks better.", accept_altered=True)
    assert get_session().quarantined_at is not None


def test_altered_row_is_accepted_where_a_witness_knows_its_session(witness: Path, cp: SyncCheckpointer) -> None:
    cp.release_session("s")
    alter_call()
    with pytest.raises(IntegrityError):
        cp.pending_tool_calls("s")
    assert cp.release_quarantine("s", actor="ann", reason="I corrected the tool.", accept_altered=True) == 2
    assert cp.pending_tool_calls("s")[0]["tool_name"] == "refund"
    forget_witness()
    with pytest.raises(ReviewRequired):
        cp.resume("s")


def test_accepted_state_that_is_older_than_the_witness_knows_is_adopted(witness: Path, cp: SyncCheckpointer) -> None:
    cp.append_checkpoint("other", conversation("c"), expected_version=1)
    cp.release_session("other")
    plain(Session).filter(session_id="other").update(head_number=1)
    with pytest.raises(IntegrityError):
        cp.resume("other")
    cp.release_quarantine("other", actor="ann", reason="I lowered it.", accept_altered=True)
    forget_witness()
    with pytest.raises(WitnessAhead, match="released this session from quarantine"):
        cp.resume("other")
    assert set_witness("adopt", "--session", "other", "--reason", "I lowered it.").startswith("1 of 1 ")
    assert cp.resume("other").version == 2


def test_unsealed_row_does_not_quarantine_its_session(cp: SyncCheckpointer) -> None:
    plain(ToolCall).update(row_seal=None)
    with pytest.raises(IntegrityError):
        cp.pending_tool_calls("s")
    assert get_session().quarantined_at is None


def test_close_quarantines_a_session_with_an_altered_call_without_an_error(cp: SyncCheckpointer) -> None:
    models.QuerySet(Session).filter(session_id="s").update(fence=99)
    alter_call()
    cp.close()
    assert get_session().quarantined_at is not None


def test_read_inside_a_transaction_raises_the_error(cp: SyncCheckpointer) -> None:
    alter_message()
    with pytest.raises(IntegrityError), transaction.atomic():
        cp.load_latest("s")
    assert get_session().quarantined_at is None  # the commit would have been the caller's


@pytest.mark.parametrize("act", ["load_latest", "messages", "resume"])
def test_transcript_with_deleted_messages_puts_its_session_under_quarantine(open_checkpointer: Open, act: str) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("abcd"), {}, 0)
    cp.release_session("s")
    plain(Message).filter(position__gte=2).delete()
    with pytest.raises((CheckpointCorrupted, IntegrityError)):
        getattr(cp, act)("s")
    assert plain(Session).get().quarantined_at is not None
