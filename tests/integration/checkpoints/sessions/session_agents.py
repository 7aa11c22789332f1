"""Functions for child processes that resume, decide and pay."""

from __future__ import annotations

import asyncio
from typing import Any

from checkpoints import Checkpointer, Landed, SyncCheckpointer, ToolRegistry, Unknown, exceptions
from tests.support.processes import send_to_parent, wait_for_parent


def wait_blocking(url: str) -> dict[str, Any]:
    """Resume, waiting for people."""
    cp = SyncCheckpointer.open(url)
    send_to_parent("waiting")
    point = cp.resume("s", wait=True)
    cp.finish_session("s", "completed")
    return {call_id: [result.content, result.is_error] for call_id, result in point.replayable.items()}


def wait_async(url: str) -> dict[str, Any]:
    return asyncio.run(_wait_async(url))


async def _wait_async(url: str) -> dict[str, Any]:
    async with Checkpointer.open(url) as cp:
        send_to_parent("waiting")
        point = await cp.resume("s", wait=True)
        await cp.finish_session("s", "completed")
        return {call_id: [result.content, result.is_error] for call_id, result in point.replayable.items()}


def wait_with_a_hook(url: str) -> list[int]:
    """Resume with a hook that cannot tell at first and can the second time it is asked."""
    cp = SyncCheckpointer.open(url)
    registry = ToolRegistry()
    asked: list[int] = []

    def was_paid(args: dict[str, Any]) -> Landed | Unknown:
        asked.append(args["order"])
        if len(asked) == 1:
            send_to_parent("asked")
            return Unknown("the bank is closed")
        return Landed("receipt 5")

    registry.tool(verify=was_paid, name="pay")(lambda order: "paid")
    cp.resume("s", registry, wait=True)
    cp.close()
    return asked


def wait_and_lose(url: str) -> str:
    """Resume, waiting for people, and be replaced meanwhile."""
    cp = SyncCheckpointer.open(url)
    send_to_parent("waiting")
    try:
        cp.resume("s", wait=True)
    except exceptions.CheckpointsError as error:
        return type(error).__name__
    return "went on"


def decide(url: str, name: str, revision: int) -> str:
    """One of several people who decide at the same moment."""
    cp = SyncCheckpointer.open(url)
    send_to_parent("ready")
    wait_for_parent()
    try:
        cp.mark_failed("s", "call_1", actor=name, reason="I looked.", revision=revision)
    except exceptions.AlreadyDecided as refused:
        return f"after {refused.by}"
    return "first"


def pay_for_ever(url: str) -> None:
    """Begin a payment that does not end."""
    cp = SyncCheckpointer.open(url)
    cp.start_session("s")
    registry = ToolRegistry(checkpointer=cp, session_id="s")

    @registry.tool
    def pay(order: int) -> None:
        send_to_parent("inside")
        wait_for_parent()

    registry.dispatch("pay", {"order": 17}, "call_1")
