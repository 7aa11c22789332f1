"""Bring the deadline of a call that waits for approval so near that it passes at once."""

from __future__ import annotations

from datetime import timedelta

from tests.support.forked_site import use_database


def bring_deadline_near_in_child(database: str, session_id: str) -> str:
    """Set the deadline of the only call of a session to a second from now, and return it as a page has it."""
    use_database(database)

    from checkpoints.db import clock
    from checkpoints.models import ToolCall

    call = ToolCall.objects.get(session__session_id=session_id)
    deadline = clock.now() + timedelta(seconds=1)
    ToolCall.objects.filter(pk=call.pk).update(decide_within=deadline - call.issued_at)
    return deadline.isoformat()
