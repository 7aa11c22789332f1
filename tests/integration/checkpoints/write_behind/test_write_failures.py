"""Write-behind with a full queue, a locked database, a lost session, and at the end of the process."""

import signal
import threading
from pathlib import Path

import pytest

from checkpoints import (
    SyncCheckpointer,
    SyncWriteBehind,
)
from checkpoints.archive.folder_of_session_files import SyncSessionFiles
from checkpoints.exceptions import (
    FileNotWritten,
    NotDurable,
    NotOwner,
    OwnershipLost,
)
from checkpoints.models import Checkpoint
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.session_setups import conversation, lose_run, start_session
from tests.integration.checkpoints.write_behind import slow_database
from tests.integration.checkpoints.write_behind.queue_helpers import (
    SHORT_TIMEOUT,
    MakeWriter,
    save_behind,
    version_lengths,
    wait_long_for_database,
)
from tests.integration.checkpoints.write_behind.slow_database import locked_sessions
from tests.support.processes import database_url, wait_until


def test_full_queue_blocks_the_agent_and_loses_nothing(make_writer: MakeWriter) -> None:
    writer = make_writer(queue=2)
    passed: list[int] = []

    def work() -> None:
        for length in range(1, 9):
            save_behind(writer, "abcdefgh"[:length])
            passed.append(length)

    agent = threading.Thread(target=work)
    with locked_sessions():
        agent.start()
        wait_until(lambda: len(writer.unsaved()) == 2)
        agent.join(SHORT_TIMEOUT)
        assert (agent.is_alive(), passed) == (True, [1, 2])
    agent.join()
    writer.flush()

    assert version_lengths() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_queue_that_stays_full_refuses_versions(make_writer: MakeWriter) -> None:
    writer = make_writer(queue=2, flush_timeout=SHORT_TIMEOUT)
    with locked_sessions():
        save_behind(writer, "a")
        save_behind(writer, "ab")
        with pytest.raises(NotDurable, match="the queue is full"):
            save_behind(writer, "abc")
    wait_long_for_database(writer)
    writer.flush()
    assert version_lengths() == [1, 2]


def test_one_session_does_not_starve_another(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer(queue=4)
    for session_id in ("t", "u"):
        start_session(cp, session_id)
    for length in range(1, 9):
        for session_id in ("s", "t", "u"):
            writer.save_checkpoint(session_id, conversation("abcdefgh"[:length]), None, 0)
    writer.flush()

    assert [cp.load_latest(session_id)["version"] for session_id in ("s", "t", "u")] == [8, 8, 8]  # type: ignore[index]


def test_lost_session_reports_versions_that_are_not_durable(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    writer = SyncWriteBehind(first)
    save_behind(writer, "a")
    writer.flush()
    lose_run(open_checkpointer)
    ticket = save_behind(writer, "ab")
    with pytest.raises(NotDurable) as caught:
        writer.flush("s")

    assert isinstance(caught.value.__cause__, OwnershipLost)
    assert ([each["messages"] for each in caught.value.unsaved], ticket.durable, version_lengths()) == ([2], False, [1])
    with pytest.raises(NotOwner):
        save_behind(writer, "abc")
    writer.close()


def test_failure_of_one_session_does_not_affect_others(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer())
    start_session(first, "t")
    writer = SyncWriteBehind(first)
    lose_run(open_checkpointer)
    save_behind(writer, "a")
    writer.save_checkpoint("t", conversation("a"), None, 0)
    writer.flush("t")

    with pytest.raises(NotDurable):
        writer.flush()
    writer.close()
    assert list(Checkpoint.objects.values_list("session__session_id", flat=True)) == ["t"]


def test_failed_autosave_is_reported_and_the_version_is_durable(
    cp: SyncCheckpointer, make_writer: MakeWriter, tmp_path: Path
) -> None:
    (tmp_path / "folder").touch()
    writer = make_writer()
    SyncSessionFiles(cp, tmp_path / "folder", autosave=True)
    ticket = save_behind(writer, "a")

    with pytest.raises(FileNotWritten):
        writer.flush()
    assert (ticket.version, version_lengths()) == (1, [1])


def test_tickets_of_a_killed_agent_were_correct(start_child: StartChild) -> None:
    child = start_child(slow_database.queue_versions_and_die, url=database_url(), versions=40)
    told = [child.expect("tickets") for _ in range(40)]
    child.tell()
    assert child.died_by() == signal.SIGKILL

    claimed = [version for version in told[-1] if version is not None]
    assert claimed == list(range(1, len(claimed) + 1))
    assert version_lengths()[: len(claimed)] == claimed
    assert version_lengths() == list(range(1, len(version_lengths()) + 1))


def test_script_that_does_not_close_loses_nothing(start_child: StartChild) -> None:
    assert start_child(slow_database.exit_without_closing, url=database_url(), versions=40).result() == "over"

    assert version_lengths() == list(range(1, 41))
