"""Situations that many tests start from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.models import Message, ToolCall
from checkpoints.sessions import ownership

Messages = list[dict[str, Any]]


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    """One message in the shape of the chapter."""
    return {
        "id": f"m-{text}",
        "role": role,
        "created_at": "2026-01-02T03:04:05+00:00",
        "blocks": [{"kind": "text", "text": text}],
        **more,
    }


def talk(texts: Iterable[str]) -> Messages:
    """A conversation: user and assistant in turns."""
    return [said(text, "assistant" if index % 2 else "user") for index, text in enumerate(texts)]


def started(checkpointer: SyncCheckpointer, session_id: str = "s") -> SyncCheckpointer:
    checkpointer.start_session(session_id, "Refund order 17")
    return checkpointer


def lose_run(open_checkpointer: Any, session_id: str = "s") -> SyncCheckpointer:
    """Another checkpointer takes the session, as after a crash: what the run before left open is interrupted."""
    return pass_by_the_gate(open_checkpointer(), session_id)


def pass_by_the_gate(
    checkpointer: SyncCheckpointer, session_id: str = "s", *, takeover: bool = True
) -> SyncCheckpointer:
    """Take the session although calls in it are undecided, so that tests see what else stands in their way."""
    ownership.take_session(checkpointer.store, session_id, takeover=takeover).at_gate = False
    return checkpointer


def interrupt(
    checkpointer: SyncCheckpointer, open_checkpointer: Any, session_id: str = "s", call_id: str = "call_1"
) -> tuple[SyncCheckpointer, dict[str, Any]]:
    """A mutating call whose run was lost, seen by the checkpointer that owns the session now."""
    checkpointer.record_tool_call_issued(session_id, call_id, "pay", {"order": 17}, f"key of {call_id}")
    taker = lose_run(open_checkpointer, session_id)
    (call,) = [call for call in taker.pending_tool_calls(session_id) if call["call_id"] == call_id]
    return taker, call


def statuses(session_id: str = "s") -> list[tuple[str, int, str]]:
    """Every attempt of every call of a session in order: call id, attempt, status."""
    calls = ToolCall.objects.filter(session__session_id=session_id).order_by("pk")
    return list(calls.values_list("call_id", "attempt", "status"))


def stored_messages(session_id: str = "s") -> int:
    return Message.objects.filter(session__session_id=session_id).count()
