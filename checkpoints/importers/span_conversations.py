"""Conversations from the spans of a trace.

Each request to a model repeats the conversation so far in its input. So the messages of an input that have been seen
already are left out; those that are new, and the output, are added in the order of time. A span of a tool gives its
call the times at which it ran, and the result if no request has it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from checkpoints.formats import parse_message_parts
from checkpoints.formats.canonical_json import to_canonical_json
from checkpoints.importers.normalized_span import Span
from checkpoints.importers.prompt_title import is_custom_span_name
from checkpoints.importers.span_messages import build_message_fingerprint, parse_span_messages
from checkpoints.importers.tool_span_search import ToolSpanSearch
from checkpoints.importers.transcript_reader_interface_and_builder import Body, ImportContext, TranscriptBuilder

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class SpanSession:
    """Builder of one session from all spans of its trace."""

    def __init__(self, builder: TranscriptBuilder, spans: list[Span]) -> None:
        self._builder = builder
        self._seen: Counter[str] = Counter()
        self._answered: set[str] = set()
        #: Calls of a tool that may wait for a result, and the newest one.
        self._open: defaultdict[str, deque[str]] = defaultdict(deque)
        self._newest_call: dict[str, str] = {}
        self._calls: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._unnamed: set[str] = set()
        #: When the spans of tools ended, by call.
        self._ends: dict[str, datetime] = {}
        tools = (span for span in spans if span.kind == "tool")
        self._tools = sorted(tools, key=_get_start_or_epoch)
        self._tools_by_call: dict[str, Span] = {}
        for tool in self._tools:
            self._tools_by_call.setdefault(tool.call_id, tool)
        self._tool_search = ToolSpanSearch(self._tools)
        self._spans = spans
        self._parents = {span.parent for span in spans}

    def add_all_spans_and_flush(self) -> None:
        """Add the messages of all spans in the order of time."""
        models = _list_innermost_model_requests(self._spans) or [
            span for span in self._spans if not span.parent and span.kind != "tool"
        ]
        chosen = {id(span) for span in models}
        answering = _find_root_span_if_last_request_has_no_output(self._spans, models)
        events: list[tuple[datetime, int, int, Span]] = []
        for number, span in enumerate(self._spans):
            start, end = span.start or _EPOCH, span.end or span.start or _EPOCH
            if id(span) in chosen:
                events += [
                    (start, 0, number, span),
                    (min(end, self._find_start_of_first_call_in_output(span) or end), 1, number, span),
                ]
            else:
                events.append((end, 2, number, span))
        for _, step, _, span in sorted(events, key=lambda event: event[:3]):
            if step == 0:
                self._add_new_input_messages(span)
            elif step == 1:
                self._add_output_messages_and_usage(span)
            elif span.kind == "tool":
                self._add_tool_result_and_missing_call(span)
            elif span is answering:
                self._add_output_of_answering_root_span(span)
            else:
                self._builder.add_note(self._convert_other_span_to_note(span))
        self._builder.flush()

    def _convert_other_span_to_note(self, span: Span) -> Body:
        """Return what is kept of a span that is neither a request nor a tool; others repeat what those in them say."""
        texts = {} if span.id in self._parents else {"input": span.inputs, "output": span.outputs}
        return {**_span_to_dict(span), **{name: value for name, value in texts.items() if value not in (None, "")}}

    def _add_new_input_messages(self, span: Span) -> None:
        self._builder.set_context(model=span.model)
        here: Counter[str] = Counter()
        system = [{**message, "role": "system"} for message in parse_span_messages(span.system, "system")]
        for body in [*system, *parse_span_messages(span.inputs, "user")]:
            text = build_message_fingerprint(body)
            here[text] += 1
            if here[text] > self._seen[text]:
                self._add_message_if_new(body, text, span.start)

    def _add_message_if_new(self, body: Body, text: str, at: datetime | None, usage: Body | None = None) -> None:
        named = self._assign_missing_call_ids(body)
        if not self._are_calls_or_results_known(named):
            self._add_message_and_note_its_calls(named, text, at, usage)

    def _add_output_messages_and_usage(self, span: Span) -> None:
        usage = self._builder.add_usage(span.model, span.tokens, span.cost)
        bodies = parse_span_messages(span.outputs, "assistant")
        at = self._find_end_of_output(span)
        for number, body in enumerate(bodies, 1):
            is_last = number == len(bodies)
            source = {"source": {"span": _span_to_dict(span)}} if is_last else {}
            self._add_message_if_new(
                {**body, **source}, build_message_fingerprint(body), at, usage if is_last else None
            )
        if not bodies:
            self._builder.add_note({**_span_to_dict(span), "usage": usage})

    def _add_output_of_answering_root_span(self, span: Span) -> None:
        """Add the output of a span that is no request; its tokens are those of the requests in it."""
        source = {"source": {"span": _span_to_dict(span)}}
        bodies = parse_span_messages(span.outputs, "assistant")
        for number, body in enumerate(bodies, 1):
            text = build_message_fingerprint(body)
            if not self._seen[text]:
                self._add_message_if_new({**body, **(source if number == len(bodies) else {})}, text, span.end)

    def _find_end_of_output(self, span: Span) -> datetime | None:
        """Find when the messages of an output were complete: a span that runs its own tools ends after them, but the
        message that asks for a call is there when the call starts."""
        first_call = self._find_start_of_first_call_in_output(span)
        return min(span.end, first_call) if span.end is not None and first_call is not None else span.end

    def _find_start_of_first_call_in_output(self, span: Span) -> datetime | None:
        """Find when the first of the calls in an output ran: a span may end after the tools that it streamed."""
        blocks = [block for body in parse_span_messages(span.outputs, "assistant") for block in body.get("blocks", ())]
        calls = [block for block in blocks if isinstance(block, dict) and block.get("kind") == "tool_call"]
        if not calls:
            return None
        return self._tool_search.find_start_of_first_call(
            {call["id"] for call in calls}, {call["name"] for call in calls}, _get_start_or_epoch(span)
        )

    def _add_message_and_note_its_calls(
        self, body: Body, text: str, at: datetime | None, usage: Body | None = None
    ) -> None:
        self._seen[text] += 1
        times = {}
        for block in body.get("blocks", ()):
            if isinstance(block, dict) and block.get("kind") == "tool_call":
                self._open[block["name"]].append(block["id"])
                self._newest_call[block["name"]] = block["id"]
                self._calls.add(block["id"])
                if (tool := self._find_tool_span(block)) is not None and tool.start is not None:
                    times[block["id"]] = tool.start
                    tool.call_id, tool.matched = block["id"], True
                    self._tools_by_call.setdefault(tool.call_id, tool)
            elif isinstance(block, dict) and block.get("kind") == "tool_result":
                self._answered.add(block["call_id"])
                if block["call_id"] in self._ends:
                    times[block["call_id"]] = self._ends[block["call_id"]]
        self._builder.add_message(body, at=at, usage=usage, times=times, identity=text)

    def _assign_missing_call_ids(self, body: Body) -> Body:
        """Give calls and results without an id one of their tool and number."""
        blocks = body.get("blocks")
        if not isinstance(blocks, list):
            return body
        return {
            **body,
            "blocks": [self._assign_missing_call_id(block) if isinstance(block, dict) else block for block in blocks],
        }

    def _assign_missing_call_id(self, block: Body) -> Body:
        if block.get("kind") == "tool_call" and not block.get("id"):
            self._numbers[block["name"]] += 1
            call_id = f"{block['name']}-{self._numbers[block['name']]}"
            self._unnamed.add(call_id)
            return {**block, "id": call_id}
        if block.get("kind") == "tool_result" and not block.get("call_id"):
            name = str(block.get("name"))
            waiting = self._open[name]
            while waiting and waiting[0] in self._answered:
                waiting.popleft()
            return {**block, "call_id": waiting[0] if waiting else self._newest_call.get(name, f"{name}-result")}
        return block

    def _are_calls_or_results_known(self, body: Body) -> bool:
        """Return whether all calls, or all results, of a message are there already."""
        blocks = [block for block in body.get("blocks", ()) if isinstance(block, dict)]
        results = [block["call_id"] for block in blocks if block.get("kind") == "tool_result"]
        calls = [block["id"] for block in blocks if block.get("kind") == "tool_call"]
        if results and len(results) == len(blocks):
            return set(results) <= self._answered
        return bool(calls) and self._calls.issuperset(calls)

    def _find_tool_span(self, block: Body) -> Span | None:
        """Find the span in which a call ran: the one with its id, else one with its arguments, else the next of its
        tool."""
        if block["id"] in self._tools_by_call:
            return self._tools_by_call[block["id"]]
        return self._tool_search.find_unmatched_tool_span(
            block["name"],
            parse_message_parts.parse_arguments(block.get("args")),
            may_have_id=block["id"] in self._unnamed,
        )

    def _add_tool_result_and_missing_call(self, span: Span) -> None:
        """Add the result of a tool; a call that no request has is added before it."""
        if not span.call_id or span.call_id not in self._calls:
            call_id = span.call_id or span.id
            call = {"kind": "tool_call", "id": call_id, "name": span.tool or span.name, "args": span.inputs}
            span.call_id = call_id
            self._tools_by_call.setdefault(call_id, span)
            self._add_message_and_note_its_calls({"role": "assistant", "blocks": [call]}, call_id, span.start)
        if span.end is not None:
            self._ends[span.call_id] = span.end
        if span.call_id in self._answered or span.outputs in (None, "", [], {}):  # a request may have the result
            self._builder.add_note(_span_to_dict(span))
            return
        block = {
            "kind": "tool_result",
            "call_id": span.call_id,
            "content": _convert_tool_output_to_content(span.outputs),
        }
        body = {"role": "tool", "blocks": [{**block, "is_error": True} if span.failed else block]}
        self._add_message_and_note_its_calls(
            {**body, "source": {"span": _span_to_dict(span)}}, build_message_fingerprint(body), span.end
        )


def import_span_sessions(
    context: ImportContext, spans: list[Span], *, titles: Mapping[str, str], facts: Mapping[str, Body]
) -> None:
    """Build a session from the spans of each trace. A file of one trace is named after the trace too."""
    traces: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        traces[span.trace].append(span)
    for trace, members in traces.items():
        session_id = (
            context.choose_session_id(trace)
            if len(traces) == 1 or not context.session_id
            else context.choose_session_id("", trace)
        )
        agent = next((span.agent for span in members if span.agent), "")
        builder = context.open_builder(session_id, agent=agent)
        if title := titles.get(trace):
            builder.note_title_candidate(title, "given" if is_custom_span_name(title) else "operation")
        for span in members:
            if not span.parent and span.kind != "tool":
                builder.note_title_candidate(span.name, "span" if is_custom_span_name(span.name) else "operation")
        builder.facts |= facts.get(trace, {})
        SpanSession(builder, members).add_all_spans_and_flush()


def _list_innermost_model_requests(spans: list[Span]) -> list[Span]:
    """List the spans of requests that contain no other request: instrumentations wrap one in another."""
    parents = {span.id: span.parent for span in spans}
    outer: set[str] = set()
    for span in spans:
        parent = span.parent if span.kind == "model" else ""
        while parent and parent not in outer:
            outer.add(parent)
            parent = parents.get(parent, "")
    return [span for span in spans if span.kind == "model" and span.id not in outer]


def _find_root_span_if_last_request_has_no_output(spans: list[Span], models: list[Span]) -> Span | None:
    """Find the outermost span with an output, if the last request to a model states none; None otherwise."""
    ids, requests = {span.id for span in spans}, {id(span) for span in models}
    last = max(models, key=_get_start_or_epoch, default=None)
    if last is None or parse_span_messages(last.outputs, "assistant"):
        return None
    answers = (span for span in spans if span.kind != "tool" and id(span) not in requests and span.outputs)
    roots = [span for span in answers if span.parent not in ids]
    return max(roots, key=lambda span: span.end or _EPOCH, default=None)


def _get_start_or_epoch(span: Span) -> datetime:
    return span.start or _EPOCH


def _span_to_dict(span: Span) -> Body:
    times = {name: value.isoformat() for name, value in (("start", span.start), ("end", span.end)) if value}
    return {"id": span.id, "parent": span.parent, "name": span.name, "kind": span.kind, **times, **span.rest}


def _convert_tool_output_to_content(value: Any) -> Any:
    if value is None or isinstance(value, str | list):
        return value
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str | list) else to_canonical_json(value)
