"""Strands Agents: a repository for sessions, and a plugin that guards tools. Needs the extra `strands`."""

from checkpoints.adapters.require_framework_version import require_version

require_version("strands-agents", at_least=(1, 62), below=(2, 0))

from checkpoints.adapters.strands.session_repository import HarnessSessionRepository, SessionConflict  # noqa: E402
from checkpoints.adapters.strands.tool_guard_plugin import Harness  # noqa: E402

__all__ = ["Harness", "HarnessSessionRepository", "SessionConflict"]
