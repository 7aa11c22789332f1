"""Kill or disconnect an agent that waits for peers at every write boundary."""

from checkpoints.testing import CrashPoints, Fault, Script
from tests.crash.conftest import Fresh
from tests.crash.peer_agent import ask, observe
from tests.support.exhaustive_mode import choose_boundaries, choose_each

#: Every operation of waiting for other agents that writes.
WRITING = {
    "peers.accept_agent_response.accept_response",
    "peers.cancel_paused_session.cancel_paused_session",
    "peers.extend_and_sweep_agent_deadlines._expire_overdue_calls_and_complete_joins",
    "peers.pause_run_for_agent_calls._pause_run_in_transaction",
    "peers.take_paused_task._mark_task_taken_and_load_results",
    "peers.agent_notice_outbox._claim_calls_with_due_notices",
    "peers.agent_notice_outbox._delete_notice",
}


def test_faults_at_every_boundary(fresh_session: Fresh) -> None:
    with CrashPoints(Script(ask, observe), fresh_session) as points:
        places = {boundary.place for boundary in points.boundaries}
        assert {place for place in places if place.startswith("peers.")} == WRITING
        assert points.expected["result"] == {"weight": "early", "price": "answer of courier", "mood": "expired"}
        points.check_each_boundary(Fault.KILL, choose_boundaries(points.boundaries))
        points.check_each_boundary(Fault.DISCONNECT, choose_each(4, choose_boundaries(points.boundaries)))
