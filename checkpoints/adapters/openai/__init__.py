"""Conversations in OpenAI's conventions: chat completions, and items of the Responses API."""

from checkpoints.adapters.openai.chat import import_chat
from checkpoints.adapters.openai.responses import import_responses

__all__ = ["import_chat", "import_responses"]
