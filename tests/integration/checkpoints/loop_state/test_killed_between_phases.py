"""SIGKILL between phases: no tool runs twice, and the model is not asked again for a saved answer."""

import signal
from pathlib import Path

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.models import Run, Session
from tests.conftest import StartChild
from tests.integration.checkpoints.loop_state import phase_agent
from tests.integration.checkpoints.loop_state.phase_agent import POINTS, AgentLoop
from tests.support.processes import database_url

EFFECTS = ["ask 1", "pay 1", "ask 2", "pay 2", "pay 3", "ask 3"]
RESULT = {"text": "all paid", "asked": 3, "paid": 3}


def kill_agent(start_child: StartChild, effects: Path, point: str, *, resume: bool = False) -> None:
    child = start_child(phase_agent.die_at, url=database_url(), effects=str(effects), point=point, resume=resume)
    assert child.died_by() == signal.SIGKILL


def expected(*points: str) -> list[str]:
    """Return the expected model requests: only an unsaved answer is requested again."""
    again = [f"ask {point.split()[1]}" for point in points if point.startswith("asked")]
    return sorted([*EFFECTS, *again])


@pytest.mark.parametrize("point", POINTS)
def test_next_run_continues_from_every_point(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, point: str
) -> None:
    kill_agent(start_child, effects, point)

    assert AgentLoop(cp, str(effects)).resume() == RESULT
    assert sorted(effects.read_text().splitlines()) == expected(point)
    assert Session.objects.get().status == "completed"
    assert float(Session.objects.get().budget_spent_usd) == 0.75


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("asked 1", "asked 1"),
        ("post_llm 2", "tools 2"),
        ("tools 2", "tools 2"),
        ("pre_tool_batch 2", "pre_tool_batch 2"),
        ("post_tool_batch 1", "run_terminal"),
    ],
)
def test_run_completes_after_a_second_kill_during_the_resume(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, first: str, second: str
) -> None:
    kill_agent(start_child, effects, first)
    kill_agent(start_child, effects, second, resume=True)

    assert AgentLoop(cp, str(effects)).resume() == RESULT
    assert sorted(effects.read_text().splitlines()) == expected(first, second)
    assert list(Run.objects.order_by("number").values_list("resumed_from__number", flat=True))[:2] == [None, 1]


def test_run_is_resumed_by_its_id_in_another_process(start_child: StartChild, effects: Path) -> None:
    kill_agent(start_child, effects, "post_tool_batch 2")
    run = Run.objects.get()
    child = start_child(phase_agent.resume_run, url=database_url(), run_id=str(run.pk))

    version = Session.objects.get().latest_version
    assert child.result() == [str(run.pk), version, 2, 0.5]
