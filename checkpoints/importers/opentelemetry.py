"""Spans and log records of OpenTelemetry in files of OTLP JSON, in the GenAI conventions or those of OpenInference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from checkpoints.importers.imported_message_and_usage import parse_usd_cost_or_none
from checkpoints.importers.normalized_span import Span
from checkpoints.importers.otlp_log_events import LogEvent, LogEventsBySpan, iterate_genai_log_events
from checkpoints.importers.span_attributes import (
    ATTRIBUTES,
    find_fact_in_attributes,
    find_request_output,
    iterate_dicts_of_first_list_field,
    omit_attributes_of_facts,
    parse_otlp_time,
    read_attributes,
    read_token_counts,
)
from checkpoints.importers.span_conversations import import_span_sessions
from checkpoints.importers.transcript_reader_interface_and_builder import Body, ImportContext, TranscriptFormat

#: Names of the kind of a span, and its values for requests to models and for tools.
_KIND_NAMES: Final = (
    "gen_ai.operation.name",
    "openinference.span.kind",
    "traceloop.span.kind",
    "llm.request.type",
    "ai.operationId",
)
_MODEL_KINDS: Final = frozenset(
    {
        "ai.generateobject.dogenerate",
        "ai.generatetext.dogenerate",
        "ai.streamobject.dostream",
        "ai.streamtext.dostream",
        "chat",
        "completion",
        "generate_content",
        "llm",
        "text_completion",
    }
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


#: Attributes with messages, which may be those of an event.
_MESSAGE_ATTRIBUTES: Final = frozenset({*ATTRIBUTES["inputs"], *ATTRIBUTES["outputs"], *ATTRIBUTES["system"]})
#: Fields with the spans of each resource; the last one is that of Tempo.
_RESOURCE_FIELDS: Final = ("resourceSpans", "resource_spans", "batches")


class OpenTelemetryReader:
    """Reader of one file; a session is built of each conversation or trace at the end."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._spans: dict[tuple[str, str], Span] = {}
        self._logged = LogEventsBySpan()

    def add_value(self, number: int, value: Any) -> None:
        """Read the spans and the log records of an export."""
        self._logged.add_new_events_of_export(value)
        for resource, raw in iterate_resources_and_spans(value):
            span = _read_span(raw, read_attributes(resource))
            self._spans[(span.trace, span.id)] = span

    def flush(self) -> None:
        """Write everything read so far. Spans that follow belong to the same traces, so these are kept."""
        spans = [replace(span) for span in self._spans.values()]
        spans += [
            _build_model_span_from_log_events(ids, events)
            for ids, events in self._logged.events.items()
            if ids not in self._spans
        ]
        for span in spans:
            _set_missing_messages_from_log_events(span, self._logged.events.get((span.trace, span.id), ()))
        conversations = {span.trace: span.rest["conversation"] for span in spans if span.rest["conversation"]}
        for span in spans:  # a trace belongs to the conversation that any of its spans names
            span.trace = conversations.get(span.trace, span.trace)
        agents = {
            span.trace: span.agent
            for span in reversed(spans)
            if span.agent != _get_service_name_or_empty(span.rest["resource"])
        }
        for span in spans:  # the name of a service stands only for an agent without a name
            span.agent = agents.get(span.trace, span.agent)
        if spans:
            import_span_sessions(self._context, spans, titles={}, facts={})


def iterate_resources_and_spans(value: Any) -> Iterator[tuple[Any, Body]]:
    """Iterate over the spans of an export, each with its resource.

    Args:
        value: JSON value of the export.

    Yields:
        The resource and the span, as they are in the export.
    """
    for resource in iterate_dicts_of_first_list_field(value, *_RESOURCE_FIELDS):
        for scope in iterate_dicts_of_first_list_field(
            resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"
        ):
            for raw in iterate_dicts_of_first_list_field(scope, "spans"):
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


def read_span_identity(raw: Body) -> SpanIdentity:
    """Read the place of a span among others.

    Args:
        raw: The span, as it is in the export.

    Returns:
        Its identifiers, as far as it has them.
    """
    span = _read_span(raw, {})
    attributes = [*span.rest["attributes"], *read_attributes(raw)]
    is_told = bool(span.kind) or any(name.startswith(_AGENT_ATTRIBUTES) for name in attributes)
    return SpanIdentity(span.rest["trace"].lower(), span.id.lower(), span.rest["conversation"], is_told)


