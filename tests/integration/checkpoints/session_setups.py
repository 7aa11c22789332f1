"""Messages and session states that many tests start from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.models import Message, ToolCall
from checkpoints.sessions import take_and_release_ownership

Messages = list[dict[str, Any]]


def text_message(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    """Return a message with one text block."""
    return {
        "id": f"m-{text}",
        "role": role,
        "created_at": "2026-01-02T03:04:05+00:00",
        "blocks": [{"kind": "text", "text": text}],
        **more,
    }


def conversation(texts: Iterable[str]) -> Messages:
    """Return a conversation in which user and assistant alternate."""
    return [text_message(text, "assistant" if index % 2 else "user") for index, text in enumerate(texts)]


def start_session(checkpointer: SyncCheckpointer, session_id: str = "s") -> SyncCheckpointer:
    checkpointer.start_session(session_id, "Refund order 17")
    return checkpointer


def lose_run(open_checkpointer: Any, session_id: str = "s") -> SyncCheckpointer:
    """Take over the session with another checkpointer, as after a crash; open calls of the lost run are interrupted."""
    return take_session_past_gate(open_checkpointer(), session_id)


def take_session_past_gate(
    checkpointer: SyncCheckpointer, session_id: str = "s", *, takeover: bool = True
) -> SyncCheckpointer:
    """Take ownership of a session without passing the gate, although it has undecided calls."""
    take_and_release_ownership.take_ownership_and_start_heartbeat(
        checkpointer.store, session_id, takeover=takeover
    ).at_gate = False
    return checkpointer


def interrupt_call(
    checkpointer: SyncCheckpointer, open_checkpointer: Any, session_id: str = "s", call_id: str = "call_1"
) -> tuple[SyncCheckpointer, dict[str, Any]]:
    """Issue a mutating call, lose its run, and return the new owner of the session with the interrupted call."""
    checkpointer.record_tool_call_issued(session_id, call_id, "pay", {"order": 17}, f"key of {call_id}")
    new_owner = lose_run(open_checkpointer, session_id)
    (call,) = [call for call in new_owner.pending_tool_calls(session_id) if call["call_id"] == call_id]
    return new_owner, call


def call_statuses(session_id: str = "s") -> list[tuple[str, int, str]]:
    """Return call id, attempt and status of all calls of a session, in order."""
    calls = ToolCall.objects.filter(session__session_id=session_id).order_by("pk")
    return list(calls.values_list("call_id", "attempt", "status"))


def count_messages(session_id: str = "s") -> int:
    return Message.objects.filter(session__session_id=session_id).count()
