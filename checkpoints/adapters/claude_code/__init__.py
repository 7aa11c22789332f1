"""Transcripts that Claude Code writes: JSON lines in `~/.claude/projects/<project>/<session>.jsonl`."""

from checkpoints.adapters.claude_code.importing import import_claude_code

__all__ = ["import_claude_code"]
