"""An agent whose model makes the same call again and again, and gives each call a new id whenever it is asked.

Nothing of an answer is saved before its calls have results, so after a crash the model is asked once more.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from uuid import uuid4

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, exceptions
from checkpoints.models import ToolCall
from tests.crash.agent import begin, persistently
from tests.crash.simulated_world import effects
from tests.support.processes import append_line

#: How many calls each answer of the model makes, all of the same tool with the same arguments.
ANSWERS = [2, 1]
RESULT = "tests passed"


def tools_of(path: str) -> ToolRegistry:
    registry = ToolRegistry(idempotency="unanswered")

    @registry.tool
    def bash(command: str) -> str:
        append_line(path, command)
        return RESULT

    return registry


def act_one_by_one(url: str, session_id: str, path: str) -> None:
    """Run the agent with sequential calls."""
    with SyncCheckpointer(url) as cp:
        registry = tools_of(path)
        point = persistently(lambda: begin(cp, session_id, registry))
        registry.bind(cp, session_id)
        transcript = point.transcript
        while not point.finished and (count := next_answer(transcript)) is not None:
            for_each = [uuid4().hex for _ in range(count)]
            results = [
                persistently(partial(registry.dispatch, "bash", {"command": "make test"}, call_id))
                for call_id in for_each
            ]
            transcript = [*transcript, *turn(for_each, [result.content for result in results])]
            persistently(lambda: cp.save_checkpoint(session_id, transcript, None, 0))  # noqa: B023 - called at once
        finish(cp, session_id, ended=point.finished)


def act_at_the_same_time(url: str, session_id: str, path: str) -> None:
    """Run the agent with concurrent calls."""

    async def act() -> None:
        async with Checkpointer(url) as cp:
            registry = tools_of(path)
            try:
                point = await cp.resume(session_id, registry)
            except exceptions.SessionNotFound:
                await cp.start_session(session_id)
                point = await cp.resume(session_id, registry)
            registry.bind(cp, session_id)
            transcript = point.transcript
            while not point.finished and (count := next_answer(transcript)) is not None:
                call_ids = [uuid4().hex for _ in range(count)]
                results = await asyncio.gather(
                    *(registry.adispatch("bash", {"command": "make test"}, call_id) for call_id in call_ids)
                )
                transcript = [*transcript, *turn(call_ids, [result.content for result in results])]
                await cp.save_checkpoint(session_id, transcript, None, 0)

    asyncio.run(act())


def next_answer(transcript: list[dict[str, Any]]) -> int | None:
    """Return the number of calls of the next answer; None if the model is done."""
    answers = sum(message["role"] == "assistant" for message in transcript)
    return ANSWERS[answers] if answers < len(ANSWERS) else None


def turn(call_ids: list[str], contents: list[str]) -> list[dict[str, Any]]:
    calls = [{"id": call_id, "name": "bash", "args": {"command": "make test"}} for call_id in call_ids]
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": content}
        for call_id, content in zip(call_ids, contents, strict=True)
    ]
    return [{"role": "assistant", "tool_calls": calls}, *results]


def finish(cp: SyncCheckpointer, session_id: str, *, ended: bool) -> None:
    if not ended:
        try:
            persistently(lambda: cp.finish_session(session_id, "completed"))
        except exceptions.SessionFinished:
            return


def decide(url: str, session_id: str, path: str) -> None:
    """Confirm as many calls as have an effect without a result, and approve a re-run of the others."""
    cp = SyncCheckpointer(url)
    logged = ToolCall.objects.using(cp.store.using).filter(session__session_id=session_id)
    for call in cp.pending_tool_calls(session_id):
        landed = len(effects(path)) > logged.filter(status="completed").count()
        named: dict[str, Any] = {"actor": "alice", "reason": "I have looked.", "revision": call["revision"]}
        place: dict[str, Any] = {"step": call["step"], "attempt": call["attempt"]}
        if landed:
            cp.confirm_landed(session_id, call["call_id"], RESULT, **named, **place)
        else:
            cp.approve_rerun(session_id, call["call_id"], **named, **place)


def observe(url: str, session_id: str, path: str) -> dict[str, Any]:
    """Return the effects, their number, and the results given to the model."""
    cp = SyncCheckpointer(url)
    latest = cp.load_latest(session_id) or {}
    answered = ToolCall.objects.using(cp.store.using).filter(session__session_id=session_id, status="completed")
    return {
        "effects": effects(path),
        "told": [(message["role"], message.get("content")) for message in latest["transcript"]],
        "answered": sorted(answered.values_list("answered_version", flat=True), key=str),
    }
