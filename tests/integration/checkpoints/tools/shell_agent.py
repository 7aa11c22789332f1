"""Agent with one tool, whose calls have the policy `unanswered`."""

import threading
from pathlib import Path
from typing import Any

from checkpoints import Checkpointer, SyncCheckpointer, ToolRegistry, ToolResult
from checkpoints.models import ToolCall
from tests.support.processes import append_line

TEST = {"command": "make test"}


class ShellAgent:
    """Agent with one tool that appends numbered lines, so that results can be distinguished."""

    def __init__(self, path: Path, policy: Any = "unanswered", **options: Any) -> None:
        self.path, self.policy, self.options = path, policy, options
        self.error: Exception | None = None
        self.lock = threading.Lock()

    def tools(self, cp: SyncCheckpointer | Checkpointer, session_id: str = "s") -> ToolRegistry:
        registry = ToolRegistry(checkpointer=cp, session_id=session_id, idempotency=self.policy)

        @registry.tool(**self.options)
        def bash(command: str) -> str:
            with self.lock:
                append_line(str(self.path), command)
                number = len(self.done())
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            return f"{command} #{number}"

        return registry

    def done(self) -> list[str]:
        return self.path.read_text().splitlines()


def ask(*call_ids: str, args: dict[str, Any] = TEST, tool: str = "bash") -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": each, "name": tool, "args": args} for each in call_ids]}


def answer(*results: ToolResult) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": result.call_id, "content": result.content} for result in results]


def dispatch(registry: ToolRegistry, *call_ids: str, args: dict[str, Any] = TEST) -> list[ToolResult]:
    return [registry.dispatch("bash", args, call_id) for call_id in call_ids]


def save(cp: SyncCheckpointer, transcript: list[dict[str, Any]], *results: ToolResult) -> list[dict[str, Any]]:
    """Save a turn with calls and their results; return the transcript."""
    transcript = [*transcript, ask(*(result.call_id for result in results)), *answer(*results)]
    cp.save_checkpoint("s", transcript, None, 0)
    return transcript


def contents(results: list[ToolResult]) -> list[str]:
    return [result.content for result in results]


def answered(session_id: str = "s") -> list[int | None]:
    calls = ToolCall.objects.filter(session__session_id=session_id).order_by("pk")
    return list(calls.values_list("answered_version", flat=True))
