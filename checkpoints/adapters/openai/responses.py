"""Items of the Responses API: input items, answers, or both in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
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
)
from checkpoints.adapters.importing.report import ImportReport, Progress
from checkpoints.adapters.importing.said import moment
from checkpoints.client import SyncCheckpointer

_SHOWN: Final = frozenset({"id", "role", "content", "created_at"})
_QUIET: Final = frozenset({"type", "status", "phase"})
_USAGE: Final = {name: name for name in ("input_tokens", "output_tokens", "total_tokens")}
#: Kinds of items that are shown as they are, without being unknown.
_AS_THEY_ARE: Final = frozenset(
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
#: Calls whose arguments stand in another field, with the name they go by.
_CALLS: Final = {
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
    return import_exchanges(checkpointer, source, RESPONSES, session_id=session_id, agent=agent, progress=progress)


def _read(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("output"), list) and value.get("object", "response") == "response":
        return _response(value)
    if "input" in value and "type" not in value:
        return _response(value)
    return _item(value)


def _response(value: Body) -> Exchange | None:
    given = value.get("input", [])
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    answered = value.get("output", [])
    if not isinstance(asked, list) or not isinstance(answered, list):
        return None
    exchange = of_list([*asked, *answered], _item)
    if exchange is None:
        return None
    exchange.whole = "input" in value
    if exchange.whole and isinstance(value.get("instructions"), str):
        exchange.messages.insert(0, {"role": "system", "content": value["instructions"]})
    exchange.name = value["id"] if exchange.whole and isinstance(value.get("id"), str) else ""
    exchange.tokens = counted(value.get("usage"), _USAGE)
    exchange.at = moment(value.get("created_at"))
    exchange.about = {name: value[name] for name in ("model", "tools", "metadata") if value.get(name)}
    return exchange


def _item(value: Any) -> Exchange | None:
    if not isinstance(value, dict):
        return None
    kind = value.get("type", "message" if "role" in value else None)
    if not isinstance(kind, str):
        return None
    if kind == "message":
        return Exchange([parted(value, _SHOWN, _QUIET)]) if isinstance(value.get("role"), str) else None
    reader = _READERS.get(kind)
    body = reader(value) if reader else None
    if body is not None:
        return Exchange([body])
    known = kind in _AS_THEY_ARE or reader is not None
    return Exchange([_shown(value)], unknown=Counter() if known else Counter([f"item {kind}"]))


def _shown(value: Body) -> Body:
    return {"role": "assistant", "content": [value]}


def _said(value: Body, blocks: list[Body], role: str = "assistant") -> Body:
    told = {"id": value["id"]} if isinstance(value.get("id"), str) else {}
    return {**told, "role": role, "blocks": blocks, "source": value}


def _call_id(value: Body) -> str | None:
    found = value.get("call_id") or value.get("id")
    return found if isinstance(found, str) else None


def _call(value: Body) -> Body | None:
    """A call; its name is that of its kind where it has none of its own."""
    call_id, kind = _call_id(value), value["type"]
    name, args = value.get("name", kind.removesuffix("_call")), value.get(_CALLS.get(kind, "arguments"))
    if call_id is None or not isinstance(name, str):
        return None
    return _said(value, [{"kind": "tool_call", "id": call_id, "name": name, "args": args}])


def _output(value: Body) -> Body | None:
    call_id = _call_id(value)
    if call_id is None:
        return None
    failed = value.get("status") in ("failed", "incomplete")
    return _said(value, [_result(call_id, value.get("output"), failed=failed)], "tool")


def _result(call_id: str, content: Any, *, failed: bool) -> Body:
    block = {"kind": "tool_result", "call_id": call_id, "content": content}
    return {**block, "is_error": True} if failed else block


def _mcp_call(value: Body) -> Body | None:
    """A call that the provider made: the item holds what came back."""
    call_id, name, error = _call_id(value), value.get("name"), value.get("error")
    if call_id is None or not isinstance(name, str):
        return None
    asked = {"kind": "tool_call", "id": call_id, "name": name, "args": value.get("arguments")}
    if error is None and value.get("output") is None:
        return _said(value, [asked])
    content = value.get("output") if error is None else error
    return _said(value, [asked, _result(call_id, content, failed=error is not None)])


def _reasoning(value: Body) -> Body | None:
    pieces = [piece for name in ("summary", "content") for piece in _listed(value.get(name))]
    texts = [piece["text"] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get("text"), str)]
    return _said(value, [{"kind": "reasoning", "text": "\n\n".join(texts)}]) if texts else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


_READERS: Final[dict[str, Callable[[Body], Body | None]]] = {
    "reasoning": _reasoning,
    "mcp_call": _mcp_call,
    **dict.fromkeys(("function_call", *_CALLS), _call),
    **dict.fromkeys(("function_call_output", *(f"{kind}_output" for kind in _CALLS)), _output),
}
RESPONSES: Final = Format("openai-responses", _read)
