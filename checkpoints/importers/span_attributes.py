"""Attributes of spans: their names in the conventions, and their values in OTLP JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from checkpoints.formats.canonical_json import parse_json
from checkpoints.importers.imported_message_and_usage import parse_token_count_or_zero
from checkpoints.importers.transcript_reader_interface_and_builder import Body

#: Names of attributes for each fact, since the conventions move; the first one that is there counts.
ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "session": (
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
    ),
    "model": (
        "gen_ai.response.model",
        "llm.response.model_name",
        "llm.model_name",
        "gen_ai.request.model",
        "llm.request.model_name",
        "llm.response.model",
        "llm.request.model",
        "ai.model.id",
    ),
    "agent": ("gen_ai.agent.name", "agent.name", "graph.node.id"),
    "inputs": (
        "gen_ai.input.messages",
        "llm.input_messages",
        "gen_ai.prompt",
        "llm.prompts",
        "ai.prompt.messages",
        "ai.prompt",
        "input.value",
        "traceloop.entity.input",
    ),
    "outputs": (
        "gen_ai.output.messages",
        "llm.output_messages",
        "gen_ai.completion",
        "llm.choices",
        "ai.response.text",
        "ai.response.object",
        "output.value",
        "traceloop.entity.output",
    ),
    "system": ("gen_ai.system_instructions",),
    "arguments": (
        "gen_ai.tool.call.arguments",
        "ai.toolCall.args",
        "input.value",
        "traceloop.entity.input",
        "tool.parameters",  # last, because some instrumentations write the schema of the arguments there
    ),
    "result": ("gen_ai.tool.call.result", "ai.toolCall.result", "output.value", "traceloop.entity.output"),
    "call_id": ("gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id"),
    "tool": ("gen_ai.tool.name", "tool.name", "ai.toolCall.name"),
    "cost": ("gen_ai.usage.cost", "llm.cost.total"),
    "input_tokens": (
        "gen_ai.usage.input_tokens",
        "llm.token_count.prompt",
        "gen_ai.usage.prompt_tokens",
        "llm.usage.prompt_tokens",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "llm.token_count.completion",
        "gen_ai.usage.completion_tokens",
        "llm.usage.completion_tokens",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
    ),
    "cache_read_input_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
    ),
    "cache_creation_input_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "total_tokens": ("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens"),
}
#: Digits of the largest number of 64 bits.
_MAX_DIGITS: Final = 20
#: What the AI SDK of Vercel writes of one answer into several attributes.
_ANSWER_ATTRIBUTES: Final = {"reasoning": "ai.response.reasoning", "text": "ai.response.text"}
_ANSWER_CALLS: Final = "ai.response.toolCalls"


def find_fact_in_attributes(attributes: Body, fact: str) -> Any:
    """Find a fact under any of its names: as one attribute, or as a list that was flattened into several."""
    for name in ATTRIBUTES[fact]:
        if attributes.get(name) not in (None, ""):
            return attributes[name]
        entries = _collect_flattened_list_attribute(attributes, name)
        if entries:
            return entries
    return None


def find_request_output(attributes: Body) -> Any:
    """Find the output of a request: what one attribute says, or several say together."""
    parts: list[Any] = [
        {"type": kind, "text": attributes[name]}
        for kind, name in _ANSWER_ATTRIBUTES.items()
        if isinstance(attributes.get(name), str) and attributes[name]
    ]
    calls = attributes.get(_ANSWER_CALLS)
    if isinstance(calls, str):
        with suppress(ValueError):  # it is kept as it is
            calls = parse_json(calls)
    if not parts and not calls:
        return find_fact_in_attributes(attributes, "outputs")
    calls = calls if isinstance(calls, list) else [calls] if calls else []
    calls = [{"type": "tool-call", **call} if isinstance(call, dict) else call for call in calls]
    return [{"role": "assistant", "content": [*parts, *calls]}]


def _collect_flattened_list_attribute(attributes: Body, prefix: str) -> list[Any]:
    """Collect a list that was flattened to `prefix.0.message.role` and so on."""
    tree: dict[str, Any] = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if name.startswith(start) and _is_list_index(name[len(start) :].split(".")[0]):
            node = tree
            *path, last = name[len(start) :].split(".")
            for step in path:
                node = node.setdefault(step, {}) if isinstance(node.get(step, {}), dict) else {}
            node[last] = value
    return _convert_numbered_dicts_to_lists(tree) if tree else []


def _convert_numbered_dicts_to_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(map(_is_list_index, node)):
        return [_convert_numbered_dicts_to_lists(node[name]) for name in sorted(node, key=int)]
    return {name: _convert_numbered_dicts_to_lists(value) for name, value in node.items()}


def _is_list_index(name: str) -> bool:
    return name.isdecimal() and len(name) <= _MAX_DIGITS


def omit_attributes_of_facts(attributes: Body, facts: Iterable[str]) -> Body:
    """Leave out the attributes that these facts were read from, and those that repeat them."""
    names = (name for fact in facts for name in ATTRIBUTES[fact])
    prefixes = (*names, *_ANSWER_ATTRIBUTES.values(), _ANSWER_CALLS)
    return {
        name: value for name, value in attributes.items() if not name.startswith(prefixes) or name.endswith("mime_type")
    }


def read_token_counts(attributes: Body) -> dict[str, int]:
    """Read the counts; the input includes what came from the cache, and is separated from it."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = {
        name: parse_token_count_or_zero(parse_otlp_integer_or_keep(find_fact_in_attributes(attributes, name)))
        for name in names
    }
    if not counts["input_tokens"] and not counts["output_tokens"]:
        counts["total_tokens"] = parse_token_count_or_zero(
            parse_otlp_integer_or_keep(find_fact_in_attributes(attributes, "total_tokens"))
        )
    cached = counts["cache_read_input_tokens"] + counts["cache_creation_input_tokens"]
    if cached <= counts["input_tokens"]:
        counts["input_tokens"] -= cached
    return counts


