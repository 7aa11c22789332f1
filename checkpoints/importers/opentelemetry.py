"""Spans of OpenTelemetry in files of OTLP JSON, in the GenAI conventions or those of OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from checkpoints.importers.imported_message import read_cost, read_count
from checkpoints.importers.imported_session_builder import Body, ImportContext, TranscriptFormat
from checkpoints.importers.span_conversations import Span, build_sessions

#: Names of attributes for each fact, since the conventions move; the first one that is there counts.
ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "session": (
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
    ),
    "model": ("gen_ai.response.model", "llm.model_name", "gen_ai.request.model", "llm.response.model", "ai.model.id"),
    "agent": ("gen_ai.agent.name", "agent.name", "graph.node.id"),
    "inputs": (
        "gen_ai.input.messages",
        "llm.input_messages",
        "gen_ai.prompt",
        "ai.prompt.messages",
        "ai.prompt",
        "input.value",
        "traceloop.entity.input",
    ),
    "outputs": (
        "gen_ai.output.messages",
        "llm.output_messages",
        "gen_ai.completion",
        "ai.response.toolCalls",
        "ai.response.text",
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
    "input_tokens": ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "llm.token_count.completion", "gen_ai.usage.completion_tokens"),
    "cache_read_input_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_creation_input_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
}
#: Names of the kind of a span, and its values for requests to models and for tools.
_KIND_NAMES: Final = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "ai.operationId")
_MODEL_KINDS: Final = frozenset(
    {"chat", "text_completion", "generate_content", "llm", "ai.generatetext.dogenerate", "ai.streamtext.dostream"}
)
_TOOL_KINDS: Final = frozenset({"execute_tool", "tool", "ai.toolcall"})
#: Beginnings of the names of attributes that say something about an agent.
_AGENT_ATTRIBUTES: Final = (
    "gen_ai.",
    "openinference.",
    "llm.",
    "traceloop.",
    "ai.",
    "session.id",
    "langfuse.",
    "input.value",
    "output.value",
)
#: Events that carry one message each, and its role.
_MESSAGE_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class OpenTelemetryReader:
    """Reader of one file; a session is built of each conversation or trace at the end."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._spans: dict[tuple[str, str], Span] = {}

    def add_value(self, number: int, value: Any) -> None:
        """Read the spans of an export."""
        for resource, raw in iterate_spans(value):
            span = _read_span(raw, _read_attributes(resource))
            self._spans[(span.trace, span.id)] = span

    def finish(self) -> None:
        """Write everything read so far."""
        spans = list(self._spans.values())
        conversations = {span.trace: span.rest["conversation"] for span in spans if span.rest["conversation"]}
        for span in spans:  # a trace belongs to the conversation that any of its spans names
            span.trace = conversations.get(span.trace, span.trace)
        agents = {
            span.trace: span.agent for span in reversed(spans) if span.agent != _get_service(span.rest["resource"])
        }
        for span in spans:  # the name of a service stands only for an agent without a name
            span.agent = agents.get(span.trace, span.agent)
        if spans:
            build_sessions(self._context, spans, titles={}, facts={})
        self._spans = {}


