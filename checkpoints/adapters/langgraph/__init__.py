"""LangGraph: a checkpointer for graphs, and a guard for their tools. Needs the extra `langgraph`."""

from checkpoints.adapters.langgraph.saver import HarnessSaver
from checkpoints.adapters.langgraph.tool_guard import HarnessMiddleware, ToolGuard

__all__ = ["HarnessMiddleware", "HarnessSaver", "ToolGuard"]
