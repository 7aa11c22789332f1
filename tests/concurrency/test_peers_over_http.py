"""The example of three agents over HTTP, each killed at every second write boundary."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from typing import Any, Self

import pytest

from checkpoints.models import AuditEvent, PeerCall, Session, Workspace
from checkpoints.models import Join as JoinRow
from examples.peers_over_http.__main__ import ask_desk_until_answered
from examples.peers_over_http.http_transport import PORTS, HttpTransport
from examples.peers_over_http.skills import SKILLS, FinalAnswer
from tests.concurrency import http_agent
from tests.support.processes import PATIENCE, Child, database_url, wait_until

KEY = "a key of these tests"
#: What each agent asks, by the ids of its calls.
ASKED = {"q.weight", "q.weight.items", "q.price", "q.price.weight", "q.price.weight.items"}


class Supervisor:
    """Keeps one agent running: when its process has died it starts the next one, which dies two boundaries later.

    With `step` 0 none dies.
    """

    def __init__(self, agent: str, ports: dict[str, int], url: str, step: int) -> None:
        self.deaths: list[int] = []
        self._arguments = [agent, f"--database={url}", f"--key={KEY}", "--ports", *map(str, ports.values())]
        self._step = step
        self._stopping = False
        self._process = self._started()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        while self._thread.is_alive():  # the next one may have been started meanwhile
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._thread.join(0.1)
        self._process.kill()

    def _started(self) -> Child:
        boundary = self._step * (len(self.deaths) + 1)
        return Child(http_agent.live, boundary=boundary, arguments=self._arguments)

    def _watch(self) -> None:
        while True:
            while (ended := self._process.code) is None:
                time.sleep(0.01)
            if self._stopping:
                return
            self.deaths.append(ended)
            self._process.kill()
            self._process = self._started()


def free_ports() -> list[int]:
    with ExitStack() as leaving:
        sockets = [leaving.enter_context(socket.socket()) for _ in PORTS]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture
def ports() -> dict[str, int]:
    return dict(zip(PORTS, free_ports(), strict=True))


def asked(wire: HttpTransport, request: dict[str, Any]) -> Any:
    """Return the answer of the desk; fail after a timeout."""
    answers: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=lambda: answers.put(ask_desk_until_answered(wire, request, "q")), daemon=True).start()
    return answers.get(timeout=6 * PATIENCE)


@pytest.mark.parametrize("step", [0, 2], ids=["undisturbed", "killed at every second boundary"])
def test_question_is_answered_despite_kills(workspace: Workspace, ports: dict[str, int], step: int) -> None:
    with ExitStack() as leaving:
        supervisors = [leaving.enter_context(Supervisor(agent, ports, database_url(), step)) for agent in PORTS]
        answer = asked(HttpTransport("customer", ports, KEY), {"deliver": 17, "to": "Bergen"})
        # Who has answered finishes its own session a moment later, or the process that comes after it does.
        wait_until(lambda: set(Session.objects.values_list("status", flat=True)) == {"completed"})

    assert answer == {"order": 17, "to": "Bergen", "grams": 3150, "cents": 3600}
    # Each question was asked once and answered once, each join completed once.
    assert Counter(PeerCall.objects.values_list("call_id", "status")) == Counter((call, "answered") for call in ASKED)
    assert AuditEvent.objects.filter(kind="join_complete").count() == JoinRow.objects.count() == 4
    assert Session.objects.count() == 1 + len(ASKED)
    for supervisor in supervisors:
        assert set(supervisor.deaths) == ({-signal.SIGKILL} if step else set())
        assert (len(supervisor.deaths) >= 3) is bool(step)


def test_unknown_order_or_city_has_no_result_instead_of_an_error_that_repeats_after_each_start() -> None:
    assert SKILLS["desk"]({"items": 404}, {}) == FinalAnswer(None)
    assert SKILLS["courier"]({"order": 17, "to": "Rome"}, {"weight": 100}) == FinalAnswer(None)
