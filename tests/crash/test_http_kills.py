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
from tests.support.processes import Child, database_url, until

_DATABASE_KILLS = [
    (write, place) for write in (WRITES if EXHAUSTIVE else ("append", "settle")) for place in PLACES[1:3]
]


class Trials:
    """Server that can be killed, and what an agent leaves behind that nobody kills."""

    def __init__(self, start_child: StartChild, folder: Path, url: str, token: str = "", approver: str = "") -> None:
        self._folder, self._plan = folder, folder / "plan"
        server = start_child(
            http_server.serve_through_kills, fresh=True, url=url, plan=str(self._plan), migrate=not token
        )
        listens = server.expect("listens")
        self.address = listens["address"]
        self.token: str = token or listens["token"]
        self.approver: str = approver or listens["approver"]
        self.undisturbed = self.play()

    def play(self) -> dict[str, Any]:
        """Let the agent do all its work in a new session, and return what it leaves behind."""
        session_id, path = self.name_session()
        http_agent.play(self.address, self.token, self.approver, session_id, path)
        return self.observe(session_id, path)

    def name_session(self) -> tuple[str, str]:
        name = f"s{uuid4().hex}"
        return name, str(self._folder / name)

    def observe(self, session_id: str, path: str) -> dict[str, Any]:
        return {"effects": effects(path), **http_agent.observe(self.address, self.token, session_id)}

    def plan(self, write: str, place: str, victim: str = "server") -> None:
        plan = json.dumps({"write": WRITES[write], "place": place, "victim": victim})
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
    assert trials.undisturbed["effects"] == ["charge 17", "hold 18", "mail 19", "refund 20"]
    first = 1 if connection.vendor == "postgresql" else 0
    kills = [(write, PLACES[2]) for write in list(WRITES)[first::2]]
    for write, place in product(WRITES, PLACES) if EXHAUSTIVE else kills:
        trials.plan(write, place)
        assert trials.play() == trials.undisturbed, (write, place)
        assert trials.is_killed(), (write, place)


def test_client_killed_around_each_write(trials: Trials, start_child: StartChild) -> None:
    """Another process continues; a person decides about a call of which nobody knows the outcome.

    An ordinary run kills around every other write: those that it leaves out on one database, it takes on the other.
    """
    person = SyncCheckpointer(trials.address, token=trials.approver)
    step = 1 if EXHAUSTIVE else 2
    number = 2 if step == 2 and connection.vendor == "postgresql" else 1
    decided, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        for after in (False, True) if EXHAUSTIVE else (number // step % 2 == 1,):
            session_id, path = trials.name_session()
            arguments = {
                "address": trials.address,
                "token": trials.token,
                "approver": trials.approver,
                "session_id": session_id,
                "path": path,
            }
            child = start_child(http_agent.play_and_die, **arguments, number=number, after=after)
            until(partial(has_ended, child))
            code = child.code or 0
            decided += continue_to_the_end(trials, person, session_id, path)
            assert trials.observe(session_id, path) == trials.undisturbed, (number, after)
        number += step
    person.close()
    assert (code, number > len(WRITES), decided > 0) == (0, True, True)


def has_ended(child: Child) -> bool:
    return child.code is not None


def continue_to_the_end(trials: Trials, person: SyncCheckpointer, session_id: str, path: str) -> int:
    """Continue after a kill, and decide what needs a person by what has happened. Returns the number of decisions."""
    decided = 0
    while True:
        try:
            http_agent.play(trials.address, trials.token, trials.approver, session_id, path)
            return decided
        except ReviewRequired as review:
            for call in review.calls:
                decided += 1
                decide(person, review.session_id, call, path)


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
        for write, place in _DATABASE_KILLS:
            trials.plan(write, place, "database")
            restart = threading.Thread(target=kill_and_restart, args=(database, tmp_path))
            restart.start()
            assert trials.play() == trials.undisturbed, (write, place)
            restart.join()
            assert trials.is_killed(), (write, place)


def kill_and_restart(database: Cluster, folder: Path) -> None:
    """Kill the database once the server has come to the place of the plan, and start it again."""
    until((folder / "reached").exists)
    (folder / "reached").unlink()
    database.kill()
    (folder / "killed").touch()
    database.start()
