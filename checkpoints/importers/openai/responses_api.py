"""Items of the Responses API: input items, answers, or both in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from checkpoints.client import SyncCheckpointer
from checkpoints.importers.conversation_files import (
    Body,
    Exchange,
    MessageFormat,
    count_usage,
    import_exchanges,
    merge_exchanges,
    separate_fields,
)
from checkpoints.importers.import_report import ImportReport, Progress
from checkpoints.importers.imported_message import parse_time

_SHOWN_FIELDS: Final = frozenset({"id", "role", "content", "created_at"})
_QUIET_FIELDS: Final = frozenset({"type", "status", "phase"})
_USAGE_FIELDS: Final = {name: name for name in ("input_tokens", "output_tokens", "total_tokens")}
#: Known kinds of items that are shown as they are.
_UNCONVERTED_TYPES: Final = frozenset(
    {
        "code_interpreter_call",
        "compaction",
        "file_search_call",
        "image_generation_call",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
        "web_search_call",
    }
)
#: Kinds of calls whose arguments are in another field, with their names.
_CALL_ARGUMENT_FIELDS: Final = {
    "computer_call": "action",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}


def import_responses(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[dict[str, Any]],
    *,
    session_id: str | None = None,
    agent: str = "",
    progress: Progress | None = None,
) -> ImportReport:
    """Import items of the Responses API from a file, a folder, or a list of items.

    A file holds items (a list, or one on each line) or answers of the API, which follow each other in one session; an
    object with `input` is a conversation of its own.

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
        checkpointer, source, RESPONSES_FORMAT, session_id=session_id, agent=agent, progress=progress
    )


def _read_exchange(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("output"), list) and value.get("object", "response") == "response":
        return _read_response(value)
    if "input" in value and "type" not in value:
        return _read_response(value)
    return _read_item(value)


def _read_response(value: Body) -> Exchange | None:
    request = value.get("input", [])
    request_items = [{"role": "user", "content": request}] if isinstance(request, str) else request
    response_items = value.get("output", [])
    if not isinstance(request_items, list) or not isinstance(response_items, list):
        return None
    exchange = merge_exchanges([*request_items, *response_items], _read_item)
    if exchange is None:
        return None
    exchange.whole = "input" in value
    if exchange.whole and isinstance(value.get("instructions"), str):
        exchange.messages.insert(0, {"role": "system", "content": value["instructions"]})
    exchange.name = value["id"] if exchange.whole and isinstance(value.get("id"), str) else ""
    exchange.tokens = count_usage(value.get("usage"), _USAGE_FIELDS)
    exchange.at = parse_time(value.get("created_at"))
    exchange.about = {name: value[name] for name in ("model", "tools", "metadata") if value.get(name)}
    return exchange


def _read_item(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "message" if "role" in value else None)
    if not isinstance(kind, str):
        return None
    if kind == "message":
        return (
            Exchange([separate_fields(value, _SHOWN_FIELDS, _QUIET_FIELDS)])
            if isinstance(value.get("role"), str)
            else None
        )
    reader = _ITEM_READERS.get(kind)
    body = reader(value) if reader else None
    if body is not None:
        return Exchange([body])
    is_known = kind in _UNCONVERTED_TYPES or reader is not None
    return Exchange([_convert_item(value)], unknown=Counter() if is_known else Counter([f"item {kind}"]))


def _convert_item(value: Body) -> Body:
    return {"role": "assistant", "content": [value]}


def _build_message(value: Body, blocks: list[Body], role: str = "assistant") -> Body:
    metadata = {"id": value["id"]} if isinstance(value.get("id"), str) else {}
    return {**metadata, "role": role, "blocks": blocks, "source": value}


def _get_call_id(value: Body) -> str | None:
    call_id = value.get("call_id") or value.get("id")
    return call_id if isinstance(call_id, str) else None


def _convert_call(value: Body) -> Body | None:
    """Convert a call; its kind is its name if it has none of its own."""
    call_id, kind = _get_call_id(value), value["type"]
    name, args = value.get("name", kind.removesuffix("_call")), value.get(_CALL_ARGUMENT_FIELDS.get(kind, "arguments"))
    if call_id is None or not isinstance(name, str):
        return None
    return _build_message(value, [{"kind": "tool_call", "id": call_id, "name": name, "args": args}])


def _convert_call_output(value: Body) -> Body | None:
    call_id = _get_call_id(value)
    if call_id is None:
        return None
    is_error = value.get("status") in ("failed", "incomplete")
    return _build_message(value, [_build_tool_result(call_id, value.get("output"), failed=is_error)], "tool")


def _build_tool_result(call_id: str, content: Any, *, failed: bool) -> Body:
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    return {**block, "is_error": True} if failed else block


def _convert_mcp_call(value: Body) -> Body | None:
    """Convert a call that the provider made: the item also holds its result."""
    call_id, name, error = _get_call_id(value), value.get("name"), value.get("error")
    if call_id is None or not isinstance(name, str):
        return None
    call_block = {"kind": "tool_call", "id": call_id, "name": name, "args": value.get("arguments")}
    if error is None and value.get("output") is None:
        return _build_message(value, [call_block])
    content = value.get("output") if error is None else error
    return _build_message(value, [call_block, _build_tool_result(call_id, content, failed=error is not None)])


def _convert_reasoning(value: Body) -> Body | None:
    pieces = [piece for name in ("summary", "content") for piece in _to_list(value.get(name))]
    texts = [piece["text"] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get("text"), str)]
    return _build_message(value, [{"kind": "reasoning", "text": "\n\n".join(texts)}]) if texts else None


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_ITEM_READERS: Final[dict[str, Callable[[Body], Body | None]]] = {
    "reasoning": _convert_reasoning,
    "mcp_call": _convert_mcp_call,
    **dict.fromkeys(("function_call", *_CALL_ARGUMENT_FIELDS), _convert_call),
    **dict.fromkeys(
        ("function_call_output", *(f"{kind}_output" for kind in _CALL_ARGUMENT_FIELDS)), _convert_call_output
    ),
}
RESPONSES_FORMAT: Final = MessageFormat("openai-responses", _read_exchange)
