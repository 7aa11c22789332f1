"""Messages of chat completions: requests, answers, fine-tuning files, or a list of messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from checkpoints.client import SyncCheckpointer
from checkpoints.importers.conversation_files import (
    Body,
    Exchange,
    MessageFormat,
    count_unknown_types,
    count_usage,
    import_exchanges,
    merge_exchanges,
    separate_fields,
)
from checkpoints.importers.import_report import ImportReport, Progress
from checkpoints.importers.imported_message import parse_time

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "name", "created_at"})
_QUIET_FIELDS: Final = frozenset({"annotations", "audio", "weight"})
_KNOWN_PARTS: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
_USAGE_FIELDS: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}


def import_chat(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[dict[str, Any]],
    *,
    session_id: str | None = None,
    agent: str = "",
    progress: Progress | None = None,
) -> ImportReport:
    """Import chat messages from a file, a folder, or a list of messages.

    A file holds messages (a list, or one on each line) or whole conversations: objects with `messages`, as requests and
    fine-tuning files have them, or answers of the API. A file becomes one session, or one for each whole conversation
    on its lines.

    Args:
        checkpointer: Client of the workspace to import into.
        source: Path of a file or folder, or the values themselves.
        session_id: Identifier of the session, for one file or values from memory. None: the name of the file.
        agent: Name of the agent, for lists and filters.
        progress: Function that is called with an `ImportProgress` now and then.

    Returns:
        Counts of what was read and added, and what could not be read.

    Raises:
        NothingToImport: There is no file of JSON.
        ImportRefused: A session cannot be written to.
        ImportOvertaken: Another import or run has written to the session meanwhile.
        InvalidInput: `session_id` is missing for values from memory, or given for a folder.
    """
    return import_exchanges(checkpointer, source, CHAT_FORMAT, session_id=session_id, agent=agent, progress=progress)


def _read_exchange(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("messages"), list):
        return _read_request(value)
    if isinstance(value.get("choices"), list):
        return _read_response(value)
    return _read_message(value)


def _read_request(value: Body) -> Exchange | None:
    exchange = merge_exchanges(value["messages"], _read_message)
    if exchange is None:
        return None
    answer = _read_response(value) if isinstance(value.get("choices"), list) else None
    if answer is not None:
        exchange.messages += answer.messages
        exchange.tokens, exchange.at = answer.tokens, answer.at
    exchange.whole = True
    exchange.name = next((value[name] for name in ("id", "custom_id") if isinstance(value.get(name), str)), "")
    exchange.at = exchange.at or parse_time(value.get("created", value.get("created_at")))
    exchange.about = {name: value[name] for name in ("model", "tools", "metadata") if name in value}
    return exchange


def _read_response(value: Body) -> Exchange | None:
    messages = [choice.get("message") for choice in value["choices"] if isinstance(choice, dict)]
    exchange = merge_exchanges(messages, _read_message)
    if exchange is None or not messages:
        return None
    exchange.tokens = count_usage(value.get("usage"), _USAGE_FIELDS)
    exchange.at = parse_time(value.get("created"))
    exchange.about = {"model": value["model"]} if "model" in value else {}
    return exchange


def _read_message(value: Any) -> Exchange | None:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return None
    return Exchange(
        [separate_fields(value, _SHOWN_FIELDS, _QUIET_FIELDS)],
        unknown=count_unknown_types(value.get("content"), _KNOWN_PARTS, "part"),
    )


CHAT_FORMAT: Final = MessageFormat("openai-chat", _read_exchange)
