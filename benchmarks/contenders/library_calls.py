"""Tool calls through this library: by the call log's own methods, and by a registry."""

from __future__ import annotations

from typing import Any

from checkpoints import SyncCheckpointer, ToolRegistry

SESSION = "calls"


class Log:
    def __init__(self, alias: str) -> None:
        self.checkpointer = SyncCheckpointer(using=alias)
        self.checkpointer.start_session(SESSION)

    def log_call(self, number: int, args: dict[str, Any], result: str) -> None:
        self.checkpointer.record_tool_call_issued(SESSION, f"call_{number}", "charge", args, f"key {number}")
        self.checkpointer.record_tool_call_result(SESSION, f"call_{number}", result, True)


class Dispatch:
    def __init__(self, alias: str) -> None:
        self.checkpointer = SyncCheckpointer(using=alias)
        self.checkpointer.start_session(f"{SESSION} dispatched")
        self.registry = ToolRegistry(checkpointer=self.checkpointer, session_id=f"{SESSION} dispatched")
        self.registry.tool(self.charge)
        self.result = ""

    def charge(self, order: int, amount: str, note: str) -> str:
        return self.result

    def log_call(self, number: int, args: dict[str, Any], result: str) -> None:
        self.result = result
        answer = self.registry.dispatch("charge", args, f"call_{number}")
        if answer.is_error or answer.replayed:
            raise RuntimeError(f"The call was not made: {answer.content}")
