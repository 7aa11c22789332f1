"""Pydantic AI: a store for conversations, and a capability that guards tools. Needs the extra `pydantic-ai`."""

from checkpoints.adapters.require_framework_version import require_version

require_version("pydantic-ai-slim", at_least=(2, 68), below=(3, 0))

from checkpoints.adapters.pydantic_ai.harness_conversation_store import HarnessConversationStore  # noqa: E402
from checkpoints.adapters.pydantic_ai.tool_guard_capability import Harness  # noqa: E402

__all__ = ["Harness", "HarnessConversationStore"]
