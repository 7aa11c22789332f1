"""Messages of Anthropic's Messages API."""

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

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "created_at"})
_QUIET_FIELDS: Final = frozenset(
    {"type", "model", "usage", "stop_reason", "stop_sequence", "container", "context_management"}
)
_KNOWN_BLOCKS: Final = frozenset(
    {
        "document",
        "image",
        "redacted_thinking",
        "search_result",
        "server_tool_use",
        "text",
        "thinking",
        "tool_result",
        "tool_use",
        "web_search_tool_result",
    }
)
_USAGE_FIELDS: Final = {
    name: name for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
}


def import_messages(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[dict[str, Any]],
    *,
    session_id: str | None = None,
    agent: str = "",
    progress: Progress | None = None,
) -> ImportReport:
    """Import Anthropic messages from a file, a folder, or a list of messages.

    A file holds messages (a list, or one on each line; answers of the API too) or whole conversations: objects with
    `messages`, and `system` where there is one.

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
    return import_exchanges(
        checkpointer, source, MESSAGES_FORMAT, session_id=session_id, agent=agent, progress=progress
    )


def _read_exchange(value: Any) -> Exchange | None:
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        return _read_request(value)
    return _read_message(value)


def _read_request(value: Body) -> Exchange | None:
    exchange = merge_exchanges(value["messages"], _read_message)
    if exchange is None:
        return None
    if value.get("system"):
        exchange.messages.insert(0, {"role": "system", "content": value["system"]})
    exchange.whole = True
    exchange.name = next((value[name] for name in ("id", "custom_id") if isinstance(value.get(name), str)), "")
    exchange.tokens = count_usage(value.get("usage"), _USAGE_FIELDS)
    exchange.at = parse_time(value.get("created_at"))
    exchange.about = {name: value[name] for name in ("model", "tools", "metadata") if name in value}
    return exchange


def _read_message(value: Any) -> Exchange | None:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str) or "content" not in value:
        return None
    return Exchange(
        [separate_fields(value, _SHOWN_FIELDS, _QUIET_FIELDS)],
        tokens=count_usage(value.get("usage"), _USAGE_FIELDS),
        at=parse_time(value.get("created_at")),
        about={"model": value["model"]} if isinstance(value.get("model"), str) else {},
        unknown=count_unknown_types(value["content"], _KNOWN_BLOCKS, "block"),
    )


MESSAGES_FORMAT: Final = MessageFormat("anthropic", _read_exchange)
