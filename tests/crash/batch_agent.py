"""Async agent that makes the calls of a large batch concurrently."""

from __future__ import annotations

import asyncio
from typing import Any

from checkpoints import Checkpointer, ResumePoint, ToolRegistry, exceptions
from tests.crash.agent import message
from tests.crash.simulated_world import toolbox

CALLS: list[dict[str, Any]] = [
    {"id": f"call_{order}", "tool": "charge", "args": {"order": order}} for order in range(21, 27)
]


def act_at_once(url: str, session_id: str, path: str) -> None:
    asyncio.run(_act(url, session_id, path))


async def _act(url: str, session_id: str, path: str) -> None:
    async with Checkpointer(url) as cp:
        registry = toolbox(path)
        point = await _begin(cp, session_id, registry)
        if not point.finished:
            await _go_on(cp, session_id, registry, point)


async def _begin(cp: Checkpointer, session_id: str, registry: ToolRegistry) -> ResumePoint:
    try:
        return await cp.resume(session_id, registry)
    except exceptions.SessionNotFound:
        await cp.start_session(session_id, "Six orders at once")
        return await cp.resume(session_id, registry)


async def _go_on(cp: Checkpointer, session_id: str, registry: ToolRegistry, point: ResumePoint) -> None:
    transcript = point.transcript
    if not transcript:
        transcript = [message("m0", "user", text="Charge them."), message("m1", "assistant", calls=CALLS)]
        await cp.save_checkpoint(
            session_id, transcript, {}, 0.25, phase="post_llm", payload={"pending_llm_response": {"calls": CALLS}}
        )
    if len(transcript) == 2:
        missing = [call for call in CALLS if call["id"] not in point.replayable]
        made = await asyncio.gather(*(registry.adispatch(call["tool"], call["args"], call["id"]) for call in missing))
        said = {**point.replayable, **{result.call_id: result for result in made}}
        results = [{"kind": "tool_result", "call_id": call["id"], "text": said[call["id"]].content} for call in CALLS]
        transcript = [*transcript, message("m2", "tool", results=results)]
        await cp.save_checkpoint(session_id, transcript, {}, 0.25)
    await cp.finish_session(session_id, "completed")
