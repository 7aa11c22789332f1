"""An agent over HTTP that uses each write of the API, and continues where a killed one stopped."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from unittest.mock import patch

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import SessionExists, SessionNotFound
from checkpoints.peers import Join, PeerCall
from checkpoints.remote.transport import Transport
from tests.support.processes import append_line, die

#: Pauses of the client in seconds; a server or a database may need a while to start again.
PAUSES: Final = (0.05, *[0.2] * 300)
#: Why a session is taken from a run that was killed: its lease is not over.
TAKEOVER: Final = "The process was killed."
#: Writes of the agent, as method and path.
WRITES: Final = {
    "open": "POST .*/sessions$",
    "append": "POST .*/s[^/]*/versions$",
    "issue": "POST .*/calls$",
    "settle": "PATCH .*/calls/c1$",
    "fork": "POST .*/fork$",
    "step": "POST .*/workflows/w/steps$",
    "settle step": "PATCH .*/calls/w~1hold$",
    "pause": "POST .*/pause$",
    "respond": "POST .*/peer-calls/[^/]+/response$",
    "take": "POST .*/take$",
    "finish": "POST .*/finish$",
    "release": "POST .*/release$",
}


def play(address: str, token: str, session_id: str, path: str) -> None:
    """Do everything that is not done yet."""
    with patch("checkpoints.remote.transport.PAUSES", PAUSES), SyncCheckpointer(address, token=token) as cp:
        _pay(cp, session_id, path)
        _ask(cp, f"{session_id}-asks")


def play_and_die(address: str, token: str, session_id: str, path: str, number: int, after: bool) -> None:
    """Die before the request of a write is sent, or after its answer has come."""
    write, count = Transport.send_write_request, 0

    def write_and_die(self: Transport, method: str, *args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and not after:
            die()
        answer = write(self, method, *args, **options)
        if count == number:
            die()
        return answer

    with patch.object(Transport, "send_write_request", write_and_die):
        play(address, token, session_id, path)


def _pay(cp: SyncCheckpointer, session_id: str, path: str) -> None:
    registry = ToolRegistry()

    @registry.tool
    def charge(order: int) -> str:
        append_line(path, f"charge {order}")
        return f"charged order {order}"

    def hold(order: int) -> str:
        append_line(path, f"hold {order}")
        return f"held order {order}"

    with cp.session(session_id, "An order", registry=registry, takeover=TAKEOVER) as session:
        if session.finished:
            return
        if session.version == 0:
            session.append([{"id": "m0", "role": "user"}])
        content = session.dispatch("charge", {"order": 17}, "c1").content
        if session.version == 1:
            session.append([{"id": "m1", "role": "tool", "content": content}], budget_spent_usd=0.25)
        cp.workflow(session_id, "w").step("hold", hold, 18)
        with suppress(SessionExists):
            cp.fork_session(session_id, f"{session_id}-fork", version=1)
        session.finish("completed", {"order": 17})


def _ask(cp: SyncCheckpointer, session_id: str) -> None:
    version, has_asked = 0, False
    with suppress(SessionNotFound):
        version = (cp.load_latest(session_id) or {"version": 0})["version"]
        has_asked = bool(cp.peer_calls(session_id))
    if not has_asked or version == 2:
        with cp.session(session_id, "A question", takeover=TAKEOVER) as session:
            if session.version == 0:
                session.append([{"id": "m0", "role": "user"}])
            if not has_asked:
                question = PeerCall(f"{session_id}-question", "stock", {"order": 17}, sent=False)
                cp.pause_for_peers(session_id, {"step": 1}, [Join("j", [question])])
    if version < 2:
        cp.accept_response(f"{session_id}-question", "yes")
        task = cp.take_paused(session_id, takeover=TAKEOVER)
        answer = {"id": "m1", "role": "user", "content": task.joins[0].results[0].result}
        cp.append_checkpoint(session_id, [answer], expected_version=1)
        cp.release_session(session_id)


def observe(address: str, token: str, session_id: str) -> dict[str, Any]:
    """Return what has to be the same at the end, whatever happened before."""
    with patch("checkpoints.remote.transport.PAUSES", PAUSES), SyncCheckpointer(address, token=token) as cp:
        seen: dict[str, Any] = {}
        store: Any = cp.store
        for name in ("", "-fork", "-asks"):
            latest: dict[str, Any] = cp.load_latest(session_id + name) or {}
            facts = store.transport.send_read_request(f"/sessions/{session_id}{name}")
            seen[name] = (
                latest["transcript"],
                [version["version"] for version in cp.list_checkpoints(session_id + name)],
                {key: facts[key] for key in ("status", "finished", "result", "budget_spent_usd", "owner")},
                cp.pending_tool_calls(session_id + name),
            )
        return seen
