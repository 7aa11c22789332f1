"""Conversations in Anthropic's convention: requests to and answers of the Messages API."""

from checkpoints.importers.anthropic.messages_api import import_messages

__all__ = ["import_messages"]
