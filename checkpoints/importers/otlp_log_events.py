"""Log records of OTLP JSON that are events of the GenAI conventions: the messages of the span that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from checkpoints.importers.span_attributes import (
    decode_otlp_any_value,
    iterate_dicts_of_first_list_field,
    parse_otlp_time,
    read_attributes,
)
from checkpoints.importers.transcript_reader_interface_and_builder import Body

_EVENT_PREFIX: Final = "gen_ai."
#: Events that end a request to a model: those after them without a span belong to the next one.
_LAST_EVENTS: Final = frozenset({"gen_ai.choice", "gen_ai.client.inference.operation.details"})


@dataclass(frozen=True)
class LogEvent:
    """Event of a request to a model.

    Attributes:
        trace: Identifier of the trace; empty if the record names none.
        span: Identifier of the span; empty if the record names none.
        name: Name of the event.
        fields: What it says of the message: its body, and its attributes.
        attributes: Its attributes alone.
        at: Its time.
        resource: Attributes of the program that wrote it.
    """

    trace: str
    span: str
    name: str
    fields: Body
    attributes: Body
    at: datetime | None
    resource: Body


def iterate_genai_log_events(value: Any) -> Iterator[LogEvent]:
    """Iterate over the events of the GenAI conventions in an export of log records; other records are left out."""
    for resource in iterate_dicts_of_first_list_field(value, "resourceLogs", "resource_logs"):
        for scope in iterate_dicts_of_first_list_field(
            resource, "scopeLogs", "scope_logs", "instrumentationLibraryLogs"
        ):
            for record in iterate_dicts_of_first_list_field(scope, "logRecords", "log_records"):
                attributes = read_attributes(record)
                name = str(record.get("eventName", record.get("event_name")) or attributes.get("event.name") or "")
                if not name.startswith(_EVENT_PREFIX):
                    continue
                body = decode_otlp_any_value(record.get("body"))
                time = parse_otlp_time(record.get("timeUnixNano", record.get("time_unix_nano")))
                observed = parse_otlp_time(record.get("observedTimeUnixNano", record.get("observed_time_unix_nano")))
                yield LogEvent(
                    trace=str(record.get("traceId", record.get("trace_id")) or ""),
                    span=str(record.get("spanId", record.get("span_id")) or ""),
                    name=name,
                    fields={**attributes, **body} if isinstance(body, dict) else {**attributes, "content": body},
                    attributes=attributes,
                    at=time or observed,
                    resource=read_attributes(resource.get("resource")),
                )


class LogEventsBySpan:
    """Events by the trace and the span that they name; those without a span by the request that they are part of."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], list[LogEvent]] = {}
        self._known: set[str] = set()
        self._requests = 0

    def add_new_events_of_export(self, value: Any) -> None:
        """Add the events of an export. One that is there already is left out: exports are repeated."""
        for event in iterate_genai_log_events(value):
            text = repr((event.trace, event.span, event.name, event.at, event.fields))
            if text in self._known:
                continue
            self._known.add(text)
            self.events.setdefault((event.trace, event.span or f"request-{self._requests}"), []).append(event)
            self._requests += not event.span and event.name in _LAST_EVENTS
