"""Simulated processes within one process, whose tools pause where the function would be called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from checkpoints import SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.exceptions import CheckpointsError
from checkpoints.sync_and_async_flow_runners import Flow, Step, Transact
from tests.property.state_model import DONE, OPERATIONS, Attempt


@dataclass
class Flight:
    """A tool that is running: its dispatch stands still at the call of the function."""

    flow: Flow[ToolResult]
    attempt: Attempt
    run: int


@dataclass
class Process:
    """A checkpointer that owns the session, or believes it does, with its tools."""

    checkpointer: SyncCheckpointer
    registry: ToolRegistry
    run: int
    flights: list[Flight] = field(default_factory=list)


def toolbox() -> ToolRegistry:
    registry = ToolRegistry()
    for operation in OPERATIONS:
        if operation.tool not in registry.tools:
            options: dict[str, Any] = {
                "name": operation.tool,
                "requires_approval": operation.asks_first,
                "approvals": operation.approvals,
            }
            registry.tool(**options)(_never)
    return registry


def _never(order: int) -> str:
    raise AssertionError("The machine runs the tools itself.")


def until_it_runs(flow: Flow[ToolResult], advance: Callable[[], Step]) -> Step | ToolResult:
    """Drive a dispatch to where the tool is called, where it would wait, or to its end."""
    try:
        step = advance()
        while isinstance(step, Transact):
            try:
                value = step.work()
            except CheckpointsError as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return step


def outcome(work: Callable[[], object]) -> str:
    """`DONE`, or the name of the error of the library."""
    try:
        work()
    except CheckpointsError as error:
        return type(error).__name__
    return DONE
