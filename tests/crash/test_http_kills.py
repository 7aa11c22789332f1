"""SIGKILL of the client, of the server and of the database in the middle of each write over HTTP."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Workspace
from harness_site.accounts.models import TokenRole
from tests.conftest import StartChild
from tests.crash import http_agent, http_server
from tests.crash.http_agent import WRITES
from tests.crash.http_server import PLACES
from tests.crash.simulated_world import effects
from tests.support.api_client import make_token
from tests.support.cluster import Cluster
from tests.support.exhaustive_mode import EXHAUSTIVE
from tests.support.processes import Child, database_url, wait_until

#: Each write, with the part of the agent's work that it belongs to.
_WRITES: Final = [(part, write) for part, writes in WRITES.items() for write in writes]
#: Places at which the database can die: the server has then begun, and has not answered.
_DATABASE_PLACES: Final = PLACES[1:3]


class Trials:
    """Server that can be killed, and what each part of an agent leaves behind that nobody kills."""

    def __init__(self, start_child: StartChild, folder: Path, url: str, token: str = "", approver: str = "") -> None:
        self._folder, self._plan = folder, folder / "plan"
        server = start_child(
            http_server.serve_through_kills, fresh=True, url=url, plan=str(self._plan), migrate=not token
        )
        listens = server.expect("listens")
        self.address = listens["address"]
        self.token: str = token or listens["token"]
        self.approver: str = approver or listens["approver"]
        self.undisturbed = {part: self.play(part) for part in WRITES}

    def play(self, part: str) -> dict[str, Any]:
        """Let the agent do a part of its work in a new session, and return what it leaves behind."""
        arguments = self.name_session(part)
        http_agent.play(**arguments)
        return self.observe(arguments)

    def name_session(self, part: str) -> dict[str, str]:
        """Return the arguments for an agent in a new session."""
        name = f"s{uuid4().hex}"
        return {
            "address": self.address,
            "token": self.token,
            "approver": self.approver,
            "part": part,
            "session_id": name,
            "path": str(self._folder / name),
        }

    def observe(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        seen = http_agent.observe(self.address, self.token, arguments["part"], arguments["session_id"])
        return {"effects": effects(arguments["path"]), **seen}

    def plan(self, part: str, write: str, place: str, victim: str = "server") -> None:
        plan = json.dumps({"write": WRITES[part][write], "place": place, "victim": victim})
        self._plan.with_name("draft").write_text(plan)
        self._plan.with_name("draft").rename(self._plan)

    def is_killed(self) -> bool:
        return not self._plan.exists()


@pytest.fixture
def trials(start_child: StartChild, tmp_path: Path, workspace: Workspace) -> Trials:
    tokens = make_token(TokenRole.AGENT), make_token(TokenRole.APPROVER, name="alice")
    return Trials(start_child, tmp_path, database_url(), *tokens)


def test_server_killed_in_each_write(trials: Trials) -> None:
    """The client repeats what was not answered, and nothing is done twice or needs a person.

    An ordinary run loses the answer after the write was done, which is the hardest case, in every other write: those
    that it leaves out on one database, it takes on the other.
    """
    done = [trials.undisturbed[part]["effects"] for part in WRITES]
    assert done == [["charge 17", "hold 18"], [], ["mail 19", "refund 20"], []]
    first = 1 if connection.vendor == "postgresql" else 0
    places = PLACES if EXHAUSTIVE else PLACES[2:3]
    for (part, write), place in product(_WRITES if EXHAUSTIVE else _WRITES[first::2], places):
        trials.plan(part, write, place)
        assert trials.play(part) == trials.undisturbed[part], (write, place)
        assert trials.is_killed(), (write, place)


def test_client_killed_around_each_write(trials: Trials, start_child: StartChild) -> None:
    """Another process continues; a person decides about a call of which nobody knows the outcome.

    An ordinary run kills around every other write: those that it leaves out on one database, it takes on the other.
    """
    first = 2 if not EXHAUSTIVE and connection.vendor == "postgresql" else 1
    step = 1 if EXHAUSTIVE else 2
    decided = 0
    with SyncCheckpointer(trials.address, token=trials.approver) as person:
        for part in WRITES:
            code, number = -signal.SIGKILL, first
            while code == -signal.SIGKILL:
                for after in (False, True) if EXHAUSTIVE else (number // step % 2 == 1,):
                    arguments = trials.name_session(part)
                    child = start_child(http_agent.play_and_die, **arguments, number=number, after=after)
                    wait_until(partial(has_ended, child))
                    code = child.code or 0
                    decided += continue_to_the_end(arguments, person)
                    assert trials.observe(arguments) == trials.undisturbed[part], (part, number, after)
                number += step
            assert (code, number > len(WRITES[part])) == (0, True), part
    assert decided > 0


def has_ended(child: Child) -> bool:
    return child.code is not None


def continue_to_the_end(arguments: Mapping[str, str], person: SyncCheckpointer) -> int:
    """Continue after a kill, and decide what needs a person by what has happened. Returns the number of decisions."""
    decided = 0
    while True:
        try:
            http_agent.play(**arguments)
            return decided
        except ReviewRequired as review:
            for call in review.calls:
                decided += 1
                decide(person, review.session_id, call, arguments["path"])


#: Number of the order and result of each call that a person may have to decide.
DECIDED: Final = {"c1": ("17", "charged"), "w/hold": ("18", "held"), "c3": ("20", "refunded")}


def decide(person: SyncCheckpointer, session_id: str, call: Mapping[str, Any], path: str) -> None:
    number, word = DECIDED[call["call_id"]]
    options = {"actor": "alice", "reason": "I looked.", "revision": call["revision"]}
    if any(line.endswith(number) for line in effects(path)):
        person.confirm_landed(session_id, call["call_id"], f"{word} order {number}", **options)
    else:
        person.approve_rerun(session_id, call["call_id"], **options)


def test_database_killed_in_each_write(start_child: StartChild, tmp_path: Path) -> None:
    with Cluster() as database:
        trials = Trials(start_child, tmp_path, database.url)
        for (part, write), place in product(_WRITES if EXHAUSTIVE else _WRITES[1:4:2], _DATABASE_PLACES):
            trials.plan(part, write, place, "database")
            restart = threading.Thread(target=kill_and_restart, args=(database, tmp_path))
            restart.start()
            assert trials.play(part) == trials.undisturbed[part], (write, place)
            restart.join()
            assert trials.is_killed(), (write, place)


def kill_and_restart(database: Cluster, folder: Path) -> None:
    """Kill the database once the server has come to the place of the plan, and start it again."""
    wait_until((folder / "reached").exists)
    (folder / "reached").unlink()
    database.kill()
    (folder / "killed").touch()
    database.start()
