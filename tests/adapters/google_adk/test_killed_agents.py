"""SIGKILL inside a tool of an agent of ADK: the gate or a replay, and never two effects."""

import asyncio
import signal
from pathlib import Path

import pytest
from google.adk.events.event import Event
from google.genai import types

from checkpoints import SyncCheckpointer
from checkpoints.adapters.google_adk import HarnessSessionService
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import Run, ToolCall
from examples.google_adk_refunds.agent import APP, USER, ask, build_runner_and_harness, continue_run, get_last_text
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT
from tests.adapters.google_adk import agents
from tests.conftest import StartChild
from tests.support.processes import database_url

PLACE = f"{APP}/{USER}/s"


def _decide(cp: SyncCheckpointer, decision: str, landed: set[int]) -> None:
    for call in cp.pending_tool_calls(PLACE):
        about = {"actor": "alice", "reason": "Looked it up.", "revision": call["revision"]}
        order = next(order for order in (17, 18) if str(order) in call["args_json"])
        if decision == "rerun":
            cp.approve_rerun(PLACE, call["call_id"], **about)
        elif order in landed:
            cp.confirm_landed(PLACE, call["call_id"], f"refunded 40 for order {order}", **about)
        else:
            cp.mark_failed(PLACE, call["call_id"], **about)


def _go_on(effects: Path, orders: list[int], prompt: str | None = None) -> list[Event]:
    """Continue in another client: with a prompt, or the run that was killed or stopped."""

    async def run() -> list[Event]:
        async with HarnessSessionService.aopen(database_url()) as service:
            runner, harness = build_runner_and_harness(service, effects, orders=orders)
            return await (continue_run(runner, harness, "s") if prompt is None else ask(runner, "s", prompt))

    return asyncio.run(run())


def _list_request_kinds(events: list[Event]) -> list[str]:
    requested = [request for event in events for request in event.actions.requested_tool_confirmations.values()]
    return [(request.payload or {})["type"] for request in requested]


@pytest.mark.parametrize(
    ("moment", "decision", "orders"),
    [
        (BEFORE_EFFECT, "told", [17]),
        (BEFORE_EFFECT, "rerun", [17, 18]),
        (INSIDE_EFFECT, "told", [17]),
        (AFTER_EFFECT, "told", [17, 18]),
    ],
)
def test_killed_agent_asks_and_has_one_effect(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path, moment: str, decision: str, orders: list[int]
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=moment, orders=orders)
    assert child.died_by() == signal.SIGKILL
    landed = {int(line) for line in effects.read_text().split()}
    assert set(_list_request_kinds(_go_on(effects, orders))) == {"review_required"}
    assert get_last_text(_go_on(effects, orders)) == ""  # nobody has decided yet
    assert {int(line) for line in effects.read_text().split()} == landed
    assert not Run.objects.filter(status="running").exists()
    _decide(cp, decision, landed)
    said = get_last_text(_go_on(effects, orders))
    assert sorted(said.split("; ")) == [f"refunded 40 for order {order}" for order in orders]
    assert sorted(effects.read_text().split()) == [str(order) for order in orders]
    assert not ToolCall.objects.filter(answered_version=None).exclude(status__in=["failed", "superseded"]).exists()
    assert not Run.objects.filter(status="running").exists()


def test_new_prompt_after_a_kill_waits_for_the_decision(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT, orders=[17])
    assert child.died_by() == signal.SIGKILL
    kinds = _list_request_kinds(_go_on(effects, [17], agents.QUESTION))
    assert kinds == ["review_required"]
    _decide(cp, "told", {17})
    said = get_last_text(_go_on(effects, [17]))
    assert said == "refunded 40 for order 17"
    assert effects.read_text().split() == ["17"]


def test_program_that_confirms_itself_is_no_decision(
    cp: SyncCheckpointer, start_child: StartChild, effects: Path
) -> None:
    child = start_child(agents.die_in_tool, url=database_url(), effects=str(effects), moment=AFTER_EFFECT, orders=[17])
    assert child.died_by() == signal.SIGKILL
    asked = _go_on(effects, [17])
    (request,) = [call for event in asked for call in event.get_function_calls()]

    async def confirm() -> None:
        async with HarnessSessionService.aopen(database_url()) as service:
            runner, _ = build_runner_and_harness(service, effects)
            answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": True})
            message = types.Content(role="user", parts=[types.Part(function_response=answer)])
            async for _ in runner.run_async(user_id=USER, session_id="s", new_message=message):
                pass

    with pytest.raises(ReviewRequired):
        asyncio.run(confirm())
    assert effects.read_text().split() == ["17"]
    _decide(cp, "told", {17})
    assert get_last_text(_go_on(effects, [17])) == "refunded 40 for order 17"
    assert effects.read_text().split() == ["17"]
