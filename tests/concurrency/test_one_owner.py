"""A session has one live run, however many processes compete for it."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.constants import BUSY_TIMEOUT_SECONDS
from checkpoints.exceptions import SessionBusy
from checkpoints.models import Checkpoint, Message, Run, Session
from tests.concurrency import agent_processes
from tests.conftest import Open, StartChild
from tests.support.processes import Child, database_url, wait_until

PROCESSES = 8


@pytest.fixture
def released(open_checkpointer: Open) -> str:
    """Session without an owner."""
    with open_checkpointer() as cp:
        cp.start_session("s")
        cp.save_checkpoint("s", [{"turn": 1}], None, 0)
    return "s"


def compete(start_child: StartChild, session_id: str, how: str) -> tuple[list[Child], list[str]]:
    children = [
        start_child(agent_processes.take_at_once, url=database_url(), session_id=session_id, how=how)
        for _ in range(PROCESSES)
    ]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()
    return children, [child.expect("took") for child in children]


@pytest.mark.parametrize("how", ["resume", "start"])
def test_one_of_eight_processes_takes_the_session(start_child: StartChild, released: str, how: str) -> None:
    children, took = compete(start_child, released, how)

    assert sorted(took) == ["SessionBusy"] * (PROCESSES - 1) + ["owner"]
    assert Run.objects.filter(status="running").count() == 1
    for child in children:
        child.tell()
        child.result()
    assert set(Run.objects.values_list("status", flat=True)) == {"released"}


def test_one_of_eight_processes_starts_a_new_session(start_child: StartChild) -> None:
    _, took = compete(start_child, "brand new", "start")

    assert sorted(took) == ["SessionBusy"] * (PROCESSES - 1) + ["owner"]
    assert (Session.objects.count(), Run.objects.count()) == (1, 1)


def test_killed_owner_is_replaced_at_once(cp: SyncCheckpointer, start_child: StartChild, released: str) -> None:
    owner = start_child(agent_processes.take_at_once, url=database_url(), session_id="s", how="resume")
    owner.expect("ready")
    owner.tell()
    assert owner.expect("took") == "owner"
    with pytest.raises(SessionBusy):
        cp.resume("s")
    owner.kill()

    point = cp.resume("s")
    assert point.run is not None
    assert (point.run.number, point.transcript) == (3, [{"turn": 1}])
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["released", "lost", "running"]


def test_live_owner_keeps_its_session_beyond_one_lease(open_checkpointer: Open) -> None:
    open_checkpointer(lease_seconds=6).start_session("s")
    first_end = Run.objects.get().lease_expires_at
    wait_until(lambda: Run.objects.get().lease_expires_at > first_end)

    with pytest.raises(SessionBusy) as caught:
        open_checkpointer().start_session("s")
    assert caught.value.lease_ends > first_end


def test_heartbeat_restarts_when_a_process_owns_again(open_checkpointer: Open) -> None:
    for _ in range(3):
        with open_checkpointer(lease_seconds=1.5) as cp:
            cp.start_session("s")
            run = Run.objects.latest("number")
            wait_until(lambda pk=run.pk, seen=run.heartbeat_at: Run.objects.get(pk=pk).heartbeat_at > seen)  # type: ignore[misc]


def test_hanging_database_does_not_delay_heartbeats_of_another(start_child: StartChild, tmp_path: Path) -> None:
    still = tmp_path / "still.db"
    owner = start_child(agent_processes.own_in_two_databases, url=database_url(), still=str(still))
    owner.expect("began")
    with closing(sqlite3.connect(still, isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        held_since = time.monotonic()
        owner.tell()
        owner.expect("owns both")
        first_end = Run.objects.get().lease_expires_at
        wait_until(lambda: Run.objects.get().lease_expires_at > first_end)
        seconds = time.monotonic() - held_since
        held.execute("ROLLBACK")
    owner.tell()
    owner.result()

    assert seconds < BUSY_TIMEOUT_SECONDS  # so long one thread for both databases would have waited for the lock


def test_saves_of_an_owner_and_its_successor_do_not_mix(open_checkpointer: Open, start_child: StartChild) -> None:
    first = start_child(agent_processes.save_until_lost, url=database_url(), session_id="s")
    first.expect("saving")
    wait_until(lambda: Checkpoint.objects.count() >= 5)
    taker = open_checkpointer()
    taker.start_session("s", takeover=True)
    mine = [taker.save_checkpoint("s", [{"by": "second", "n": number}], None, 0) for number in range(5)]
    theirs, ended_by = first.result()

    assert ended_by == "OwnershipLost"
    assert theirs + mine == list(range(1, len(theirs) + 6))
    for version in theirs:
        assert taker.load("s", version)["transcript"] == [{"by": "first", "n": n} for n in range(version)]
    assert Message.objects.count() == len(theirs) + 5


def test_processes_that_replace_each_other_all_save_versions(start_child: StartChild, released: str) -> None:
    children = [
        start_child(agent_processes.take_over_for_each_save, url=database_url(), session_id="s", saves=6)
        for _ in range(4)
    ]
    for child in children:
        child.expect("ready")
    for child in children:
        child.tell()

    written = [child.result() for child in children]
    assert [len(versions) for versions in written] == [6] * 4
    assert sorted(version for versions in written for version in versions) == list(range(2, 26))
