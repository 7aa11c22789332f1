"""OpenAI Agents SDK: sessions, a guard for the tools of its agents, and a runner that keeps turns.

Needs the extra `openai-agents`.
"""

from checkpoints.adapters.require_framework_version import require_version

require_version("openai-agents", at_least=(0, 24), below=(0, 25))

from checkpoints.adapters.openai_agents.agent_guard import guard_agent  # noqa: E402
from checkpoints.adapters.openai_agents.agent_session import HarnessSession  # noqa: E402
from checkpoints.adapters.openai_agents.harness_runner import HarnessRunner, use_harness  # noqa: E402

__all__ = ["HarnessRunner", "HarnessSession", "guard_agent", "use_harness"]
