"""Definitions of the tools that a program offered to a model, as requests to models and traces have them."""

from __future__ import annotations

from typing import Any


def get_name_of_tool_definition_or_empty(value: Any) -> str:
    """Return the name of the tool that a JSON value defines; empty if it defines none. A call has arguments too."""
    function = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    if not isinstance(function, dict) or "arguments" in function or not {"parameters", "description"} & function.keys():
        return ""
    name = function.get("name")
    return name if isinstance(name, str) else ""
