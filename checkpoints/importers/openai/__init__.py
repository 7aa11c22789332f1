"""Conversations in OpenAI's conventions: chat completions, and items of the Responses API."""

from checkpoints.importers.openai.chat_completions import import_chat
from checkpoints.importers.openai.responses_api import import_responses

__all__ = ["import_chat", "import_responses"]
