"""The durable loop of one agent: take requests, ask others and wait, answer. It may die anywhere and be started again.

Each request is a session. Its transcript holds the request, what others have answered, and at the end the answer.
A message is acknowledged when what it brought is in the database; until then its sender sends it again.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.enums import DISPATCHABLE_SESSION
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
from examples.peers_over_http.skills import Ask, Skill
from examples.peers_over_http.wire import Message, Wire

#: Seconds between two rounds of the loop when nothing happens.
ROUND = 0.2


class Agent:
    """One process of the agent `wire.agent`. Any number of them may share the database."""

    def __init__(self, checkpointer: SyncCheckpointer, wire: Wire, skill: Skill) -> None:
        self.checkpointer = checkpointer
        self.wire = wire
        self.skill = skill
        self._something_came = threading.Event()

    def run(self) -> None:
        """Serve until the process ends."""
        self.wire.serve(
            {"/request": self.take_request, "/response": self.take_response, "/cancel": self.cancel, "/ask": self.ask}
        )
        while True:
            self._something_came.clear()
            self.work()
            self._something_came.wait(ROUND)

    # what others send

    def take_request(self, message: Message) -> Message:
        """Keep a request. One that comes again is known already."""
        session_id = self._session(message["call_id"])
        with suppress(SessionBusy, PausedForPeers, SessionFinished):
            self.checkpointer.start_session(session_id, agent=self.wire.agent)
            if self.checkpointer.load_latest(session_id) is None:
                self.checkpointer.save_checkpoint(session_id, [message], None, 0)
        self._something_came.set()
        return {"taken": message["call_id"]}

    def take_response(self, message: Message) -> Message:
        answer = self.checkpointer.accept_response(
            message["call_id"], message["result"], peer=message["from"], token=message["token"]
        )
        self._something_came.set()
        return {"answer": type(answer).__name__}

    def cancel(self, message: Message) -> Message:
        """Nobody wants the answer any more: those whom this agent has asked hear of it in turn."""
        with suppress(NotPaused, SessionBusy, SessionFinished, SessionNotFound):
            self.checkpointer.cancel_paused(self._session(message["call_id"]), reason=f"{message['from']} said so")
        self._something_came.set()
        return {}

    def ask(self, message: Message) -> Message:
        """What became of a request."""
        session_id = self._session(message["call_id"])
        try:
            if not self.checkpointer.preview_resume(session_id)["finished"]:
                return {"finished": False}
        except SessionNotFound:
            return {"finished": False}
        return {"finished": True, "result": self.checkpointer.resume(session_id).result}

    # what this agent does

    def work(self) -> None:
        """One round: go on with everything one can go on with, and tell others what they have to know."""
        for session_id in self._open_sessions():
            with suppress(OwnershipError, PausedForPeers):
                self._go_on(session_id, self.checkpointer.resume(session_id).transcript)
        for paused in self.checkpointer.list_paused(ready=True, agent=self.wire.agent):
            with suppress(OwnershipError, NotPaused, StillWaiting):
                self._use(self.checkpointer.take_paused(paused["session_id"]))
        self.checkpointer.tell_peers(self._tell)
        self.checkpointer.sweep_deadlines()

    def _open_sessions(self) -> list[str]:
        """Sessions of this agent that nobody works on: new ones, and those of a process that died."""
        sessions = Session.objects.using(self.checkpointer.store.using).filter(agent=self.wire.agent)
        # One without a version has a request that was not acknowledged: it will be sent again.
        found = sessions.filter(status__in=sorted(DISPATCHABLE_SESSION), latest_version__gt=0).order_by("created_at")
        return list(found.values_list("session_id", flat=True))

    def _use(self, task: TakenTask) -> None:
        """Write down what others have answered; only then is the task over."""
        answers = {call_id.rpartition(".")[2]: result.result for call_id, result in task.results.items()}
        transcript = [*task.point.transcript, {"answers": answers}]
        self.checkpointer.save_checkpoint(task.session_id, transcript, None, 0)
        self._go_on(task.session_id, transcript)

    def _go_on(self, session_id: str, transcript: list[Message]) -> None:
        request, *later = transcript
        if later and "said" in later[-1]:
            self._answer(session_id, request, later[-1]["said"])
            return
        answers: dict[str, Any] = {}
        for each in later:
            answers |= each["answers"]
        next_ = self.skill(request["request"], answers)
        if isinstance(next_, Ask):
            self.checkpointer.pause_for_peers(session_id, {}, [self._join(request["call_id"], next_)])
        else:
            transcript = [*transcript, {"said": next_.result}]
            self.checkpointer.save_checkpoint(session_id, transcript, None, 0, phase="run_terminal")
            self._answer(session_id, request, next_.result)

    def _join(self, call_id: str, ask: Ask) -> Join:
        """The questions, each under an id that is the same whenever this request is worked on."""
        return Join(
            "questions",
            [
                PeerCall(id_, peer, request, token=self.wire.token(id_), sent=False)
                for id_, peer, request in (
                    (f"{call_id}.{name}", peer, request) for name, (peer, request) in ask.questions.items()
                )
            ],
        )

    def _answer(self, session_id: str, request: Message, result: Any) -> None:
        """Bring the answer to who asked; the session is over when it is there. Where nobody is there, later.

        Who is no agent comes for it.
        """
        call_id = request["call_id"]
        if self.wire.knows(request["from"]):
            try:
                self.wire.send(
                    request["from"],
                    "/response",
                    {"call_id": call_id, "result": result, "token": self.wire.token(call_id)},
                )
            except OSError:
                return
        self.checkpointer.finish_session(session_id, "completed", result)

    def _tell(self, notice: Notice) -> None:
        message = {"call_id": notice.call_id, "request": notice.request}
        self.wire.send(notice.peer, f"/{notice.kind}", message)

    def _session(self, call_id: str) -> str:
        return f"{self.wire.agent}: {call_id}"
