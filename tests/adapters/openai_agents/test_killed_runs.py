"""SIGKILL in a run of the SDK: the same program continues with the stored answer of the model, and one effect."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from agents.testing import ScriptedModel, assistant_message

from checkpoints import SyncCheckpointer
from checkpoints.models import Run, ToolCall
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT
from examples.openai_agents_refunds.agent import build_agent
from tests.adapters.openai_agents.runs import QUESTION, die_after_write, die_in_tool, run_agent
from tests.conftest import StartChild
from tests.support.exhaustive_mode import mark_all_but_combinations
from tests.support.processes import database_url


def _read(effects: Path) -> list[int]:
    return sorted(int(line) for line in effects.read_text().split())


def _decide(cp: SyncCheckpointer, landed: list[int]) -> None:
    for call in cp.pending_tool_calls("s"):
        about: Any = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
        order = next(order for order in (17, 18) if str(order) in call["args_json"])
        if order in landed:
            cp.confirm_landed("s", call["call_id"], f"refunded 40 for order {order}", **about)
        else:
            cp.mark_failed("s", call["call_id"], **about)


def _require_whole_transcript(cp: SyncCheckpointer, orders: list[int]) -> None:
    """Each item is there once: the question, two turns with the calls and their results, and the answer."""
    latest = cp.load_latest("s")
    assert latest is not None
    kinds = [item.get("type", item.get("role")) for item in latest["transcript"]]
    turn = ["function_call"] * len(orders) + ["function_call_output"] * len(orders)
    assert kinds == ["user", *turn, *turn, "message"]
    assert latest["payload"] is None
    assert not ToolCall.objects.filter(answered_version=None).exclude(status="failed").exists()
    assert not Run.objects.filter(status="running").exists()


@pytest.mark.parametrize(
    ("moment", "method"),
    mark_all_but_combinations([AFTER_EFFECT, BEFORE_EFFECT], ["run", "run_streamed", "run_sync"]),
)
def test_killed_tool_is_asked_about_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, moment: str, method: str
) -> None:
    orders = [17, 18] if method == "run" else [17]
    place = {"url": database_url(), "effects": str(effects)}
    child = start_child(die_in_tool, moment=moment, method=method, orders=orders, **place)
    assert child.died_by() == signal.SIGKILL
    landed = _read(effects)
    latest = cp.load_latest("s")
    assert latest is not None
    assert [item["name"] for item in latest["transcript"][-len(orders) :]] == ["refund"] * len(orders)

    agent = build_agent(effects, orders=orders)
    result = asyncio.run(run_agent(database_url(), agent, method=method))
    assert {item.tool_name for item in result.interruptions} == {"refund"}
    assert (_read(effects), cp.store.list_owned_sessions()) == (landed, [])
    _decide(cp, landed)
    result = asyncio.run(run_agent(database_url(), agent, method=method))
    assert result.final_output == "; ".join(f"refunded 40 for order {order}" for order in orders)
    assert _read(effects) == orders
    assert len(agent.model.calls) == 1  # only for the last answer
    _require_whole_transcript(cp, orders)


@pytest.mark.parametrize("number", range(1, 8))
def test_killed_between_writes_continues_without_a_question(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, number: int
) -> None:
    child = start_child(die_after_write, url=database_url(), effects=str(effects), number=number)
    assert child.died_by() == signal.SIGKILL
    agent = build_agent(effects)
    result = asyncio.run(run_agent(database_url(), agent))
    if number == 7:  # the run had ended, so this is another request for the same
        assert _read(effects) == [17, 17]
        return
    assert (result.final_output, _read(effects)) == ("refunded 40 for order 17", [17])
    assert len(agent.model.calls) == 3 - number // 2
    _require_whole_transcript(cp, [17])


def test_another_message_after_a_crash_is_answered_after_the_open_turn(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(
        die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT, method="run", orders=[17]
    )
    assert child.died_by() == signal.SIGKILL
    agent = build_agent(effects)
    agent.model = ScriptedModel([[assistant_message("Done.")]])
    asyncio.run(run_agent(database_url(), agent, "Please go on."))
    _decide(cp, [17])
    result = asyncio.run(run_agent(database_url(), agent, "Please go on."))
    assert (result.final_output, _read(effects)) == ("Done.", [17])
    latest = cp.load_latest("s")
    assert latest is not None
    said = [item["content"] for item in latest["transcript"] if item.get("role") == "user"]
    assert said == [QUESTION, "Please go on."]
