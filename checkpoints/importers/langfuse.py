"""Exports of Langfuse: a trace with its observations, or observations alone, with the names of its API or those of its
export to a storage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from checkpoints.formats.canonical_json import parse_json
from checkpoints.importers.imported_message_and_usage import (
    parse_iso_or_unix_time_or_none,
    parse_token_count_or_zero,
    parse_usd_cost_or_none,
)
from checkpoints.importers.normalized_span import Span
from checkpoints.importers.span_attributes import ATTRIBUTES
from checkpoints.importers.span_conversations import import_span_sessions
from checkpoints.importers.transcript_reader_interface_and_builder import Body, ImportContext, TranscriptFormat

_MODEL_TYPES: Final = frozenset({"GENERATION"})
#: Names of the cached part of the input, by whether it was read or written.
_CACHE_READ: Final = ("cache_read_input_tokens", "input_cache_read", "input_cached_tokens", "prompt_details.cache_read")
_CACHE_WRITE: Final = ("cache_creation_input_tokens", "input_cache_creation", "prompt_details.cache_write")
#: Input of a later request in traces of LangSmith: the names of the two fields of a message, without the message.
_NAMES_OF_MESSAGE_FIELDS: Final = {"content": "role"}
_LEFT_OUT: Final = frozenset(
    {"input", "output", "id", "traceId", "parentObservationId", "startTime", "endTime", "name"}
)
#: Names of fields in the files of a storage, and those of the API.
_STORAGE_NAMES: Final = {
    "trace_id": "traceId",
    "parent_observation_id": "parentObservationId",
    "start_time": "startTime",
    "end_time": "endTime",
    "provided_model_name": "model",
    "usage_details": "usageDetails",
    "cost_details": "costDetails",
    "total_cost": "totalCost",
    "trace_name": "traceName",
    "session_id": "sessionId",
    "user_id": "userId",
}
#: Facts of the trace that an observation repeats.
_REPEATED_FACTS: Final = ("sessionId", "userId", "tags", "release")
_TRACE_FACTS: Final = ("sessionId", "userId", "tags", "release", "version", "environment", "scores", "metadata")


class LangfuseReader:
    """Reader of one export; a session is built of each trace at the end."""

    def __init__(self, context: ImportContext) -> None:
        self._context = context
        self._spans: dict[str, Span] = {}
        self._titles: dict[str, str] = {}
        self._facts: dict[str, Body] = {}

    def add_value(self, number: int, value: Any) -> None:
        """Read a trace with its observations, or one observation."""
        if not isinstance(value, dict):
            return
        trace = value.get("trace", value if "observations" in value else {})
        if isinstance(trace, dict) and isinstance(trace.get("id"), str):
            self._add_trace(trace)
        observations = value.get("observations", value.get("data", [value]))
        for observation in observations if isinstance(observations, list) else ():
            if isinstance(observation, dict) and isinstance(observation.get("id"), str):
                self._add_observation(_rename_storage_fields(observation))

    def _add_observation(self, observation: Body) -> None:
        span = self._spans[observation["id"]] = _convert_observation_to_span(observation)
        if isinstance(name := observation.get("traceName"), str):
            self._titles.setdefault(span.trace, name)
        if facts := {name: observation[name] for name in _REPEATED_FACTS if observation.get(name)}:
            self._facts.setdefault(span.trace, {"trace": facts})

    def _add_trace(self, trace: Body) -> None:
        name = trace.get("name")
        self._titles[trace["id"]] = name if isinstance(name, str) else ""
        self._facts[trace["id"]] = {"trace": {name: trace[name] for name in _TRACE_FACTS if trace.get(name)}}
        if trace.get("input") is not None or trace.get("output") is not None:
            root = {**trace, "traceId": trace["id"], "startTime": trace.get("timestamp"), "type": "TRACE"}
            self._spans.setdefault(trace["id"], _convert_observation_to_span(root))

    def flush(self) -> None:
        """Write everything read so far. Observations that follow belong to the same traces, so these are kept."""
        spans = [replace(span) for span in self._spans.values()]
        for span in spans:  # the trace itself counts only if nothing else has messages
            if span.id == span.trace and any(other.kind or other.inputs for other in spans if other is not span):
                span.parent = span.id
        if spans:
            import_span_sessions(self._context, spans, titles=self._titles, facts=self._facts)


def _rename_storage_fields(observation: Body) -> Body:
    """Give the fields of an observation the names of the API."""
    if "trace_id" not in observation:
        return observation
    return {_STORAGE_NAMES.get(name, name): value for name, value in observation.items()}


def _convert_observation_to_span(observation: Body) -> Span:
    kind = str(observation.get("type", "")).upper()
    metadata = _parse_json_if_text(observation.get("metadata"))
    attributes = metadata.get("attributes") if isinstance(metadata, dict) else None
    attributes = attributes if isinstance(attributes, dict) else {}
    costs = observation.get("costDetails")
    cost = costs.get("total") if isinstance(costs, dict) else None
    model = observation.get("model")
    inputs = _parse_json_if_text(observation.get("input"))
    has_only_names = inputs == _NAMES_OF_MESSAGE_FIELDS
    rest = {name: value for name, value in observation.items() if name not in _LEFT_OUT}
    return Span(
        id=observation["id"],
        parent=str(observation.get("parentObservationId") or ""),
        trace=str(observation.get("traceId") or observation["id"]),
        name=str(observation.get("name") or ""),
        kind="tool" if kind == "TOOL" else "model" if kind in _MODEL_TYPES else "",
        start=parse_iso_or_unix_time_or_none(observation.get("startTime")),
        end=parse_iso_or_unix_time_or_none(observation.get("endTime")),
        inputs=None if has_only_names else inputs,
        outputs=_parse_json_if_text(observation.get("output")),
        model=model if isinstance(model, str) else "",
        tokens=_read_token_counts_without_cached_input(observation.get("usageDetails", observation.get("usage"))),
        cost=parse_usd_cost_or_none(cost if cost is not None else observation.get("totalCost")) or None,
        call_id=str(next((attributes[name] for name in ATTRIBUTES["call_id"] if name in attributes), "")),
        tool=str(next((attributes[name] for name in ATTRIBUTES["tool"] if name in attributes), "")),
        failed=observation.get("level") == "ERROR",
        rest=rest | ({"input": inputs} if has_only_names else {}),
    )


def _parse_json_if_text(value: Any) -> Any:
    """Parse text of JSON; exports write inputs, outputs and metadata as text."""
    if not isinstance(value, str) or value[:1] not in {"{", "[", '"'}:
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _read_token_counts_without_cached_input(usage: Any) -> dict[str, int]:
    """Read the counts. If the total is that of input and output, the input includes what came from the cache."""
    if not isinstance(usage, dict):
        return {}
    counts = {name: parse_token_count_or_zero(usage.get(name)) for name in ("input", "output", "total")}
    read, written = (
        next((found for name in names if (found := parse_token_count_or_zero(usage.get(name)))), 0)
        for names in (_CACHE_READ, _CACHE_WRITE)
    )
    is_included = counts["total"] == counts["input"] + counts["output"] and read + written <= counts["input"]
    return {
        "input_tokens": counts["input"] - (read + written if is_included else 0),
        "output_tokens": counts["output"],
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        **({} if counts["input"] or counts["output"] else {"total_tokens": counts["total"]}),
    }


def _score_format_match(value: Any) -> int:
    if not isinstance(value, dict):
        return 0
    if isinstance(value.get("observations"), list):
        return 3 * ("trace" in value or "id" in value)
    if isinstance(page := value.get("data"), list) and "meta" in value:
        return 3 * (bool(page) and all(_is_observation(entry) for entry in page))
    return 3 * _is_observation(value)


def _is_observation(value: Any) -> bool:
    if not isinstance(value, dict) or {"spanId", "span_id"} & value.keys():
        return False
    return {"traceId", "startTime", "type"} <= value.keys() or {"trace_id", "start_time", "project_id"} <= value.keys()


LANGFUSE: Final = TranscriptFormat("langfuse", "", _score_format_match, LangfuseReader)
