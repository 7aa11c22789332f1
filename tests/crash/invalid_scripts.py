"""Scripts that the crash harness must refuse."""

from __future__ import annotations

from uuid import uuid4

from checkpoints import SyncCheckpointer


def act(url: str, session_id: str, path: str) -> None:
    with SyncCheckpointer(url) as cp:
        cp.start_session(session_id)


def act_wrongly(url: str, session_id: str, path: str) -> None:
    raise ValueError("this agent cannot act")


def give_up_review(url: str, session_id: str, path: str) -> None:
    """Leave a call undecided."""
    with SyncCheckpointer(url) as cp:
        cp.start_session(session_id)
        if not cp.pending_tool_calls(session_id):
            cp.record_tool_call_issued(session_id, "call_1", "pay", {}, "key")
        cp.resume(session_id)


def decide_nothing(url: str, session_id: str, path: str) -> None:
    pass


def observe_nothing(url: str, session_id: str, path: str) -> None:
    pass


def observe_chance(url: str, session_id: str, path: str) -> str:
    return uuid4().hex
