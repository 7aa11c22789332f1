"""Claude Agent SDK: a store of its sessions, and hooks for its tools. Needs the extra `claude`."""

from checkpoints.adapters.claude.session_store import HarnessSessionStore

__all__ = ["HarnessSessionStore"]
