"""Durable loop of one agent: take requests, ask others and wait, answer. It may be killed anywhere and restarted.

Each request is a session. Its transcript holds the request, the answers of others, and at the end the result. A message
is acknowledged when its content is in the database; until then its sender repeats it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.enums import DISPATCHABLE_SESSION_STATUSES
from checkpoints.exceptions import (
    NotPaused,
    OwnershipError,
    PausedForPeers,
    SessionBusy,
    SessionFinished,
    SessionNotFound,
    StillWaiting,
)
from checkpoints.models import Session
from checkpoints.peers import Join, Notice, PeerCall, TakenTask
from examples.peers_over_http.http_transport import HttpTransport, Message
from examples.peers_over_http.skills import Questions, Skill

#: Seconds between two rounds of the loop without messages.
ROUND_SECONDS = 0.2


class Agent:
    """Process of the agent `wire.agent`. Any number of them may share the database."""

    def __init__(self, checkpointer: SyncCheckpointer, wire: HttpTransport, skill: Skill) -> None:
        self.checkpointer = checkpointer
        self.wire = wire
        self.skill = skill
        self._something_came = threading.Event()

    def run(self) -> None:
        """Serve until the process ends."""
        self.wire.start_server(
            {
                "/request": self.store_request,
                "/response": self.accept_response,
                "/cancel": self.accept_cancellation,
                "/ask": self.get_request_status_and_result,
            }
        )
        while True:
            self._something_came.clear()
            self.continue_sessions_and_send_notices()
            self._something_came.wait(ROUND_SECONDS)

    # Handlers of incoming messages

    def store_request(self, message: Message) -> Message:
        """Store a request; do nothing if it is already stored."""
        session_id = self._make_session_id(message["call_id"])
        with suppress(SessionBusy, PausedForPeers, SessionFinished):
            self.checkpointer.start_session(session_id, agent=self.wire.agent)
            if self.checkpointer.load_latest(session_id) is None:
                self.checkpointer.save_checkpoint(session_id, [message], None, 0)
        self._something_came.set()
        return {"taken": message["call_id"]}

    def accept_response(self, message: Message) -> Message:
        answer = self.checkpointer.accept_response(
            message["call_id"], message["result"], peer=message["from"], token=message["token"]
        )
        self._something_came.set()
        return {"answer": type(answer).__name__}

    def accept_cancellation(self, message: Message) -> Message:
        """Cancel a request; the agents that were asked for it are notified in turn."""
        with suppress(NotPaused, SessionBusy, SessionFinished, SessionNotFound):
            self.checkpointer.cancel_paused(
                self._make_session_id(message["call_id"]), reason=f"{message['from']} said so"
            )
        self._something_came.set()
        return {}

    def get_request_status_and_result(self, message: Message) -> Message:
        """Return the status of a request, and its result if it is finished."""
        session_id = self._make_session_id(message["call_id"])
        try:
            if not self.checkpointer.preview_resume(session_id)["finished"]:
                return {"finished": False}
        except SessionNotFound:
            return {"finished": False}
        return {"finished": True, "result": self.checkpointer.resume(session_id).result}

    # Work of this agent

    def continue_sessions_and_send_notices(self) -> None:
        """Run one round: continue all sessions that can continue, and notify other agents."""
        for session_id in self._list_ids_of_sessions_to_continue():
            with suppress(OwnershipError, PausedForPeers):
                self._pause_for_peers_or_answer(session_id, self.checkpointer.resume(session_id).transcript)
        for task in self.checkpointer.list_paused(ready=True, agent=self.wire.agent):
            with suppress(OwnershipError, NotPaused, StillWaiting):
                self._store_peer_results_and_continue(self.checkpointer.take_paused(task["session_id"]))
        self.checkpointer.tell_peers(self._send_notice)
        self.checkpointer.sweep_deadlines()

    def _list_ids_of_sessions_to_continue(self) -> list[str]:
        """List the sessions of this agent without a live process: new ones, and those of a process that died."""
        sessions = Session.objects.using(self.checkpointer.store.using).filter(agent=self.wire.agent)
        # A session without a version has an unacknowledged request, which will be repeated.
        free_sessions = sessions.filter(
            status__in=sorted(DISPATCHABLE_SESSION_STATUSES), latest_version__gt=0
        ).order_by("created_at")
        return list(free_sessions.values_list("session_id", flat=True))

    def _store_peer_results_and_continue(self, task: TakenTask) -> None:
        """Save the answers of other agents, which completes the task, and continue the session."""
        answers = {call_id.rpartition(".")[2]: result.result for call_id, result in task.results.items()}
        transcript = [*task.point.transcript, {"answers": answers}]
        self.checkpointer.save_checkpoint(task.session_id, transcript, None, 0)
        self._pause_for_peers_or_answer(task.session_id, transcript)

    def _pause_for_peers_or_answer(self, session_id: str, transcript: list[Message]) -> None:
        request, *later_messages = transcript
        if later_messages and "said" in later_messages[-1]:
            self._send_answer_and_finish_session(session_id, request, later_messages[-1]["said"])
            return
        answers: dict[str, Any] = {}
        for message in later_messages:
            answers |= message["answers"]
        outcome = self.skill(request["request"], answers)
        if isinstance(outcome, Questions):
            self.checkpointer.pause_for_peers(
                session_id, {}, [self._build_join_of_questions(request["call_id"], outcome)]
            )
        else:
            transcript = [*transcript, {"said": outcome.result}]
            self.checkpointer.save_checkpoint(session_id, transcript, None, 0, phase="run_terminal")
            self._send_answer_and_finish_session(session_id, request, outcome.result)

    def _build_join_of_questions(self, call_id: str, questions: Questions) -> Join:
        """Build the join of questions, with ids that are the same whenever this request is processed."""
        return Join(
            "questions",
            [
                PeerCall(call_id_, peer, request, token=self.wire.derive_answer_token(call_id_), sent=False)
                for call_id_, peer, request in (
                    (f"{call_id}.{name}", peer, request) for name, (peer, request) in questions.questions.items()
                )
            ],
        )

    def _send_answer_and_finish_session(self, session_id: str, request: Message, result: Any) -> None:
        """Send the answer to the agent that asked, then finish the session; retry later if the agent is unreachable.

        A client that is not an agent polls for the answer.
        """
        call_id = request["call_id"]
        if self.wire.knows_agent(request["from"]):
            try:
                self.wire.send_message(
                    request["from"],
                    "/response",
                    {"call_id": call_id, "result": result, "token": self.wire.derive_answer_token(call_id)},
                )
            except OSError:
                return
        self.checkpointer.finish_session(session_id, "completed", result)

    def _send_notice(self, notice: Notice) -> None:
        message = {"call_id": notice.call_id, "request": notice.request}
        self.wire.send_message(notice.peer, f"/{notice.kind}", message)

    def _make_session_id(self, call_id: str) -> str:
        return f"{self.wire.agent}: {call_id}"