def parse_otlp_integer_or_keep(value: Any) -> Any:
    """Convert a number that OTLP JSON writes as text; other values stay as they are."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) <= _MAX_DIGITS else value


def parse_otlp_time(value: Any) -> datetime | None:
    """Convert nanoseconds since 1970, which OTLP JSON writes as text; None for anything else."""
    number = parse_otlp_integer_or_keep(value)
    try:
        return datetime.fromtimestamp(number / 1e9, UTC) if isinstance(number, int) and number > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def read_attributes(holder: Any) -> Body:
    """Read the attributes of a span, an event or a resource."""
    return {
        str(entry.get("key")): decode_otlp_any_value(entry.get("value"))
        for entry in iterate_dicts_of_first_list_field(holder, "attributes")
    }


def decode_otlp_any_value(value: Any) -> Any:
    """Read a value of OTLP, which names its type."""
    if not isinstance(value, dict):
        return value
    for name, inner in value.items():
        if name in {"arrayValue", "array_value"}:
            return [decode_otlp_any_value(item) for item in (inner or {}).get("values", [])]
        if name in {"kvlistValue", "kvlist_value"}:
            return {
                str(entry.get("key")): decode_otlp_any_value(entry.get("value"))
                for entry in iterate_dicts_of_first_list_field(inner, "values")
            }
        return parse_otlp_integer_or_keep(inner) if name in {"intValue", "int_value"} else inner
    return None


def iterate_dicts_of_first_list_field(holder: Any, *names: str) -> Iterator[Body]:
    """Iterate over the objects in the first of these fields that is a list."""
    values: Iterable[Any] = (
        next((holder[name] for name in names if isinstance(holder.get(name), list)), [])
        if isinstance(holder, dict)
        else []
    )
    yield from (value for value in values if isinstance(value, dict))
