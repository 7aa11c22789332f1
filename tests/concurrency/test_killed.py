"""SIGKILL at every point of a call: nothing is lost, nothing is done twice, nothing is guessed."""

import signal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer, ToolResult
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Session, ToolCall
from tests.concurrency import agents
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import call_statuses
from tests.support.processes import database_url


def killed(start_child: StartChild, effects: Path, point: str) -> None:
    child = start_child(agents.die_at, url=database_url(), session_id="s", effects=str(effects), point=point)

    assert child.died_by() == signal.SIGKILL


def resumed(cp: SyncCheckpointer, effects: Path) -> Any:
    """The next run: what it is given, and what a call with the same arguments gives it."""
    registry = agents.paying(cp, "s", str(effects))
    point = cp.resume("s", registry)
    return point, registry.dispatch("pay", {"order": 17}, "call_1")


def test_before_the_intent_nothing_has_happened(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "before the intent")
    point, result = resumed(cp, effects)

    assert (point.version, point.plan, point.replayable) == (1, {"goal": "pay"}, {})
    assert (result, effects.read_text()) == (ToolResult("call_1", "paid 17"), "pay 17\n")


@pytest.mark.parametrize(("point", "happened"), [("before the effect", ""), ("after the effect", "pay 17\n")])
def test_kill_inside_the_call_leaves_the_outcome_unknown(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, point: str, happened: str
) -> None:
    killed(start_child, effects, point)

    for _ in range(2):
        with pytest.raises(ReviewRequired) as caught:
            resumed(cp, effects)
        assert [(call["call_id"], call["reason"]) for call in caught.value.calls] == [("call_1", "run_lost")]
    assert (effects.read_text(), call_statuses()) == (happened, [("call_1", 1, "interrupted")])
    assert Session.objects.get().status == "needs_review"


@pytest.mark.parametrize(("point", "happened"), [("before the effect", 0), ("after the effect", 1)])
@pytest.mark.parametrize(
    ("decision", "content", "runs"),
    [("confirm_landed", "receipt 5", 0), ("approve_rerun", "paid 17", 1)],
)
def test_person_decides_what_follows(
    cp: SyncCheckpointer,
    start_child: StartChild,
    effects: Path,
    point: str,
    happened: int,
    decision: str,
    content: str,
    runs: int,
) -> None:
    killed(start_child, effects, point)
    with pytest.raises(ReviewRequired) as caught:
        resumed(cp, effects)
    (call,) = caught.value.calls
    more = {"result_text": content} if decision == "confirm_landed" else {}
    getattr(cp, decision)("s", "call_1", actor="alice", reason="I looked.", revision=call["revision"], **more)
    _, result = resumed(cp, effects)

    assert result.content == content
    assert effects.read_text() == "pay 17\n" * (happened + runs)
    assert resumed(cp, effects)[1].replayed is True
    assert effects.read_text() == "pay 17\n" * (happened + runs)


def test_after_the_call_its_result_is_replayed(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "after the call")
    point, result = resumed(cp, effects)

    replayed = ToolResult("call_1", "paid 17", replayed=True)
    assert (point.version, point.replayable, result) == (1, {"call_1": replayed}, replayed)
    assert effects.read_text() == "pay 17\n"


def test_resume_gives_what_happened_without_asking_for_it(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    """A replay that had to be stopped by the constraint on its key would look the same from outside."""
    killed(start_child, effects, "after the call")
    with CaptureQueriesContext(connection) as asked:
        point = cp.resume("s", agents.paying(cp, "s", str(effects)))
        cp.save_checkpoint("s", [{"turn": 1}, {"paid": point.replayable["call_1"].content}], None, 1)

    log = ToolCall._meta.db_table
    written = [
        query["sql"] for query in asked if f'INSERT INTO "{log}"' in query["sql"] or f'UPDATE "{log}"' in query["sql"]
    ]
    assert written == []
    assert list(ToolCall.objects.values_list("status", "replay_count")) == [("completed", 0)]


def test_after_the_save_the_run_goes_on_from_there(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    killed(start_child, effects, "after the save")
    point, result = resumed(cp, effects)

    assert (point.version, point.plan, point.budget_spent_usd) == (2, {"goal": "done"}, 1)
    assert (point.transcript, point.replayable) == ([{"turn": 1}, {"turn": 2}], {})
    assert (result.replayed, effects.read_text()) == (True, "pay 17\n")


def test_after_the_end_the_result_is_returned(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "after the end")
    point = cp.resume("s")

    assert (point.finished, point.result, point.version, point.run) == (True, "paid", 2, None)
    assert (effects.read_text(), ToolCall.objects.count()) == ("pay 17\n", 1)
