"""Agent of Strands that refunds orders, with a scripted model, and the two lines that make it durable."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

from checkpoints import ToolPolicies
from checkpoints.adapters.strands import Harness, HarnessSessionRepository
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT, make_kill_at_moment_function

POLICIES = ToolPolicies(
    {
        "look_up_*": {"side_effects": {"read"}},
        "refund": {"sentence": "Refund {amount} for order {order}"},
    }
)


class ScriptedModel(Model):
    """Model that looks orders up, refunds them, and says so. It answers what it is shown."""

    def __init__(self, orders: Sequence[int] = (17,)) -> None:
        self._orders = orders
        self._ids = count(1)

    def update_config(self, **model_config: Any) -> None:
        """Do nothing: there is no configuration."""

    def get_config(self) -> dict[str, Any]:
        """Return no configuration."""
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: the agent of this example has no structured output."""
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Stream the next answer, as a model of Strands does."""
        yield {"messageStart": {"role": "assistant"}}
        calls, text = self._choose_next_calls_and_text(messages)
        for name, args_json in calls:
            start = {"toolUse": {"name": name, "toolUseId": f"{name}-{len(messages)}-{next(self._ids)}"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": args_json}}}}
            yield {"contentBlockStop": {}}
        if text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}

    def _choose_next_calls_and_text(self, messages: Any) -> tuple[list[tuple[str, str]], str]:
        """Return the calls of the next answer as name and arguments, and its text."""
        results = [
            block["toolResult"]["content"][0]["text"]
            for message in messages
            for block in message["content"]
            if "toolResult" in block
        ]
        if not results:
            return [("look_up_order", f'{{"order": {order}}}') for order in self._orders], ""
        if len(results) == len(self._orders):
            return [("refund", f'{{"order": {order}, "amount": 40}}') for order in self._orders], ""
        return [], "; ".join(results[len(self._orders) :])


def build_tools(effects: Path, die: Callable[[str], None]) -> list[Any]:
    """Build the tools. A refund leaves one line in the file `effects`."""

    @tool
    def look_up_order(order: int) -> str:
        """Look up an order."""
        return f"order {order}: 40 EUR, paid"

    @tool
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


def build_agent_and_harness(
    repository: HarnessSessionRepository,
    session_id: str,
    effects: Path,
    moment: str | None = None,
    orders: Sequence[int] = (17,),
) -> tuple[Agent, Harness]:
    """Build the agent and its guard: the session manager and the plugin are all that this library adds to it."""
    harness = Harness(session_id, repository, POLICIES)
    agent = Agent(
        ScriptedModel(orders),
        tools=build_tools(effects, make_kill_at_moment_function(moment)),
        session_manager=RepositorySessionManager(session_id, repository),
        plugins=[harness],
        callback_handler=None,
    )
    return agent, harness
