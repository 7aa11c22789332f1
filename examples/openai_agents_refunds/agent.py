"""Agent of the OpenAI Agents SDK that refunds orders, with a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents import Agent, Tool, function_tool
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from checkpoints import ToolPolicies
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, make_kill_at_moment_function

POLICIES = ToolPolicies(
    {
        "look_up_*": {"side_effects": {"read"}},
        "refund": {"sentence": "Refund {amount} for order {order}"},
    }
)


def build_scripted_model(orders: Sequence[int], steps: int = 9) -> ScriptedModel:
    """Build a model that looks orders up, refunds them, and says so. It answers what it is shown."""

    def answer(call: Any) -> list[Any]:
        items = list(call.input)
        last = max(place for place, item in enumerate(items) if item.get("role") == "user")
        results = [item["output"] for item in items[last:] if item.get("type") == "function_call_output"]
        if len(results) < 2 * len(orders):
            name, amounts = ("refund", {"amount": 40}) if results else ("look_up_order", {})
            return [
                function_call(name, {"order": order, **amounts}, call_id=f"{name}_{order}_{len(items)}")
                for order in orders
            ]
        return [assistant_message("; ".join(results[len(orders) :]))]

    return ScriptedModel([ModelStep.respond(answer) for _ in range(steps)])


def build_tools(effects: Path, die: Callable[[str], None]) -> list[Tool]:
    """Build the tools. A refund leaves one line in the file `effects`."""

    @function_tool
    def look_up_order(order: int) -> str:
        """Look up an order."""
        return f"order {order}: 40 EUR, paid"

    @function_tool
    def refund(order: int, amount: int) -> str:
        """Refund an order."""
        die(BEFORE_EFFECT)
        with effects.open("a") as file:
            file.write(f"{order}\n")
        die(AFTER_EFFECT)
        return f"refunded {amount} for order {order}"

    return [look_up_order, refund]


def build_agent(effects: Path, moment: str | None = None, orders: Sequence[int] = (17,)) -> Agent[Any]:
    """Build the agent. Nothing in it knows about this library."""
    return Agent(
        name="refund-desk",
        model=build_scripted_model(orders),
        tools=build_tools(effects, make_kill_at_moment_function(moment)),
    )