def iterate_spans(value: Any) -> Iterator[tuple[Any, Body]]:
    """Iterate over the spans of an export, each with its resource.

    Args:
        value: JSON value of the export.

    Yields:
        The resource and the span, as they are in the export.
    """
    for resource in _list_dicts(value, "resourceSpans", "resource_spans"):
        for scope in _list_dicts(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
            for raw in _list_dicts(scope, "spans"):
                yield resource.get("resource"), raw


@dataclass(frozen=True)
class SpanIdentity:
    """Place of a span among others.

    Attributes:
        trace_id: Identifier of its trace, in hexadecimal digits.
        span_id: Identifier of the span in its trace, in hexadecimal digits.
        conversation: Name of the conversation that the span states. Empty: it states none.
        tells_of_an_agent: Whether the span says anything about a model, a tool or an agent.
    """

    trace_id: str
    span_id: str
    conversation: str
    tells_of_an_agent: bool


def identify_span(raw: Body) -> SpanIdentity:
    """Read the place of a span among others.

    Args:
        raw: The span, as it is in the export.

    Returns:
        Its identifiers, as far as it has them.
    """
    span = _read_span(raw, {})
    attributes = [*span.rest["attributes"], *_read_attributes(raw)]
    is_told = bool(span.kind) or any(name.startswith(_AGENT_ATTRIBUTES) for name in attributes)
    return SpanIdentity(span.rest["trace"].lower(), span.id.lower(), span.rest["conversation"], is_told)


def _read_span(raw: Body, shared: Body) -> Span:
    attributes = _read_attributes(raw)
    kinds = {str(attributes[name]).lower() for name in _KIND_NAMES if name in attributes}
    events = [(str(event.get("name")), _read_attributes(event)) for event in _list_dicts(raw, "events")]
    for _, fields in events:
        attributes |= {
            name: value for name, value in fields.items() if name in {*ATTRIBUTES["inputs"], *ATTRIBUTES["outputs"]}
        }
    is_tool, trace = bool(kinds & _TOOL_KINDS), str(raw.get("traceId", raw.get("trace_id", "")))
    status = raw.get("status")
    span = Span(
        id=str(raw.get("spanId", raw.get("span_id", ""))),
        parent=str(raw.get("parentSpanId", raw.get("parent_span_id")) or ""),
        trace=trace,
        name=str(raw.get("name", "")),
        kind="tool" if is_tool else "model" if kinds & _MODEL_KINDS else "",
        start=_read_time(raw.get("startTimeUnixNano", raw.get("start_time_unix_nano"))),
        end=_read_time(raw.get("endTimeUnixNano", raw.get("end_time_unix_nano"))),
        inputs=_find(attributes, "arguments" if is_tool else "inputs"),
        outputs=_find(attributes, "result" if is_tool else "outputs"),
        system=_find(attributes, "system"),
        model=str(_find(attributes, "model") or ""),
        agent=str(_find(attributes, "agent") or _get_service(shared)),
        tokens=_read_tokens(attributes),
        cost=read_cost(_find(attributes, "cost")),
        call_id=str(_find(attributes, "call_id") or ""),
        tool=str(_find(attributes, "tool") or ""),
        failed=isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR"),
    )
    _add_event_messages(span, events)
    conversation = str(_find(attributes, "session") or "")
    kept = {"attributes": _leave_out_messages(attributes), "status": status or {}, "resource": shared}
    span.rest = {"trace": trace, "conversation": conversation, **kept}
    return span


def _get_service(resource: Body) -> str:
    """Return the name of the service; empty where the SDK has made one up."""
    name = str(resource.get("service.name") or "")
    return "" if name.startswith("unknown_service") else name


def _add_event_messages(span: Span, events: list[tuple[str, Body]]) -> None:
    """Take the messages of older conventions, which are events of the span."""
    messages = [{"role": _MESSAGE_EVENTS[name], **fields} for name, fields in events if name in _MESSAGE_EVENTS]
    choices = [fields.get("message", fields) for name, fields in events if name == "gen_ai.choice"]
    if span.inputs is None and messages:
        span.inputs = messages
    if span.outputs is None and choices:
        span.outputs = [{"role": "assistant", **choice} if isinstance(choice, dict) else choice for choice in choices]


def _find(attributes: Body, fact: str) -> Any:
    """Find a fact under any of its names: as one attribute, or as a list that was flattened into several."""
    for name in ATTRIBUTES[fact]:
        if attributes.get(name) not in (None, ""):
            return attributes[name]
        entries = _collect_list(attributes, name)
        if entries:
            return entries
    return None


def _collect_list(attributes: Body, prefix: str) -> list[Any]:
    """Collect a list that was flattened to `prefix.0.message.role` and so on."""
    tree: dict[str, Any] = {}
    start = f"{prefix}."
    for name, value in attributes.items():
        if name.startswith(start) and name[len(start) :].split(".")[0].isdigit():
            node = tree
            *path, last = name[len(start) :].split(".")
            for step in path:
                node = node.setdefault(step, {}) if isinstance(node.get(step, {}), dict) else {}
            node[last] = value
    return _to_lists(tree) if tree else []


def _to_lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(name.isdigit() for name in node):
        return [_to_lists(node[name]) for name in sorted(node, key=int)]
    return {name: _to_lists(value) for name, value in node.items()}


def _leave_out_messages(attributes: Body) -> Body:
    """Leave out the attributes that the messages were read from."""
    prefixes = tuple(
        name for fact in ("inputs", "outputs", "system", "arguments", "result") for name in ATTRIBUTES[fact]
    )
    return {
        name: value for name, value in attributes.items() if not name.startswith(prefixes) or name.endswith("mime_type")
    }


def _read_tokens(attributes: Body) -> dict[str, int]:
    """Read the counts; the input includes what came from the cache, and is separated from it."""
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = {name: read_count(_to_int(_find(attributes, name))) for name in names}
    cached = counts["cache_read_input_tokens"] + counts["cache_creation_input_tokens"]
    if cached <= counts["input_tokens"]:
        counts["input_tokens"] -= cached
    return counts


def _to_int(value: Any) -> Any:
    return int(value) if isinstance(value, float) or (isinstance(value, str) and value.isdecimal()) else value


def _read_time(value: Any) -> datetime | None:
    number = _to_int(value)
    try:
        return datetime.fromtimestamp(number / 1e9, UTC) if isinstance(number, int) and number > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _read_attributes(holder: Any) -> Body:
    """Read the attributes of a span, an event or a resource."""
    return {str(entry.get("key")): _read_any(entry.get("value")) for entry in _list_dicts(holder, "attributes")}


def _read_any(value: Any) -> Any:
    """Read a value of OTLP, which names its type."""
    if not isinstance(value, dict):
        return value
    for name, inner in value.items():
        if name in {"arrayValue", "array_value"}:
            return [_read_any(item) for item in (inner or {}).get("values", [])]
        if name in {"kvlistValue", "kvlist_value"}:
            return {str(entry.get("key")): _read_any(entry.get("value")) for entry in _list_dicts(inner, "values")}
        return _to_int(inner) if name in {"intValue", "int_value"} else inner
    return None


def _list_dicts(holder: Any, *names: str) -> Iterator[Body]:
    values: Iterable[Any] = (
        next((holder[name] for name in names if isinstance(holder.get(name), list)), [])
        if isinstance(holder, dict)
        else []
    )
    yield from (value for value in values if isinstance(value, dict))


def _recognize(value: Any) -> int:
    return 3 * (isinstance(value, dict) and isinstance(value.get("resourceSpans", value.get("resource_spans")), list))


OPENTELEMETRY: Final = TranscriptFormat("opentelemetry", "", _recognize, OpenTelemetryReader)
