"""The harness as processes: crash and resume, a duplicate write, a damaged history."""

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import VersionNotFound
from checkpoints.models import Checkpoint, Session
from tests.conftest import Open, StartChild
from tests.minimal_harness import agents
from tests.support.processes import database_url

SESSION = "session-alpha"


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


def test_first_run_starts_from_nothing(start_child: StartChild, outbox: Path) -> None:
    ended = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=2).result()

    assert ended == {"pending": [], "version": None, "summary": "All mails are out.", "spent": 0.75}
    assert outbox.read_text() == "person 1\nperson 2\n"


def test_database_is_opened_by_path(start_child: StartChild, outbox: Path, tmp_path: Path) -> None:
    path = tmp_path / ".harness" / "sessions.db"

    for spent, version in ((0.5, None), (1.0, 2)):
        ended = start_child(agents.main, db=str(path), outbox=str(outbox), turns=1).result()
        assert (ended["spent"], ended["version"]) == (spent, version)
    assert path.read_bytes()[:15] == b"SQLite format 3"


def test_run_killed_after_its_fourth_turn_goes_on(start_child: StartChild, cp: SyncCheckpointer, outbox: Path) -> None:
    first = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=6, die_after=4)
    assert first.died_by() == signal.SIGKILL
    before = cp.load_latest(SESSION)
    assert before is not None
    assert (before["version"], before["budget_spent_usd"]) == (4, 1.0)

    ended = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=6).result()
    after = cp.load_latest(SESSION)
    assert after is not None
    assert (ended["pending"], ended["version"], ended["summary"]) == ([], 4, "All mails are out.")
    assert after["transcript"][: len(before["transcript"])] == before["transcript"]
    assert (after["version"], after["budget_spent_usd"]) == (7, 1.75)
    assert after["plan"] == {
        "goal": "mail",
        "steps": [
            {"title": "first", "done": True, "evidence": []},
            {"title": "second", "done": True, "evidence": []},
        ],
    }
    assert outbox.read_text().splitlines() == [f"person {number}" for number in range(1, 7)]


def test_run_killed_inside_a_tool_surfaces_the_call_and_repeats_nothing(
    start_child: StartChild, cp: SyncCheckpointer, outbox: Path
) -> None:
    first = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=3, die_in="person 2")
    assert first.died_by() == signal.SIGKILL

    for _ in range(2):
        ended = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=3).result()
        assert ended["pending"] == [["call_1", "send_email", '{"to":"person 2"}']]
        assert ended["summary"] == "review: ['call_1']"
    (call,) = cp.pending_tool_calls(SESSION)
    assert Session.objects.get().status == "needs_review"
    cp.confirm_landed(
        SESSION, "call_1", "sent to person 2", actor="alice", reason="In the outbox.", revision=call["revision"]
    )

    ended = start_child(agents.main, db=database_url(), outbox=str(outbox), turns=3).result()
    assert (ended["pending"], ended["summary"]) == ([], "All mails are out.")
    assert outbox.read_text().splitlines() == ["person 1", "person 2", "person 3"]


def test_email_is_sent_once(start_child: StartChild, cp: SyncCheckpointer, outbox: Path) -> None:
    for _ in range(3):
        start_child(agents.main, db=database_url(), outbox=str(outbox), turns=1).result()

    loaded = cp.load_latest(SESSION)
    assert loaded is not None
    results = [
        block["content"]
        for message in loaded["transcript"]
        for block in message["blocks"]
        if block["kind"] == "tool_result"
    ]
    assert results == ["sent to person 1"] * 3
    assert outbox.read_text() == "person 1\n"


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_history_with_a_version_missing_still_resumes(
    start_child: StartChild, open_checkpointer: Open, outbox: Path, gone: int
) -> None:
    start_child(agents.main, db=database_url(), outbox=str(outbox), turns=3, die_after=4).died_by()
    cp = open_checkpointer()
    versions = [cp.load(SESSION, number)["transcript"] for number in (1, 2, 3, 4)]
    assert all(later[: len(before)] == before for before, later in pairwise(versions))
    Checkpoint.objects.get(version=gone).delete()

    with pytest.raises(VersionNotFound):
        cp.load(SESSION, gone)
    assert [found["version"] for found in cp.list_checkpoints(SESSION)] == [
        number for number in (4, 3, 2, 1) if number != gone
    ]
    point = cp.resume(SESSION)
    assert (point.version, point.transcript) == (4, versions[3])
    assert cp.save_checkpoint(SESSION, point.transcript, point.plan, point.budget_spent_usd) == 5


def test_newest_version_missing_resumes_from_the_one_before(
    start_child: StartChild, open_checkpointer: Open, outbox: Path
) -> None:
    start_child(agents.main, db=database_url(), outbox=str(outbox), turns=3, die_after=3).died_by()
    Checkpoint.objects.get(version=3).delete()
    cp = open_checkpointer()
    point = cp.resume(SESSION)

    assert point.version == 2
    assert cp.save_checkpoint(SESSION, point.transcript, point.plan, point.budget_spent_usd) == 4
    assert cp.load(SESSION, 4)["transcript"] == point.transcript
