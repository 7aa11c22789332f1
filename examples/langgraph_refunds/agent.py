"""Agent of LangChain that refunds orders, with a scripted model, and the one line that guards its tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool

from checkpoints import ToolPolicies
from checkpoints.adapters.langgraph import HarnessMiddleware, HarnessSaver
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, make_kill_at_moment_function

POLICIES = ToolPolicies(
    {
        "look_up_*": {"side_effects": {"read"}},
        "refund": {"sentence": "Refund {amount} for order {order}"},
    }
)


class ScriptedModel(BaseChatModel):
    """Model that looks orders up, refunds them, and says so. It answers what it is shown: a restart changes nothing."""

    orders: Sequence[int] = (17,)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        results = [message for message in messages[last:] if isinstance(message, ToolMessage)]
        return ChatResult(generations=[ChatGeneration(message=self._build_next_message(len(messages), results))])

    def _build_next_message(self, place: int, results: Sequence[ToolMessage]) -> AIMessage:
        count = len(self.orders)
        if len(results) < 2 * count:
            name = "refund" if results else "look_up_order"
            amounts = {"amount": 40} if results else {}
            calls = [
                {"name": name, "args": {"order": order, **amounts}, "id": f"{name}_{order}_{place}"}
                for order in self.orders
            ]
            return AIMessage("", tool_calls=calls)
        return AIMessage("; ".join(str(result.content) for result in results[count:]))


def build_tools(effects: Path, die: Callable[[str], None]) -> list[BaseTool]:
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
        die(AFTER_EFFECT)
        return f"refunded {amount} for order {order}"

    return [look_up_order, refund]


def build_agent(saver: HarnessSaver, effects: Path, moment: str | None = None, orders: Sequence[int] = (17,)) -> Any:
    """Build the agent: `checkpointer` and `middleware` are all that this library adds to it."""
    return create_agent(
        ScriptedModel(orders=orders),
        build_tools(effects, make_kill_at_moment_function(moment)),
        checkpointer=saver,
        middleware=[HarnessMiddleware(saver, POLICIES)],
    )
