"""Conversations in Anthropic's convention: requests to and answers of the Messages API."""

from checkpoints.adapters.anthropic.messages import import_messages

__all__ = ["import_messages"]
