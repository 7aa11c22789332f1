"""Agent harness in its smallest form: messages and plans as its own objects, a registry that checks the log before it
runs a tool, and a loop that saves after every turn.

Only the durable pieces come from this library; everything else is as somebody writes it who has a harness already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from checkpoints import Checkpointer
from checkpoints.formats import load_as

# messages and plans


@dataclass
class TextBlock:
    text: str
    kind: Literal["text"] = "text"


@dataclass
class ToolCall:
    id: str
    name: str
    args: dict[str, Any]
    kind: Literal["tool_call"] = "tool_call"


@dataclass
class ToolResult:
    call_id: str
    content: str
    is_error: bool = False
    kind: Literal["tool_result"] = "tool_result"


Block = TextBlock | ToolCall | ToolResult
KINDS: dict[str, type[Any]] = {"text": TextBlock, "tool_call": ToolCall, "tool_result": ToolResult}


@dataclass
class Message:
    role: str
    blocks: list[Block]
    id: str
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Transcript:
    messages: list[Message] = field(default_factory=list)

    def add(self, role: str, *blocks: Block) -> None:
        self.messages.append(Message(role, list(blocks), id=f"m{len(self.messages)}"))


@dataclass
class Step:
    title: str
    done: bool = False
    evidence: list[str] = field(default_factory=list)


@dataclass
class Plan:
    goal: str
    steps: list[Step] = field(default_factory=list)


@dataclass
class PlanHolder:
    plan: Plan | None = None


@dataclass
class Budget:
    spent_usd: float = 0.0


# what the loop stores, and how it comes back


def serialize_transcript(transcript: Transcript) -> list[dict[str, Any]]:
    return [
        asdict(message) | {"created_at": message.created_at.isoformat(), "blocks": [asdict(b) for b in message.blocks]}
        for message in transcript.messages
    ]


def deserialize_transcript(data: list[dict[str, Any]]) -> Transcript:
    return Transcript(
        [
            Message(
                role=message["role"],
                blocks=[KINDS[block["kind"]](**block) for block in message["blocks"]],
                id=message["id"],
                created_at=datetime.fromisoformat(message["created_at"]),
            )
            for message in data
        ]
    )


def serialize_plan(plan: Plan | None) -> dict[str, Any] | None:
    return None if plan is None else asdict(plan)


def deserialize_plan(data: dict[str, Any] | None) -> Plan | None:
    return None if data is None else load_as(Plan, data)


# write before execute


@dataclass
class Tool:
    run: Callable[..., str]
    side_effects: frozenset[str] = frozenset({"mutate"})


@dataclass
class ToolRegistry:
    tools: dict[str, Tool]
    checkpointer: Checkpointer | None = None
    session_id: str | None = None

    async def adispatch(self, name: str, args: dict[str, Any], call_id: str) -> ToolResult:
        tool = self.tools[name]
        logged = bool({"mutate", "write"} & tool.side_effects) and self.checkpointer and self.session_id
        if logged and self.checkpointer and self.session_id:
            key = self.idempotency_key(name, args)
            prior = await self.checkpointer.find_completed_call(key)
            if prior is not None:
                return ToolResult(call_id, prior["result_text"])
            await self.checkpointer.record_tool_call_issued(self.session_id, call_id, name, args, key)
        try:
            result = ToolResult(call_id, tool.run(**args))
        except Exception as error:
            result = ToolResult(call_id, f"{name} raised {type(error).__name__}: {error}", is_error=True)
        if logged and self.checkpointer and self.session_id:
            await self.checkpointer.record_tool_call_result(
                self.session_id, call_id, result.content, not result.is_error
            )
        return result

    def idempotency_key(self, name: str, args: dict[str, Any]) -> str:
        return hashlib.sha256(json.dumps([self.session_id, name, args], sort_keys=True).encode()).hexdigest()


# the loop


class ScriptedProvider:
    """A model that has made up its mind: its answers depend on how often it has spoken in the transcript."""

    def __init__(self, answers: list[list[Block]]) -> None:
        self.answers = answers

    def complete(self, transcript: Transcript) -> list[Block]:
        return self.answers[sum(message.role == "assistant" for message in transcript.messages) % len(self.answers)]


def calls_of(blocks: list[Block]) -> Iterator[ToolCall]:
    return (block for block in blocks if isinstance(block, ToolCall))


async def arun(
    provider: ScriptedProvider,
    tools: dict[str, Tool],
    user_message: str,
    *,
    transcript: Transcript | None = None,
    plan_holder: PlanHolder,
    budget: Budget,
    checkpointer: Checkpointer | None = None,
    session_id: str | None = None,
    on_turn: Callable[[int], None] = lambda turn: None,
) -> str:
    """Ask the model, do what it says, save, until it says nothing more to do."""
    transcript = transcript or Transcript()
    registry = ToolRegistry(tools, checkpointer, session_id)
    if checkpointer and session_id:
        await checkpointer.start_session(session_id, user_message, "You are a test.")
    transcript.add("user", TextBlock(user_message))
    for turn in range(20):
        answer = provider.complete(transcript)
        transcript.add("assistant", *answer)
        budget.spent_usd += 0.25
        results = [await registry.adispatch(call.name, call.args, call.id) for call in calls_of(answer)]
        if results:
            transcript.add("user", *results)
        if plan_holder.plan is not None and turn < len(plan_holder.plan.steps):
            plan_holder.plan.steps[turn].done = True
        if checkpointer and session_id:
            await checkpointer.save_checkpoint(
                session_id=session_id,
                transcript=serialize_transcript(transcript),
                plan=serialize_plan(plan_holder.plan),
                budget_spent_usd=budget.spent_usd,
            )
        on_turn(turn + 1)
        if not results:
            return "".join(block.text for block in answer if isinstance(block, TextBlock))
    raise AssertionError("the script has no end")
