"""An agent in a web application: each turn is a request that holds the session only while it is answered, and what the
user says is appended without a run."""

from __future__ import annotations

from checkpoints import SyncCheckpointer
from tests.crash.agent import persistently
from tests.crash.simulated_world import toolbox

TURNS = 1


def answer_requests(url: str, session_id: str, path: str) -> None:
    """Serve the remaining requests of the conversation, and finish the session."""
    registry = toolbox(path)
    with SyncCheckpointer(url) as cp:

        def begin() -> None:
            with cp.session(session_id, "An order", agent="clerk", registry=registry):
                pass

        def length() -> tuple[int, int]:
            latest = cp.load_latest(session_id)
            return (0, 0) if latest is None else (len(latest["transcript"]), latest["version"])

        def serve() -> None:
            number, version = length()
            order = 17 + number // 2
            if number == 2 * TURNS:  # the answer to the last one was lost, and it is there
                return
            if number % 2 == 0:
                said = {"id": f"m{number}", "role": "user", "text": f"Charge order {order}"}
                cp.append_checkpoint(session_id, [said], expected_version=version, budget_spent_usd=0.5 * number)
                return
            with cp.session(session_id, registry=registry) as session:
                result = session.dispatch("charge", {"order": order}, f"call_{order}")
                session.append([{"id": f"m{number}", "role": "tool", "text": result.content}], plan={"turn": number})

        def finish() -> None:
            with cp.session(session_id, registry=registry) as session:
                if not session.finished:
                    session.finish("completed", {"turns": TURNS})

        persistently(begin)
        if cp.resume(session_id, registry).finished:
            return
        cp.release_session(session_id)
        while length()[0] < 2 * TURNS:
            persistently(serve)
        persistently(finish)
