"""LangGraph: a checkpointer for graphs, and a guard for their tools. Needs the extra `langgraph`."""

from checkpoints.adapters.require_framework_version import require_version

# Before, all interrupts of a node have one id, so that the answer to the first would be one to the second.
require_version("langgraph", at_least=(1, 2, 20), below=(2, 0))

from checkpoints.adapters.langgraph.saver import HarnessSaver  # noqa: E402
from checkpoints.adapters.langgraph.tool_guard import HarnessMiddleware, ToolGuard  # noqa: E402

__all__ = ["HarnessMiddleware", "HarnessSaver", "ToolGuard"]
