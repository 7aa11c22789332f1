"""Claude Agent SDK: a store of its sessions, and hooks for its tools. Needs the extra `claude`."""

from checkpoints.adapters.require_framework_version import require_version

require_version("claude-agent-sdk", at_least=(0, 2, 187), below=(0, 3))

from checkpoints.adapters.claude.session_store import HarnessSessionStore  # noqa: E402
from checkpoints.adapters.claude.tool_hooks import READING_TOOLS, tool_hooks  # noqa: E402

__all__ = ["READING_TOOLS", "HarnessSessionStore", "tool_hooks"]
