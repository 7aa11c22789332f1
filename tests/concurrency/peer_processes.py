"""Process of an agent that pauses, takes tasks and accepts responses on command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from checkpoints.peers import Accepted, Duplicate, Join, Notice, PeerCall
from checkpoints.testing import Fault, fault_at
from tests.support.processes import append_line, die, send_to_parent, wait_for_parent


def obey(url: str, log: str = "") -> None:
    """Execute one command per input line, and report its outcome. `fault` names a write boundary to die at."""
    process = _Process(SyncCheckpointer.open(url), log)
    send_to_parent("ready")
    while order := wait_for_parent():
        wanted: dict[str, Any] = json.loads(order)
        with fault_at(wanted.pop("fault", 0), Fault.KILL):
            send_to_parent("did", _outcome(getattr(process, wanted.pop("do")), wanted))


def _outcome(work: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return work(**arguments)
    except CheckpointsError as error:
        return type(error).__name__


class _Process:
    def __init__(self, cp: SyncCheckpointer, log: str) -> None:
        self.cp, self.log = cp, log

    def start(self, session_id: str) -> None:
        self.cp.start_session(session_id, agent="desk")

    def pause(self, session_id: str, calls: list[str]) -> list[Any]:
        join = Join("j", [PeerCall(call, "stock") for call in calls])
        paused = self.cp.pause_for_peers(session_id, {"step": 1}, [join])
        return ["Paused", "j" in paused.complete, 0]

    def accept(self, call: str) -> list[Any]:
        """Accept a response; return its kind, whether its join is complete or ready, and the counts."""
        answer = self.cp.accept_response(call, f"answer to {call}")
        if isinstance(answer, Accepted):
            return ["Accepted", answer.join_complete, answer.completed]
        return [type(answer).__name__, isinstance(answer, Duplicate) and answer.ready, 0]

    def take(self, session_id: str) -> list[Any]:
        task = self.cp.take_paused(session_id)
        return ["TakenTask", sorted(task.results), task.times_taken]

    def save(self, session_id: str) -> int:
        return self.cp.save_checkpoint(session_id, [{"went": "on"}], None, 0)

    def sweep(self) -> list[Any]:
        swept = self.cp.sweep_deadlines()
        return [list(swept.expired), [list(each) for each in swept.complete]]

    def tell(self, deadly: str = "") -> list[str]:
        return list(self.cp.tell_peers(lambda notice: self._told(notice, deadly)).told)

    def cancel(self, session_id: str, deadly: str = "") -> list[str]:
        return list(self.cp.cancel_paused(session_id, tell=lambda notice: self._told(notice, deadly)).told)

    def _told(self, notice: Notice, deadly: str) -> None:
        append_line(self.log, f"{notice.kind} {notice.call_id}")
        if notice.call_id == deadly:
            die()
