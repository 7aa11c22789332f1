"""Sessions whose framework continues after people have decided about its interrupts."""

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.enums import KeyPolicy
from checkpoints.exceptions import DecisionUsed
from checkpoints.framework_states import find_decisions_or_discard_interrupt_calls, state_store
from checkpoints.framework_states.state_store import NewState, NewWrite
from checkpoints.framework_states.write_transcript_version import VersionContent
from checkpoints.models import Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.call_intent_and_outcome_types import CallIntent
from tests.integration.checkpoints.session_setups import text_message

#: Call of each kind: its identifier, the name of its tool, and its key.
QUESTION = ("id-0", "interrupt", f"{INTERRUPT_KEY_PREFIX}id-0:0")
REQUEST = ("id-1:0", "send", f"{INTERRUPT_KEY_PREFIX}id-1:0")
CALL = ("call_1", "send", f"{INTERRUPT_KEY_PREFIX}id-2:0")
GUARDED = ("call_2", "refund", "key of call_2")


def _save_state(cp: SyncCheckpointer, number: int, *, said: bool = False) -> str:
    """Store a state after all interrupts of earlier ones. Returns the status of the session after that."""

    def leave(row: Session) -> None:
        find_decisions_or_discard_interrupt_calls.discard_interrupts_before_state_or_activate_session(
            cp.store, row, f"{number:04}", "__interrupt__", lambda values: [QUESTION[2], CALL[2]] if values else []
        )

    new = NewState("", f"{number:04}", "", "", ("json", b"{}"), ("json", b"{}"), {}, {}, ())
    content = VersionContent([text_message(f"Text {number}")]) if said else None
    state_store.save_state_and_transcript_version(
        cp.store,
        "s",
        new,
        build_content=None if content is None else lambda row: content,
        description=NewSessionFields("Title"),
        discard_interrupts=leave,
    )
    return Session.objects.get().status


def _ask(cp: SyncCheckpointer, *calls: tuple[str, str, str]) -> None:
    """Store an interrupt of the first state, which asks about calls."""
    requests = [
        CallIntent(call_id, tool, "{}", key, policy=KeyPolicy.UNANSWERED, requires_approval=True)
        for call_id, tool, key in calls
    ]
    state_store.save_task_writes_and_interrupt_calls(
        cp.store, "s", "", "0001", "task", "", [NewWrite(-3, "__interrupt__", ("json", b"1"))], requests=requests
    )


def _decide(cp: SyncCheckpointer, call_id: str, kind: str) -> None:
    revision = ToolCall.objects.get(call_id=call_id).revision
    if kind == "approve":
        cp.approve_call("s", call_id, actor="alice", revision=revision, reason="Read.")
    elif kind == "reject":
        cp.reject_call("s", call_id, "No.", actor="alice", revision=revision)
    else:
        cp.respond_call("s", call_id, "Eve", actor="alice", revision=revision)


@pytest.mark.parametrize("said", [False, True])
@pytest.mark.parametrize(
    ("call", "kind", "status"),
    [
        (QUESTION, "approve", "active"),
        (QUESTION, "reject", "active"),
        (QUESTION, "respond", "active"),
        (REQUEST, "approve", "active"),
        (CALL, "approve", "ready"),
        (CALL, "reject", "active"),
        (GUARDED, "approve", "ready"),
        (GUARDED, "respond", "active"),
    ],
)
def test_session_is_active_after_a_later_state_unless_an_approved_call_has_not_started(
    cp: SyncCheckpointer, call: tuple[str, str, str], kind: str, status: str, said: bool
) -> None:
    _save_state(cp, 1, said=True)
    _ask(cp, call)
    assert Session.objects.get().status == "needs_review"
    _decide(cp, call[0], kind)
    before = Session.objects.get()
    assert before.status == "ready"
    assert _save_state(cp, 2, said=said) == status
    assert Session.objects.get().revision == before.revision + 1
    assert _save_state(cp, 3, said=said) == status


def test_session_is_ready_until_a_state_follows_all_interrupts(cp: SyncCheckpointer) -> None:
    _save_state(cp, 1)
    _ask(cp, QUESTION, CALL)
    _decide(cp, QUESTION[0], "respond")
    assert _save_state(cp, 1) == "needs_review"
    _decide(cp, CALL[0], "reject")
    assert _save_state(cp, 1) == "ready"
    writes = [NewWrite(0, "messages", ("json", b"2"))]
    state_store.save_task_writes_and_interrupt_calls(cp.store, "s", "", "0001", "task", "", writes)
    assert Session.objects.get().status == "ready"
    assert _save_state(cp, 2) == "active"
    cp.delete_session("s")


@pytest.mark.parametrize(("call", "kind"), [(QUESTION, "approve"), (QUESTION, "respond"), (CALL, "reject")])
def test_decision_with_which_the_framework_has_continued_is_not_withdrawn(
    cp: SyncCheckpointer, call: tuple[str, str, str], kind: str
) -> None:
    _save_state(cp, 1, said=True)
    _ask(cp, call)
    _decide(cp, call[0], kind)
    cp.withdraw_decision("s", call[0], actor="alice", revision=ToolCall.objects.get().revision, reason="Too early.")
    _decide(cp, call[0], kind)
    revision = ToolCall.objects.get().revision
    assert _save_state(cp, 2) == "active"
    with pytest.raises(DecisionUsed):
        cp.withdraw_decision("s", call[0], actor="alice", revision=revision, reason="Too late.")
    assert Session.objects.get().status == "active"
