"""Agent of Google ADK that refunds orders, with a scripted model, and the two arguments that make it durable."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.genai import types

from checkpoints import ToolPolicies
from checkpoints.adapters.google_adk import Harness, HarnessSessionService
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT, make_kill_at_moment_function

# ADK warns that resuming a run is experimental.
os.environ.setdefault("ADK_SUPPRESS_EXPERIMENTAL_FEATURE_WARNINGS", "true")
APP, USER = "refunds", "ann"
POLICIES = ToolPolicies(
    {
        "look_up_*": {"side_effects": {"read"}},
        "refund": {"sentence": "Refund {amount} for order {order}"},
    }
)


class ScriptedModel(BaseLlm):
    """Model that looks orders up, refunds them, and says so. It answers what it is shown."""

    model: str = "scripted"
    orders: Sequence[int] = (17,)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next answer, as a model of ADK does."""
        calls, text = self._choose_next_calls_and_text(llm_request.contents)
        parts = [types.Part(function_call=types.FunctionCall(name=name, args=args)) for name, args in calls]
        if text:
            parts.append(types.Part(text=text))
        yield LlmResponse(content=types.Content(role="model", parts=parts))

    def _choose_next_calls_and_text(
        self, contents: Sequence[types.Content]
    ) -> tuple[list[tuple[str, dict[str, Any]]], str]:
        """Return the calls of the next answer as name and arguments, and its text."""
        results = [
            part.function_response.response["result"]
            for content in contents
            for part in content.parts or ()
            if part.function_response is not None and "result" in (part.function_response.response or {})
        ]
        if not results:
            return [("look_up_order", {"order": order}) for order in self.orders], ""
        if len(results) == len(self.orders):
            return [("refund", {"order": order, "amount": 40}) for order in self.orders], ""
        return [], "; ".join(results[len(self.orders) :])


def build_tools(effects: Path, die: Callable[[str], None]) -> list[Any]:
    """Build the tools. A refund leaves one line in the file `effects`."""

    def look_up_order(order: int) -> str:
        """Look up an order."""
        return f"order {order}: 40 EUR, paid"

    def refund(order: int, amount: int) -> str:
        """Refund an order."""
        die(BEFORE_EFFECT)
        with effects.open("a") as file:
            file.write(f"{order}\n")
            file.flush()
            die(INSIDE_EFFECT)
        die(AFTER_EFFECT)
        return f"refunded {amount} for order {order}"

    return [look_up_order, refund]


def build_runner_and_harness(
    service: HarnessSessionService, effects: Path, moment: str | None = None, orders: Sequence[int] = (17,)
) -> tuple[Runner, Harness]:
    """Build the runner and its guard: the session service and the plugin are all that this library adds to it."""
    harness = Harness(service, POLICIES)
    agent = LlmAgent(
        name="desk",
        model=ScriptedModel(orders=orders),
        tools=build_tools(effects, make_kill_at_moment_function(moment)),
    )
    app = App(name=APP, root_agent=agent, plugins=[harness], resumability_config=ResumabilityConfig(is_resumable=True))
    return Runner(app=app, session_service=service, auto_create_session=True), harness


async def ask(runner: Runner, session_id: str, text: str) -> list[Event]:
    """Ask the agent, and return the events of the run."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in runner.run_async(user_id=USER, session_id=session_id, new_message=message)]


async def continue_run(runner: Runner, harness: Harness, session_id: str) -> list[Event]:
    """Continue the last run of a session: with the decisions of people if there are new ones."""
    message = await harness.build_confirmations(app_name=APP, user_id=USER, session_id=session_id)
    session = await runner.session_service.get_session(app_name=APP, user_id=USER, session_id=session_id)
    if session is None:
        raise LookupError(session_id)
    run = runner.run_async(
        user_id=USER, session_id=session_id, invocation_id=session.events[-1].invocation_id, new_message=message
    )
    return [event async for event in run]


def get_last_text(events: Sequence[Event]) -> str:
    """Return the text of the last event that has one."""
    texts = [part.text for event in events if event.content for part in event.content.parts or () if part.text]
    return texts[-1] if texts else ""
