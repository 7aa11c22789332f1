"""Claude Agent SDK: a store of its sessions, and hooks for its tools. Needs the extra `claude`."""

from checkpoints.adapters.claude.session_store import HarnessSessionStore
from checkpoints.adapters.claude.tool_hooks import READING_TOOLS, tool_hooks

__all__ = ["READING_TOOLS", "HarnessSessionStore", "tool_hooks"]
