"""Workers of a web application that alternate on the same sessions, one request at a time."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from django.db.models import F

from checkpoints import SyncCheckpointer
from checkpoints.models import Run, Session, ToolCall
from tests.concurrency import agent_processes, web_worker
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.session_setups import count_messages
from tests.support.processes import database_url

TURNS = 100


def test_two_workers_alternate_for_a_hundred_turns(cp: SyncCheckpointer, start_child: StartChild) -> None:
    workers = [start_child(agent_processes.take_turns, url=database_url(), session_id="s") for _ in range(2)]
    for worker in workers:
        worker.expect("ready")
    versions = []
    for turn in range(TURNS):
        worker = workers[turn % 2]
        worker.tell("turn")
        versions.append(worker.expect("saved"))
    for worker in workers:
        worker.tell("over")

    assert versions == list(range(1, TURNS + 1))
    assert [worker.result() for worker in workers] == [{"slept": 0, "refused": 0}] * 2
    assert set(Run.objects.values_list("status", flat=True)) == {"released"}
    assert (Run.objects.count(), count_messages()) == (TURNS, TURNS)
    assert len({each["message"]["pid"] for each in cp.messages("s")}) == 2


def test_worker_stopped_inside_its_turn_is_refused(start_child: StartChild, open_checkpointer: Open) -> None:
    zombie = start_child(agent_processes.stall_inside_a_turn, url=database_url(), session_id="s")
    zombie.expect("inside")
    zombie.pause()
    Run.objects.update(lease_expires_at=F("started_at"))
    for turn in range(3):
        with open_checkpointer().session("s") as session:
            assert session.append([{"turn": turn}]) == turn + 2
    assert open_checkpointer().append_checkpoint("s", [{"turn": "without a run"}], expected_version=4) == 5
    zombie.go_on()
    zombie.tell()

    assert zombie.result() == ["OwnershipLost", "NotOwner", "NotOwner"]
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["lost"] + ["released"] * 3
    assert Session.objects.get().latest_version == 5


def test_worker_stopped_before_an_append_without_a_run_is_refused(
    start_child: StartChild, cp: SyncCheckpointer
) -> None:
    zombie = start_child(agent_processes.stall_inside_a_turn, url=database_url(), session_id="s")
    zombie.expect("inside")
    zombie.pause()
    Run.objects.update(lease_expires_at=F("started_at"))
    assert cp.append_checkpoint("s", [{"turn": "without a run"}], expected_version=1) == 2
    zombie.go_on()
    zombie.tell()

    assert zombie.result() == ["OwnershipLost", "NotOwner", "NotOwner"]
    assert Session.objects.get().latest_version == 2


def test_three_workers_of_another_django_project(start_child: StartChild, effects: Path) -> None:
    workers = [start_child(web_worker.serve, url=database_url(), fresh=True) for _ in range(3)]
    ports = [worker.expect("listens") for worker in workers]
    answers: dict[str, list[dict[str, int]]] = {"s0": [], "s1": []}

    def converse(session_id: str, first: int) -> None:
        for turn in range(20):
            port = ports[(first + turn) % 3]
            address = f"http://127.0.0.1:{port}/turn/{session_id}?effects={quote(str(effects))}"
            with urlopen(address, timeout=60) as response:
                answers[session_id].append(json.load(response))

    threads = [threading.Thread(target=converse, args=(f"s{number}", number)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    for worker in workers:
        worker.tell("over")

    for session_id, told in answers.items():
        assert [each["version"] for each in told] == list(range(1, 21))
        assert len({each["pid"] for each in told}) == 3
        lines = [line for line in effects.read_text().splitlines() if line.startswith(f"{session_id} ")]
        assert lines == [f"{session_id} {number}" for number in range(1, 21)]
    assert [worker.result() for worker in workers] == [0, 0, 0]
    assert ToolCall.objects.filter(status="completed").count() == 40
    assert set(Run.objects.values_list("status", flat=True)) == {"released"}