def _read_span(raw: Body, shared: Body) -> Span:
    attributes = read_attributes(raw)
    kinds = {str(attributes[name]).lower() for name in _KIND_NAMES if name in attributes}
    events = [
        (str(event.get("name")), read_attributes(event)) for event in iterate_dicts_of_first_list_field(raw, "events")
    ]
    for _, fields in events:
        attributes |= {name: value for name, value in fields.items() if name in _MESSAGE_ATTRIBUTES}
    is_tool, trace = bool(kinds & _TOOL_KINDS), str(raw.get("traceId", raw.get("trace_id", "")))
    status = raw.get("status")
    span = Span(
        id=str(raw.get("spanId", raw.get("span_id", ""))),
        parent=str(raw.get("parentSpanId", raw.get("parent_span_id")) or ""),
        trace=trace,
        name=str(raw.get("name", "")),
        kind="tool" if is_tool else "model" if _is_model_request(kinds, attributes) else "",
        start=parse_otlp_time(raw.get("startTimeUnixNano", raw.get("start_time_unix_nano"))),
        end=parse_otlp_time(raw.get("endTimeUnixNano", raw.get("end_time_unix_nano"))),
        inputs=find_fact_in_attributes(attributes, "arguments" if is_tool else "inputs"),
        outputs=find_fact_in_attributes(attributes, "result") if is_tool else find_request_output(attributes),
        system=find_fact_in_attributes(attributes, "system"),
        model=str(find_fact_in_attributes(attributes, "model") or ""),
        agent=str(find_fact_in_attributes(attributes, "agent") or _get_service_name_or_empty(shared)),
        tokens=read_token_counts(attributes),
        cost=parse_usd_cost_or_none(find_fact_in_attributes(attributes, "cost")),
        call_id=str(find_fact_in_attributes(attributes, "call_id") or ""),
        tool=str(find_fact_in_attributes(attributes, "tool") or ""),
        failed=isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR"),
    )
    _set_missing_messages_from_events(span, events)
    conversation = str(find_fact_in_attributes(attributes, "session") or "")
    read = ("arguments", "result") if is_tool else ("inputs", "outputs", "system")
    kept = {"attributes": omit_attributes_of_facts(attributes, read), "status": status or {}, "resource": shared}
    span.rest = {"trace": trace, "conversation": conversation, **kept}
    return span


def _is_model_request(kinds: set[str], attributes: Body) -> bool:
    """Return whether a span is a request to a model. One that states no kind names a model, and has tokens."""
    if kinds:
        return bool(kinds & _MODEL_KINDS)
    return find_fact_in_attributes(attributes, "model") is not None and any(read_token_counts(attributes).values())


def _get_service_name_or_empty(resource: Body) -> str:
    """Return the name of the service; empty where the SDK has made one up."""
    name = str(resource.get("service.name") or "")
    return "" if name.startswith("unknown_service") else name


def _set_missing_messages_from_events(span: Span, events: list[tuple[str, Body]]) -> None:
    """Take the messages of older conventions, which are events of the span."""
    messages = [{"role": _MESSAGE_EVENTS[name], **fields} for name, fields in events if name in _MESSAGE_EVENTS]
    for message in messages:
        if message["role"] == "tool" and "id" in message:  # of its call
            message.setdefault("tool_call_id", message["id"])
    choices = [fields.get("message", fields) for name, fields in events if name == "gen_ai.choice"]
    if span.inputs is None and messages:
        span.inputs = messages
    if span.outputs is None and choices:
        span.outputs = [{"role": "assistant", **choice} if isinstance(choice, dict) else choice for choice in choices]


def _build_model_span_from_log_events(trace_and_span_ids: tuple[str, str], events: Sequence[LogEvent]) -> Span:
    """Build the request to a model whose span is not in the file, from the attributes of its events."""
    times = [event.at for event in events if event.at is not None]
    span = _read_span(
        {"traceId": trace_and_span_ids[0], "spanId": trace_and_span_ids[1], "name": events[-1].name}, events[0].resource
    )
    attributes = {name: value for event in events for name, value in event.attributes.items()}
    span.kind, span.start, span.end = "model", min(times, default=None), max(times, default=None)
    span.model, span.tokens = str(find_fact_in_attributes(attributes, "model") or ""), read_token_counts(attributes)
    span.agent = str(find_fact_in_attributes(attributes, "agent") or span.agent)
    conversation = str(find_fact_in_attributes(attributes, "session") or "")
    kept = omit_attributes_of_facts(attributes, ("inputs", "outputs", "system"))
    span.rest = {**span.rest, "conversation": conversation, "attributes": kept}
    return span


def _set_missing_messages_from_log_events(span: Span, events: Sequence[LogEvent]) -> None:
    """Give a span the messages of its log records, as far as it has none of its own."""
    attributes = {
        name: value for event in events for name, value in event.fields.items() if name in _MESSAGE_ATTRIBUTES
    }
    for name in ("inputs", "outputs", "system"):
        if getattr(span, name) is None:
            setattr(span, name, find_fact_in_attributes(attributes, name))
    _set_missing_messages_from_events(span, [(event.name, event.fields) for event in events])


def _score_format_match(value: Any) -> int:
    is_export = isinstance(value, dict) and isinstance(value.get("resourceSpans", value.get("resource_spans")), list)
    holds_spans = is_export or any(True for _ in iterate_resources_and_spans(value))
    return 3 * (holds_spans or any(True for _ in iterate_genai_log_events(value)))


OPENTELEMETRY: Final = TranscriptFormat("opentelemetry", "", _score_format_match, OpenTelemetryReader)
