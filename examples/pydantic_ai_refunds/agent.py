"""Agent of Pydantic AI that refunds orders, with a scripted model, and the one line that guards its tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from checkpoints import ToolPolicies
from checkpoints.adapters.pydantic_ai import Harness, HarnessConversationStore
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, make_kill_at_moment_function

POLICIES = ToolPolicies(
    {
        "look_up_*": {"side_effects": {"read"}},
        "refund": {"sentence": "Refund {amount} for order {order}"},
    }
)


def build_scripted_model(orders: Sequence[int] = (17,)) -> FunctionModel:
    """Build a model that looks orders up, refunds them, and says so. It answers what it is shown."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests = [message for message in messages if isinstance(message, ModelRequest)]
        prompts = [place for place, request in enumerate(requests) if _list_parts_of_kind(request, UserPromptPart)]
        results = [part for request in requests[prompts[-1] :] for part in _list_parts_of_kind(request, ToolReturnPart)]
        if len(results) >= 2 * len(orders):
            return ModelResponse(parts=[TextPart("; ".join(str(each.content) for each in results[len(orders) :]))])
        name = "refund" if results else "look_up_order"
        amounts = {"amount": 40} if results else {}
        return ModelResponse(parts=[ToolCallPart(name, {"order": order, **amounts}) for order in orders])

    return FunctionModel(answer)


def _list_parts_of_kind(request: ModelRequest, kind: type[Any]) -> list[Any]:
    return [part for part in request.parts if isinstance(part, kind)]


def build_tools(effects: Path, die: Callable[[str], None]) -> list[Callable[..., Any]]:
    """Build the tools. A refund leaves one line in the file `effects`."""

    async def look_up_order(order: int) -> str:
        """Look up an order."""
        return f"order {order}: 40 EUR, paid"

    async def refund(order: int, amount: int) -> str:
        """Refund an order."""
        die(BEFORE_EFFECT)
        with effects.open("a") as file:
            file.write(f"{order}\n")
        die(AFTER_EFFECT)
        return f"refunded {amount} for order {order}"

    return [look_up_order, refund]


def build_agent(
    harness: Harness, effects: Path, moment: str | None = None, orders: Sequence[int] = (17,)
) -> Agent[None, str | DeferredToolRequests]:
    """Build the agent: the capability is all that this library adds to it."""
    return Agent(
        build_scripted_model(orders),
        output_type=[str, DeferredToolRequests],
        tools=build_tools(effects, make_kill_at_moment_function(moment)),
        capabilities=[harness],
    )


async def run_and_save_turn(
    store: HarnessConversationStore, agent: Agent[None, Any], conversation_id: str, prompt: str
) -> Any:
    """Run one turn of a conversation and save it. Returns the output."""
    conversation = await store.load(conversation_id)
    if conversation is None:
        result = await agent.run(prompt, conversation_id=conversation_id)
    else:
        result = await agent.run(prompt, conversation=conversation)
    await store.save(result)
    return result.output
