"""OpenAI Agents SDK: sessions, and a guard for the tools of its agents. Needs the extra `openai-agents`."""

from checkpoints.adapters.openai_agents.session import HarnessSession

__all__ = ["HarnessSession"]
