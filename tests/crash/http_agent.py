"""An agent over HTTP that uses each write of the API, and continues where a killed one stopped."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from unittest.mock import patch

from checkpoints import Landed, NotLanded, SyncCheckpointer, ToolRegistry
from checkpoints.exceptions import (
    ApprovalRequired,
    PeerCallOver,
    SessionExists,
    SessionFinished,
    SessionNotFound,
    VersionNotFound,
)
from checkpoints.loop_state.phase_details import PreLlm
from checkpoints.peers import Join, PeerCall
from checkpoints.remote.transport import Transport
from tests.crash.simulated_world import effects
from tests.support.processes import append_line, die

#: Pauses of the client in seconds; a server or a database may need a while to start again.
PAUSES: Final = (0.05, *[0.2] * 300)
#: Why a session is taken from a run that was killed: its lease is not over.
TAKEOVER: Final = "The process was killed."
#: Writes of each part of the agent's work, as method and path.
WRITES: Final = {
    "pay": {
        "open": "POST .*/sessions$",
        "append": "POST .*/versions$",
        "issue": "POST .*/calls$",
        "settle": "PATCH .*/calls/c1$",
        "open journal": "POST .*/workflows/w$",
        "step": "POST .*/workflows/w/steps$",
        "settle step": "PATCH .*/calls/w~1hold$",
        "fork": "POST .*/fork$",
        "finish": "POST .*/finish$",
    },
    "ask": {
        "pause": "POST .*/pause$",
        "respond": "POST .*/peer-calls/[^/]+/response$",
        "take": "POST .*/take$",
        "release": "POST .*/release$",
    },
    "notify": {
        "probe": "POST .*/calls/c2/probe$",
        "decide": "POST .*/calls/c3/decision$",
    },
    "give up": {
        "save phase": "POST .*/phases$",
        "claim notices": "POST .*/notices/claim$",
        "report notice": "POST .*/notice$",
        "extend": "POST .*/deadline$",
        "sweep": "POST .*/peer-calls/sweep$",
        "cancel": "POST .*/cancel$",
        "delete version": "DELETE .*/versions/1$",
        "prune": "POST .*/prune$",
        "delete": "DELETE .*/sessions/[^/]*$",
    },
}
#: Sessions that a part leaves, as what follows the id of its first one.
SESSIONS: Final = {"pay": ("", "-fork"), "ask": ("",), "notify": ("",), "give up": ("",)}


def play(address: str, token: str, approver: str, part: str, session_id: str, path: str) -> None:
    """Do what is not done yet of one part of the work. `approver` is the token of the person who approves."""
    with patch("checkpoints.remote.transport.PAUSES", PAUSES), SyncCheckpointer(address, token=token) as cp:
        if part == "pay":
            _pay(cp, session_id, path)
        elif part == "ask":
            _ask(cp, session_id)
        elif part == "notify":
            with SyncCheckpointer(address, token=approver) as person:
                _notify(cp, person, session_id, path)
        else:
            _give_up(cp, session_id)


def play_and_die(number: int, after: bool, **arguments: str) -> None:
    """Play, and die before the request of a write is sent, or after its answer has come."""
    write, count = Transport.send_write_request, 0

    def write_and_die(self: Transport, method: str, *args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == number and not after:
            die()
        try:
            return write(self, method, *args, **options)
        finally:  # the answer may be an error, as for a call that a person has to approve
            if count == number:
                die()

    with patch.object(Transport, "send_write_request", write_and_die):
        play(**arguments)


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


def _notify(cp: SyncCheckpointer, person: SyncCheckpointer, session_id: str, path: str) -> None:
    """Call a tool with a verify hook, and one that a person has to approve."""
    registry = ToolRegistry()

    def was_mailed(args: dict[str, Any]) -> Landed | NotLanded:
        return Landed("mailed order 19") if "mail 19" in effects(path) else NotLanded()

    @registry.tool(verify=was_mailed)
    def mail(order: int) -> str:
        append_line(path, f"mail {order}")
        raise TimeoutError("The mail server did not answer.")

    @registry.tool(requires_approval=True)
    def refund(order: int) -> str:
        append_line(path, f"refund {order}")
        return f"refunded order {order}"

    with suppress(SessionNotFound):
        _approve_calls(person, session_id)
    with cp.session(session_id, "A refund", registry=registry, takeover=TAKEOVER) as session:
        if session.finished:
            return
        session.dispatch("mail", {"order": 19}, "c2")
        while session.version == 0:
            try:
                content = session.dispatch("refund", {"order": 20}, "c3").content
            except ApprovalRequired:
                _approve_calls(person, session_id)
            else:
                session.append([{"id": "m0", "role": "tool", "content": content}])
        session.finish("completed")


def _approve_calls(person: SyncCheckpointer, session_id: str) -> None:
    for call in person.pending_tool_calls(session_id):
        if call["status"] == "awaiting_approval":
            person.approve_call(
                session_id, call["call_id"], actor="alice", reason="It is right.", revision=call["revision"]
            )


def _give_up(cp: SyncCheckpointer, session_id: str) -> None:
    """Wait for another agent, and end the session without its answer."""
    has_asked = False
    with suppress(SessionNotFound):
        has_asked = bool(cp.peer_calls(session_id))
    if not has_asked:
        with cp.session(session_id, "A question without an answer", takeover=TAKEOVER) as session:
            while session.version < 2:
                session.append([{"id": f"m{session.version}", "role": "user"}])
            if session.version == 2:
                cp.save_phase(session_id, PreLlm(model="small"), expected_version=2)
            question = PeerCall(f"{session_id}-question", "stock", {"order": 21}, sent=False, deadline=3_600)
            cp.pause_for_peers(session_id, {"step": 1}, [Join("j", [question])])
    cp.tell_peers(lambda notice: None)
    with suppress(PeerCallOver):
        cp.extend_deadline(f"{session_id}-question", 7_200)
    cp.sweep_deadlines()
    with suppress(SessionFinished):
        cp.cancel_paused(session_id, reason="It is late.")
    with suppress(SessionExists):
        cp.fork_session(session_id, f"{session_id}-fork")
    with suppress(VersionNotFound):
        cp.delete_checkpoint(session_id, 1)
    cp.prune(session_id, keep_last=1)
    cp.delete_session(f"{session_id}-fork")


def observe(address: str, token: str, part: str, session_id: str) -> dict[str, Any]:
    """Return what has to be the same at the end, whatever happened before."""
    with patch("checkpoints.remote.transport.PAUSES", PAUSES), SyncCheckpointer(address, token=token) as cp:
        seen: dict[str, Any] = {}
        store: Any = cp.checkpointer_state
        for ending in SESSIONS[part]:
            name = session_id + ending
            latest: dict[str, Any] = cp.load_latest(name) or {}
            facts = store.transport.send_read_request(f"/sessions/{name}")
            seen[ending] = (
                latest["transcript"],
                [version["version"] for version in cp.list_checkpoints(name)],
                {key: facts[key] for key in ("status", "finished", "result", "budget_spent_usd", "owner")},
                cp.pending_tool_calls(name),
            )
        return seen
