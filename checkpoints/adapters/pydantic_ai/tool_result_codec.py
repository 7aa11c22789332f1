"""Encoder for what tools return: equal after a replay, and stored as JSON that names no type to import."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ToolReturn, ToolReturnPart
from pydantic_ai.tools import RunContext

from checkpoints.calls.value_codec import ValueCodec


@dataclass(frozen=True)
class Returned:
    """Value that a tool has returned, which may be None."""

    value: Any


@dataclass(frozen=True)
class Deferral:
    """Value of a call that a tool has begun and whose result the program gives later.

    Attributes:
        metadata: Metadata of the call, such as the identifier of a job.
        kind: What the call waits for.
    """

    metadata: dict[str, Any] | None
    kind: Literal["external", "question"]

    def build_error(self) -> CallDeferred:
        """Build the error by which the run learns that the call is deferred."""
        return CallDeferred(self.metadata, kind=self.kind)


_DEFERRAL: TypeAdapter[Deferral] = TypeAdapter(Deferral)
_ANY_VALUE: TypeAdapter[Any] = TypeAdapter(Any)
_TOOL_RETURN: TypeAdapter[ToolReturn[Any]] = TypeAdapter(ToolReturn[Any])


def build_codec(ctx: RunContext[Any], tool_name: str) -> ValueCodec:
    """Build the encoder of a tool: by the return type of its function if it has one, else by the type of the value.

    A value that does not come back equal is not stored, and a replay gives its text.

    Args:
        ctx: Context of the call.
        tool_name: Name of the tool.

    Returns:
        The encoder.
    """
    adapters: dict[str, TypeAdapter[Any]] = {"tool-return": _TOOL_RETURN, "plain": _ANY_VALUE}
    declared = _find_return_type(ctx, tool_name)
    if declared is not None:
        adapters = {"declared": TypeAdapter(declared), **adapters}

    def encode_returned_value(returned: Returned) -> tuple[str, bytes]:
        if isinstance(returned.value, Deferral):
            return "json:deferral", _DEFERRAL.dump_json(returned.value, fallback=str)
        for name, adapter in adapters.items():
            try:
                content = adapter.dump_json(returned.value)
                same = adapter.validate_json(content)
            except (ValueError, TypeError):
                continue
            if type(same) is type(returned.value) and same == returned.value:
                return f"json:{name}", content
        raise ValueError("it has no JSON form that comes back equal")

    def decode_returned_value(encoded: tuple[str, bytes]) -> Returned | None:
        adapter = {"deferral": _DEFERRAL, **adapters}.get(encoded[0].removeprefix("json:"))
        if adapter is None:
            return None
        try:
            return Returned(adapter.validate_json(encoded[1]))
        except ValueError:  # the type has changed since
            return None

    return ValueCodec(
        encode_returned_value,
        decode_returned_value,
        lambda returned: _format_tool_result_as_text(tool_name, returned.value),
    )


def _format_tool_result_as_text(tool_name: str, value: Any) -> str:
    if isinstance(value, Deferral):
        return f"The call was deferred: its result comes later. {_DEFERRAL.dump_json(value, fallback=str).decode()}"
    content = value.return_value if isinstance(value, ToolReturn) else value
    return ToolReturnPart(tool_name, content).model_response_str()


def _find_return_type(ctx: RunContext[Any], tool_name: str) -> Any:
    """Return the annotated return type of a tool's function; None if there is none that says anything."""
    tools = ctx.tool_manager.tools if ctx.tool_manager is not None else None
    tool: Any = (tools or {}).get(tool_name)
    while getattr(tool, "source_tool", None) is not None:  # toolsets inside a toolset
        tool = tool.source_tool
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    function = getattr(schema, "function", None)
    try:
        declared = typing.get_type_hints(function, include_extras=True).get("return") if callable(function) else None
        if declared is not None and declared is not Any:
            TypeAdapter(declared)
            return declared
    except Exception:  # a type of the user's that cannot be resolved here
        return None
    return None
