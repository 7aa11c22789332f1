"""Helpers that create and change sessions that wait for other agents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.models import PeerCall as PeerCallRow
from checkpoints.models import Run, Session
from checkpoints.peers import Accepted, Join, Paused, PeerCall
from tests.integration.checkpoints.session_setups import start_session, text_message


def join(join_id: str, *call_ids: str, **options: Any) -> Join:
    """Build a join of calls to the agent `stock`."""
    return Join(join_id, [PeerCall(call_id, "stock", {"ask": call_id}, **options) for call_id in call_ids])


def pause(cp: SyncCheckpointer, *joins: Join, session_id: str = "s", state: dict[str, Any] | None = None) -> Paused:
    """Save a version and pause the session for `joins`."""
    held = cp.checkpointer_state.find_owned_session(session_id)
    if held is None:
        start_session(cp, session_id)
    cp.save_checkpoint(session_id, [text_message("question")], {"goal": 1}, 0.5)
    return cp.pause_for_peers(session_id, state or {"step": 1}, joins)


def accepted(cp: SyncCheckpointer, call_id: str, result: Any = "yes") -> tuple[bool, int, int]:
    """Accept a response; return whether its join is complete, and the counts."""
    answer = cp.accept_response(call_id, result)
    assert isinstance(answer, Accepted), answer
    return answer.join_complete, answer.completed, answer.total


def expire_deadlines(*call_ids: str) -> None:
    """Move the deadlines of calls into the past."""
    PeerCallRow.objects.filter(call_id__in=call_ids).update(deadline=F("created_at") - timedelta(seconds=1))


def lose_run(session_id: str = "s") -> None:
    """Make the run of a session look lost: another host, and an expired lease."""
    owner = Session.objects.filter(session_id=session_id).values("owner")
    Run.objects.filter(pk__in=owner).update(lease_expires_at=F("started_at"))


def peer_call_statuses(session_id: str = "s") -> dict[str, str]:
    """Return the status of each call to another agent."""
    calls = PeerCallRow.objects.filter(session__session_id=session_id)
    return dict(calls.order_by("pk").values_list("call_id", "status"))
