"""Transcripts that Claude Code writes: JSON lines in `~/.claude/projects/<project>/<session>.jsonl`."""

from checkpoints.importers.claude_code.importer import import_claude_code

__all__ = ["import_claude_code"]
