"""SIGKILL at every point of a call: nothing is lost, repeated or guessed."""

import signal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer, ToolResult
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Session, ToolCall
from tests.concurrency import agent_processes
from tests.conftest import StartChild
from tests.integration.checkpoints.session_setups import call_statuses
from tests.support.processes import database_url


def killed(start_child: StartChild, effects: Path, point: str) -> None:
    child = start_child(agent_processes.die_at, url=database_url(), session_id="s", effects=str(effects), point=point)

    assert child.died_by() == signal.SIGKILL


def resumed(cp: SyncCheckpointer, effects: Path) -> Any:
    """Resume in another process; return the replayable results and the result of the same call."""
    registry = agent_processes.paying(cp, "s", str(effects))
    point = cp.resume("s", registry)
    return point, registry.dispatch("pay", {"order": 17}, "call_1")


def test_killed_before_the_intent_has_no_effect(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "before the intent")
    point, result = resumed(cp, effects)

    assert (point.version, point.plan, point.replayable) == (1, {"goal": "pay"}, {})
    assert (result, effects.read_text()) == (ToolResult("call_1", "paid 17"), "pay 17\n")


@pytest.mark.parametrize(("point", "happened"), [("before the effect", ""), ("after the effect", "pay 17\n")])
def test_killed_inside_the_call_leaves_the_outcome_unknown(
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
def test_decision_determines_the_next_run(
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


def test_killed_after_the_call_replays_its_result(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "after the call")
    point, result = resumed(cp, effects)

    replayed = ToolResult("call_1", "paid 17", replayed=True)
    assert (point.version, point.replayable, result) == (1, {"call_1": replayed}, replayed)
    assert effects.read_text() == "pay 17\n"


def test_resume_returns_results_without_a_dispatch(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    """A replay caused by the key constraint would look the same from outside."""
    killed(start_child, effects, "after the call")
    with CaptureQueriesContext(connection) as asked:
        point = cp.resume("s", agent_processes.paying(cp, "s", str(effects)))
        cp.save_checkpoint("s", [{"turn": 1}, {"paid": point.replayable["call_1"].content}], None, 1)

    log = ToolCall._meta.db_table
    written = [
        query["sql"] for query in asked if f'INSERT INTO "{log}"' in query["sql"] or f'UPDATE "{log}"' in query["sql"]
    ]
    assert written == []
    assert list(ToolCall.objects.values_list("status", "replay_count")) == [("completed", 0)]


def test_killed_after_the_save_continues_from_there(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    killed(start_child, effects, "after the save")
    point, result = resumed(cp, effects)

    assert (point.version, point.plan, point.budget_spent_usd) == (2, {"goal": "done"}, 1)
    assert (point.transcript, point.replayable) == ([{"turn": 1}, {"turn": 2}], {})
    assert (result.replayed, effects.read_text()) == (True, "pay 17\n")


def test_killed_after_the_end_returns_the_result(cp: SyncCheckpointer, start_child: StartChild, effects: Path) -> None:
    killed(start_child, effects, "after the end")
    point = cp.resume("s")

    assert (point.finished, point.result, point.version, point.run) == (True, "paid", 2, None)
    assert (effects.read_text(), ToolCall.objects.count()) == ("pay 17\n", 1)
