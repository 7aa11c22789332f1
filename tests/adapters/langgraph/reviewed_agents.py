"""Agent that writes to four people after `HumanInTheLoopMiddleware` has asked, and a decision of each kind."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from checkpoints.adapters.langgraph import HarnessMiddleware
from tests.adapters.langgraph.agents import config

QUESTION: Any = {"messages": [HumanMessage("Write to four people.", id="question")]}
NAMES = ["ann", "bob", "carol", "dave"]
DECISIONS: list[dict[str, Any]] = [
    {"type": "approve"},
    {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bill"}}},
    {"type": "reject", "message": "Carol has left."},
    {"type": "respond", "message": "Dave was told by phone."},
]
ALLOWED = ["approve", "edit", "reject", "respond"]


class Writer(BaseChatModel):
    """Model that writes to four people at once, and ends."""

    @property
    def _llm_type(self) -> str:
        return "writer"

    def bind_tools(self, tools: Any, **_: Any) -> "Writer":
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        if any(isinstance(message, ToolMessage) for message in messages):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Done.", id="end"))])
        calls = [{"name": "send", "args": {"to": name}, "id": f"call_{name}"} for name in NAMES]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls, id="calls"))])


def build_agent(saver: Any, sent: list[str], mode: Any, allowed: Any = ALLOWED, guarded: bool = False) -> Any:
    @tool
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return f"sent to {to}"

    reviewed = HumanInTheLoopMiddleware({"send": {"allowed_decisions": allowed}}, interrupt_mode=mode)
    middleware = [reviewed, HarnessMiddleware(saver)] if guarded else [reviewed]
    return create_agent(Writer(), [send], checkpointer=saver, middleware=middleware)


def tell(state: Any) -> list[Any]:
    """Return what the messages say, without the ids that are made anew in each run."""
    return [
        (type(message), message.content, getattr(message, "tool_call_id", ""), getattr(message, "status", ""))
        for message in state["messages"]
    ]


def run_in_memory(mode: str) -> tuple[list[Any], list[str]]:
    sent: list[str] = []
    agent = build_agent(InMemorySaver(), sent, mode)
    gates = agent.invoke(QUESTION, config())["__interrupt__"]
    answers = {gates[0].id: {"decisions": DECISIONS}}
    if mode == "per_call":
        by_name = dict(zip(NAMES, DECISIONS, strict=True))
        answers = {gate.id: by_name[gate.value["args"]["to"]] for gate in gates}
    return tell(agent.invoke(Command(resume=answers), config())), sorted(sent)
