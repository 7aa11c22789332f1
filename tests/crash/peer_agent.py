"""Agent that asks its peers twice and cancels a third question; the peers run in the same process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer, exceptions
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.models import PeerCall as PeerCallRow
from checkpoints.models import Workspace
from checkpoints.peers import Join, Notice, PeerCall, TakenTask
from tests.support.processes import append_line

Messages = list[dict[str, Any]]
QUESTIONS = [("weight", "stock"), ("price", "courier")]


def ask(url: str, session_id: str, path: str) -> None:
    """Run the agent and its peers until the session is finished and the second session is cancelled."""
    with opened(url, session_id) as cp:
        while not _finished(cp, session_id):
            _step(cp, session_id, path)
        _give_up(cp, f"{session_id} aside", path)


def opened(url: str, session_id: str) -> SyncCheckpointer:
    """Open a checkpointer in a separate workspace, so that sweeps and notices concern this session only."""
    cp = SyncCheckpointer(url, workspace=session_id)
    with database_operation(cp.store.using):
        Workspace.objects.using(cp.store.using).get_or_create(slug=session_id)
    return cp


def _finished(cp: SyncCheckpointer, session_id: str) -> bool:
    try:
        return bool(cp.preview_resume(session_id)["finished"])
    except exceptions.SessionNotFound:
        return False


def _step(cp: SyncCheckpointer, session_id: str, path: str) -> None:
    """Perform the next step of the agent, its peers or the sweeper."""
    try:
        cp.start_session(session_id, agent="desk")
    except exceptions.PausedForPeers:
        _be_the_peers(cp, session_id, path)
        if cp.list_paused(ready=True, agent="desk"):
            _go_on(cp, session_id, cp.take_paused(session_id))
        return
    latest = cp.load_latest(session_id)
    _work(cp, session_id, latest["transcript"] if latest else [])


def _go_on(cp: SyncCheckpointer, session_id: str, task: TakenTask) -> None:
    answers = {result.call_id.split(" ")[-1]: result.result or result.status for result in task.results.values()}
    transcript = [*task.point.transcript, {"state": task.state, "answers": answers}]
    cp.save_checkpoint(session_id, transcript, None, len(transcript))
    _work(cp, session_id, transcript)


def _work(cp: SyncCheckpointer, session_id: str, transcript: Messages) -> None:
    turn = len(transcript)
    if turn == 2:
        cp.finish_session(session_id, "completed", transcript[-1]["answers"])
        return
    calls = [
        PeerCall(f"{session_id} {turn} {what}", peer, {"what": what}, token="t", sent=False) for what, peer in QUESTIONS
    ]
    if turn == 1:
        calls.append(PeerCall(f"{session_id} 1 mood", "nobody", deadline=0, token="t"))
    cp.accept_response(calls[0].id, "early", session_id=session_id, token="t")
    cp.pause_for_peers(session_id, {"turn": turn}, [Join("j", calls)])


def _be_the_peers(cp: SyncCheckpointer, session_id: str, path: str) -> None:
    """Answer each request twice; repeated requests change nothing."""
    cp.sweep_deadlines()
    _tell(cp, path)
    for call in cp.peer_calls(session_id):
        if call["status"] == "waiting":
            for _ in range(2):
                cp.accept_response(call["call_id"], f"answer of {call['peer']}", token="t")


def _give_up(cp: SyncCheckpointer, session_id: str, path: str) -> None:
    """Pause and cancel a second session."""
    while not _finished(cp, session_id):
        try:
            cp.start_session(session_id)
            cp.pause_for_peers(session_id, {}, [Join("j", [PeerCall(f"{session_id} c", "stock")])])
        except exceptions.PausedForPeers:
            cp.cancel_paused(session_id)
    _tell(cp, path)


def _tell(cp: SyncCheckpointer, path: str) -> None:
    """Send all notices, including those claimed by an earlier process."""
    claimed = PeerCallRow.objects.using(cp.store.using).filter(workspace_id=cp.store.workspace_id)
    with database_operation(cp.store.using):
        claimed.exclude(notice="").update(tell_after="2000-01-01T00:00:00Z")

    def tell(notice: Notice) -> None:
        append_line(path, json.dumps([notice.kind, notice.call_id]))

    cp.tell_peers(tell)


def observe(url: str, session_id: str, path: str) -> Any:
    """Return the result of the agent, the status of each call, and the notices without repetitions."""
    cp = opened(url, session_id)
    point = cp.resume(session_id)
    told = sorted(set(Path(path).read_text().splitlines()))
    return {
        "result": point.result,
        "transcript": point.transcript,
        "version": point.version,
        "calls": {
            call["call_id"].removeprefix(session_id): [call["status"], call["result_json"], call["to_tell"]]
            for each in (session_id, f"{session_id} aside")
            for call in cp.peer_calls(each)
        },
        "told": [line.replace(session_id, "") for line in told],
        "paused": cp.list_paused(),
        "aside": cp.preview_resume(f"{session_id} aside")["finished"],
    }
