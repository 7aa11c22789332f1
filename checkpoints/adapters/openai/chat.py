"""Messages of chat completions: requests, answers, fine-tuning files, or a list of messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from checkpoints.adapters.importing.exchanges import (
    Body,
    Exchange,
    Format,
    counted,
    import_exchanges,
    of_list,
    parted,
    strange,
)
from checkpoints.adapters.importing.report import ImportReport, Progress
from checkpoints.adapters.importing.said import moment
from checkpoints.client import SyncCheckpointer

_SHOWN: Final = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "name", "created_at"})
_QUIET: Final = frozenset({"annotations", "audio", "weight"})
_PARTS: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
_USAGE: Final = {
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
    return import_exchanges(checkpointer, source, CHAT, session_id=session_id, agent=agent, progress=progress)


def _read(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("messages"), list):
        return _request(value)
    if isinstance(value.get("choices"), list):
        return _answer(value)
    return _message(value)


def _request(value: Body) -> Exchange | None:
    exchange = of_list(value["messages"], _message)
    if exchange is None:
        return None
    answer = _answer(value) if isinstance(value.get("choices"), list) else None
    if answer is not None:
        exchange.messages += answer.messages
        exchange.tokens, exchange.at = answer.tokens, answer.at
    exchange.whole = True
    exchange.name = next((value[name] for name in ("id", "custom_id") if isinstance(value.get(name), str)), "")
    exchange.at = exchange.at or moment(value.get("created", value.get("created_at")))
    exchange.about = {name: value[name] for name in ("model", "tools", "metadata") if name in value}
    return exchange


def _answer(value: Body) -> Exchange | None:
    said = [choice.get("message") for choice in value["choices"] if isinstance(choice, dict)]
    exchange = of_list(said, _message)
    if exchange is None or not said:
        return None
    exchange.tokens = counted(value.get("usage"), _USAGE)
    exchange.at = moment(value.get("created"))
    exchange.about = {"model": value["model"]} if "model" in value else {}
    return exchange


def _message(value: Any) -> Exchange | None:
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        return None
    return Exchange([parted(value, _SHOWN, _QUIET)], unknown=strange(value.get("content"), _PARTS, "part"))


CHAT: Final = Format("openai-chat", _read)
