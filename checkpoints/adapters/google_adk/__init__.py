"""Google ADK: a session service, and a plugin that guards tools. Needs the extra `google-adk`."""

from checkpoints.adapters.require_framework_version import require_version

require_version("google-adk", at_least=(2, 13), below=(2, 14))

from checkpoints.adapters.google_adk.session_service import HarnessSessionService  # noqa: E402
from checkpoints.adapters.google_adk.tool_guard_plugin import Harness  # noqa: E402

__all__ = ["Harness", "HarnessSessionService"]
