"""A queue that is full, a database that takes nothing, a session that is lost, a process that ends."""

import signal
import threading
from pathlib import Path

import pytest

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
)
from checkpoints.archive.session_directory import SyncSessionFiles
from checkpoints.exceptions import (
    FileNotWritten,
    NotDurable,
    NotOwner,
    OwnershipLost,
)
from checkpoints.models import Checkpoint
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.situations import lose_run, started, talk
from tests.integration.checkpoints.write_behind import slow_database
from tests.integration.checkpoints.write_behind.queue_helpers import SHORT, Make, hand_in, lengths
from tests.integration.checkpoints.write_behind.slow_database import locked
from tests.support.processes import database_url, until


def test_full_queue_makes_the_agent_wait_and_loses_nothing(make: Make) -> None:
    writer = make(queue=2)
    passed: list[int] = []

    def work() -> None:
        for length in range(1, 9):
            hand_in(writer, "abcdefgh"[:length])
            passed.append(length)

    agent = threading.Thread(target=work)
    with locked():
        agent.start()
        until(lambda: len(writer.unsaved()) == 2)
        agent.join(SHORT)
        assert (agent.is_alive(), passed) == (True, [1, 2])
    agent.join()
    writer.flush()

    assert lengths() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_queue_that_stays_full_refuses_what_it_cannot_take(make: Make) -> None:
    writer = make(queue=2, flush_timeout=SHORT)
    with locked():
        hand_in(writer, "a")
        hand_in(writer, "ab")
        with pytest.raises(NotDurable, match="the queue is full"):
            hand_in(writer, "abc")
    writer.flush()
    assert lengths() == [1, 2]


def test_one_session_does_not_starve_another(cp: SyncCheckpointer, make: Make) -> None:
    writer = make(queue=4)
    for session_id in ("t", "u"):
        started(cp, session_id)
    for length in range(1, 9):
        for session_id in ("s", "t", "u"):
            writer.save_checkpoint(session_id, talk("abcdefgh"[:length]), None, 0)
    writer.flush()

    assert [cp.load_latest(session_id)["version"] for session_id in ("s", "t", "u")] == [8, 8, 8]  # type: ignore[index]


def test_run_that_lost_its_session_is_told_what_is_not_durable(open_checkpointer: Open) -> None:
    first = started(open_checkpointer())
    writer = SyncWriteBehind(first)
    hand_in(writer, "a")
    writer.flush()
    lose_run(open_checkpointer)
    ticket = hand_in(writer, "ab")
    with pytest.raises(NotDurable) as caught:
        writer.flush("s")

    assert isinstance(caught.value.__cause__, OwnershipLost)
    assert ([each["messages"] for each in caught.value.unsaved], ticket.durable, lengths()) == ([2], False, [1])
    with pytest.raises(NotOwner):
        hand_in(writer, "abc")
    writer.close()


def test_trouble_of_one_session_leaves_the_others_alone(open_checkpointer: Open) -> None:
    first = started(open_checkpointer())
    started(first, "t")
    writer = SyncWriteBehind(first)
    lose_run(open_checkpointer)
    hand_in(writer, "a")
    writer.save_checkpoint("t", talk("a"), None, 0)
    writer.flush("t")

    with pytest.raises(NotDurable):
        writer.flush()
    writer.close()
    assert list(Checkpoint.objects.values_list("session__session_id", flat=True)) == ["t"]


def test_file_that_cannot_be_written_is_told_and_the_version_is_durable(
    cp: SyncCheckpointer, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "folder").touch()
    writer = make()
    SyncSessionFiles(cp, tmp_path / "folder", autosave=True)
    ticket = hand_in(writer, "a")

    with pytest.raises(FileNotWritten):
        writer.flush()
    assert (ticket.version, lengths()) == (1, [1])


def test_killed_agent_was_told_the_truth(start_child: StartChild) -> None:
    child = start_child(slow_database.save_and_die, url=database_url(), versions=40)
    told = [child.expect("tickets") for _ in range(40)]
    child.tell()
    assert child.died_by() == signal.SIGKILL

    claimed = [version for version in told[-1] if version is not None]
    assert claimed == list(range(1, len(claimed) + 1))
    assert lengths()[: len(claimed)] == claimed
    assert lengths() == list(range(1, len(lengths()) + 1))


def test_script_that_forgets_to_close_loses_nothing(start_child: StartChild) -> None:
    assert start_child(slow_database.end_without_closing, url=database_url(), versions=40).result() == "over"

    assert lengths() == list(range(1, 41))
