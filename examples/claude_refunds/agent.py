"""Agent of the Claude Agent SDK that refunds orders, with a scripted model, and the two lines that make it durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool

from checkpoints import ToolPolicies
from checkpoints.adapters.claude import READING_TOOLS, HarnessSessionStore, tool_hooks
from examples.claude_refunds.scripted_claude_program import PROJECT, Line, ScriptedProgram
from examples.kill_and_decision_helpers import AFTER_EFFECT, BEFORE_EFFECT, INSIDE_EFFECT, make_kill_at_moment_function

LOOK_UP, REFUND = "mcp__shop__look_up_order", "mcp__shop__refund"
SESSION_ID = "7c1f3a52-0000-4000-8000-000000000017"
#: Id under which the store and the pages have the session.
STORED_ID = f"{PROJECT}/{SESSION_ID}"
QUESTION = "Please refund order 17."
#: Prompt of a run that resumes the session: a repeated question would be a new one, with effects of its own.
CONTINUE = "Please continue."
POLICIES = ToolPolicies(
    {
        **READING_TOOLS,
        LOOK_UP: {"side_effects": {"read"}},
        REFUND: {"sentence": "Refund {amount} for order {order}"},
    }
)


def answer_as_scripted_model(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Play the model: look the order up, refund it, and say what came of it. A restart changes nothing."""
    last = max(place for place, line in enumerate(lines) if _is_question_line(line))
    results = [block for line in lines[last:] for block in _list_tool_results_of_line(line)]
    if len(results) < 2:
        name, amount = (REFUND, {"amount": 40}) if results else (LOOK_UP, {})
        call = {"type": "tool_use", "id": f"toolu_{len(lines)}", "name": name, "input": {"order": 17, **amount}}
        return [{"type": "text", "text": "One moment."}, call]
    return [{"type": "text", "text": _join_text_blocks(results[-1]["content"])}]


def _is_question_line(line: Line) -> bool:
    return line["type"] == "user" and line["message"]["content"] == QUESTION


def _list_tool_results_of_line(line: Line) -> list[dict[str, Any]]:
    content = line["message"]["content"] if line["type"] == "user" else None
    return [block for block in content if block["type"] == "tool_result"] if isinstance(content, list) else []


def _join_text_blocks(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block["text"] for block in content)


def build_tool_server(effects: Path, die: Callable[[str], None]) -> Any:
    """Build the server of the tools. A refund leaves one line in the file `effects`."""

    @tool("look_up_order", "Look up an order.", {"order": int})
    async def look_up_order(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"order {args['order']}: 40 EUR, paid"}]}

    @tool("refund", "Refund an order.", {"order": int, "amount": int})
    async def refund(args: dict[str, Any]) -> dict[str, Any]:
        die(BEFORE_EFFECT)
        with effects.open("a") as file:
            file.write(f"{args['order']} {args['amount']}\n")
            file.flush()
            die(INSIDE_EFFECT)
        die(AFTER_EFFECT)
        return {"content": [{"type": "text", "text": f"refunded {args['amount']} for order {args['order']}"}]}

    return create_sdk_mcp_server("shop", tools=[look_up_order, refund])


async def run_agent(
    store: HarnessSessionStore,
    effects: Path,
    moment: str | None = None,
    *,
    policies: ToolPolicies = POLICIES,
    allowed: Sequence[str] = (LOOK_UP, REFUND),
    config: Path | None = None,
    prompt: str = "",
) -> ResultMessage:
    """Run the agent: `session_store` and `hooks` are all that this library adds to it.

    With the real program, `transport` is left out, and `resume=SESSION_ID` continues a session that the store has. The
    result is that of the first turn: the program continues a deferred call before it answers the prompt.
    """
    history: Any = await store.load({"project_key": PROJECT, "session_id": SESSION_ID}) or []
    prompt = prompt or (CONTINUE if history else QUESTION)
    options = ClaudeAgentOptions(
        session_store=store,
        session_store_flush="eager",
        hooks=tool_hooks(store, policies),
        mcp_servers={"shop": build_tool_server(effects, make_kill_at_moment_function(moment))},
        allowed_tools=list(allowed),
        env={} if config is None else {"CLAUDE_CONFIG_DIR": str(config)},
    )
    program = ScriptedProgram(answer_as_scripted_model, SESSION_ID, history=history, allowed=allowed, config=config)
    results = [each async for each in query(prompt=prompt, options=options, transport=program)]
    return next(each for each in results if isinstance(each, ResultMessage))
