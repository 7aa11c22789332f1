"""Results of `tools/call` as texts of the call log, and back."""

from __future__ import annotations

import json
from typing import Any, Final

#: Required by the revision 2026-07-28 of the protocol; clients of older ones skip it.
_COMPLETE: Final = {"resultType": "complete"}


def build_tool_result_from_stored_text(content: str, *, is_error: bool) -> dict[str, Any]:
    """Build the result of `tools/call` from a stored text: the server's own result, or a text that a person wrote."""
    stored = None if is_error else _parse_stored_result(content)
    return build_text_result(content, is_error=is_error) if stored is None else {**_COMPLETE, **stored}


def build_text_result(text: str, *, is_error: bool) -> dict[str, Any]:
    """Build the result of `tools/call` that has one text."""
    return {**_COMPLETE, "content": [{"type": "text", "text": text}], "isError": is_error}


def join_texts_of_result(result: dict[str, Any]) -> str:
    """Return the texts of a result, one below the other."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)]
    return "\n".join(texts)


def _parse_stored_result(content: str) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("content"), list) else None


def remove_output_schemas_of_tools(result: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return a result of `tools/list` in which the tools `names` promise no structured result.

    A person may answer a call of theirs with a text, which a client would refuse that checks the schema.
    """
    tools = result.get("tools")
    if not isinstance(tools, list):
        return result
    kept = [
        {field: value for field, value in tool.items() if field != "outputSchema"}
        if isinstance(tool, dict) and tool.get("name") in names
        else tool
        for tool in tools
    ]
    return {**result, "tools": kept}
