"""Main program of the harness, run as child processes that are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from checkpoints import Checkpointer, check_pending_tool_calls, exceptions
from tests.minimal_harness.harness import (
    Block,
    Budget,
    Plan,
    PlanHolder,
    ScriptedProvider,
    Step,
    TextBlock,
    Tool,
    ToolCall,
    arun,
    deserialize_plan,
    deserialize_transcript,
)
from tests.support.processes import append_line, die


def script(turns: int) -> list[list[Block]]:
    """Mails one person a turn, always as `call_1`, and then has done."""
    mails: list[list[Block]] = [[ToolCall("call_1", "send_email", {"to": f"person {n}"})] for n in range(1, turns + 1)]
    return [*mails, [TextBlock("All mails are out.")]]


def mailing(outbox: str, die_in: str = "") -> dict[str, Tool]:
    """An email is a line in a file."""

    def send_email(to: str) -> str:
        append_line(outbox, to)
        if to == die_in:
            die()
        return f"sent to {to}"

    return {"send_email": Tool(send_email)}


async def resume_main(
    checkpointer: Checkpointer, outbox: str, *, turns: int, die_after: int = 0, die_in: str = ""
) -> dict[str, Any]:
    """Start as a harness does: look for interrupted calls, rehydrate, run."""
    session_id = "session-alpha"
    pending = await check_pending_tool_calls(checkpointer, session_id)
    transcript, plan_holder, budget = None, PlanHolder(Plan("mail", [Step("first"), Step("second")])), Budget()
    latest = await checkpointer.load_latest(session_id)
    if latest is not None:
        transcript = deserialize_transcript(latest["transcript"])
        plan_holder.plan = deserialize_plan(latest["plan"])
        budget.spent_usd = latest["budget_spent_usd"]
    try:
        summary = await arun(
            ScriptedProvider(script(turns)),
            mailing(outbox, die_in),
            "continue from where we left off",
            transcript=transcript,
            plan_holder=plan_holder,
            budget=budget,
            checkpointer=checkpointer,
            session_id=session_id,
            on_turn=lambda turn: die() if turn == die_after else None,
        )
    except exceptions.ReviewRequired as error:
        summary = f"review: {[call['call_id'] for call in error.calls]}"
    return {
        "pending": [[call["call_id"], call["tool_name"], call["args_json"]] for call in pending],
        "version": None if latest is None else latest["version"],
        "summary": summary,
        "spent": budget.spent_usd,
    }


def main(db: str, outbox: str, turns: int, die_after: int = 0, die_in: str = "") -> dict[str, Any]:
    """Open the database by path, in a plain script."""

    async def run() -> dict[str, Any]:
        checkpointer = Checkpointer(db)
        return await resume_main(checkpointer, outbox, turns=turns, die_after=die_after, die_in=die_in)

    Path(outbox).touch()
    return asyncio.run(run())
