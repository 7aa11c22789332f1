"""Spans of OpenTelemetry over OTLP/HTTP: any instrumented agent is shown as a session that was observed.

Spans come late and in any order. Each is stored as it was received, and the session is built again from all spans of
its conversation. What is in the session already stays; a span that belongs in the middle gives a new version.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError, MalformedRequest
from checkpoints.importers import import_transcripts
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.importers.imported_session_and_run import IMPORT_MARK, make_valid_session_id
from checkpoints.importers.opentelemetry import SpanIdentity, iterate_resources_and_spans, read_span_identity
from checkpoints.models import Session
from harness_site.accounts.models import ApiToken
from harness_site.api.json_request_bodies import parse_json_body
from harness_site.api.json_responses import build_json_response
from harness_site.api.models import ObservedSpan
from harness_site.api.otlp_protobuf import encode_partial_success, parse_traces
from harness_site.api.request_pipeline import AGENT, get_client_checkpointer, wrap_route_view

PROTOBUF: Final = "application/x-protobuf"
_FORMAT: Final = "opentelemetry"
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
#: Number of attempts to build a session while another process builds it.
_ATTEMPTS: Final = 5

_lock = threading.Condition()
_building: set[tuple[str, str]] = set()


@dataclass
class _Received:
    """Spans of a request: those to store, and how many cannot be."""

    spans: list[tuple[SpanIdentity, bytes]] = field(default_factory=list)
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add_to_rejected_span_counts(self, reason: str, count: int = 1) -> None:
        self.rejected += count
        self.reasons[reason] += count


def _receive_traces(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    AGENT(request)
    kind = (request.content_type or "").lower()
    content: bytes = request.content  # type: ignore[attr-defined]
    if kind not in {PROTOBUF, "application/json"}:
        raise MalformedRequest(f"its Content-Type is {kind!r}; {PROTOBUF} and application/json are understood")
    received = _collect_agent_spans_and_rejections(
        parse_traces(content) if kind == PROTOBUF else parse_json_body(content)
    )
    token: ApiToken = request.token  # type: ignore[attr-defined]
    if received.spans:
        checkpointer = get_client_checkpointer(request)
        with transaction.atomic():
            spans = _store_spans_and_count_by_session(token.workspace_id, received.spans)
        for session_id, count in spans.items():
            try:
                _rebuild_session_from_stored_spans(checkpointer, token, session_id)
            except CheckpointsError as error:
                received.add_to_rejected_span_counts(f"{type(error).__name__}: {error.detail}", count)
    return _build_export_response(kind, received)


receive_traces = wrap_route_view(_receive_traces)


def _build_export_response(kind: str, received: _Received) -> HttpResponse:
    message = "; ".join(f"{reason} ({count})" for reason, count in received.reasons.items())[:2000]
    if kind == PROTOBUF:
        return HttpResponse(encode_partial_success(received.rejected, message), content_type=PROTOBUF)
    partial = {"rejectedSpans": received.rejected, "errorMessage": message} if received.rejected else {}
    return build_json_response({"partialSuccess": partial})


def _collect_agent_spans_and_rejections(value: Any) -> _Received:
    """Read the spans that say something about an agent; the others, such as those of a web server, are left out."""
    received = _Received()
    for resource, raw in iterate_resources_and_spans(value):
        identity = read_span_identity(raw)
        if not _is_hexadecimal_id(identity.trace_id, _TRACE_DIGITS) or not _is_hexadecimal_id(
            identity.span_id, _SPAN_DIGITS
        ):
            received.add_to_rejected_span_counts("The span has no identifier.")
        elif identity.tells_of_an_agent:
            body = json.dumps({"resource": resource, "span": raw}, ensure_ascii=True).encode()
            received.spans.append((identity, zlib.compress(body, level=3)))
    return received


def _is_hexadecimal_id(text: str, digits: int) -> bool:
    return len(text) == digits and set(text) <= set("0123456789abcdef") and bool(text.strip("0"))


def _store_spans_and_count_by_session(workspace: int, spans: list[tuple[SpanIdentity, bytes]]) -> Counter[str]:
    """Store the spans. Returns their number for each session that has to be built."""
    sessions = _assign_traces_to_sessions(workspace, [identity for identity, _ in spans])
    rows = {
        (identity.trace_id, identity.span_id): ObservedSpan(
            workspace_id=workspace,
            session_id=sessions[identity.trace_id],
            trace_id=identity.trace_id,
            span_id=identity.span_id,
            body=body,
        )
        for identity, body in spans
    }
    ObservedSpan.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["workspace", "trace_id", "span_id"],
        update_fields=["body", "session_id"],
    )
    return Counter(row.session_id for row in rows.values())


def _assign_traces_to_sessions(workspace: int, identities: list[SpanIdentity]) -> dict[str, str]:
    """Find the session of each trace: that of the conversation that any of its spans names, or one of its own."""
    traces = {identity.trace_id for identity in identities}
    known = ObservedSpan.objects.filter(workspace_id=workspace, trace_id__in=traces)
    sessions = dict(known.values_list("trace_id", "session_id").distinct())
    named = {
        identity.trace_id: make_valid_session_id(identity.conversation)
        for identity in identities
        if identity.conversation
    }
    for trace, session_id in named.items():
        if sessions.get(trace, session_id) != session_id:  # it was shown under the name of its trace until now
            known.filter(trace_id=trace).update(session_id=session_id)
    return {trace: named.get(trace, sessions.get(trace, trace)) for trace in traces}


def _rebuild_session_from_stored_spans(checkpointer: SyncCheckpointer, token: ApiToken, session_id: str) -> None:
    """Build a session from all its spans. Raises what an import raises."""
    with _lock_session_build(token.workspace.slug, session_id):
        for attempt in range(_ATTEMPTS):
            try:
                traces = _import_stored_spans_and_list_trace_ids(checkpointer, token, session_id)
            except ImportOvertaken:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                _delete_observed_sessions_of_traces(checkpointer, token.workspace_id, traces - {session_id})
                return


def _import_stored_spans_and_list_trace_ids(
    checkpointer: SyncCheckpointer, token: ApiToken, session_id: str
) -> set[str]:
    """Import all spans of a session. Returns their traces."""
    rows = list(ObservedSpan.objects.filter(workspace=token.workspace, session_id=session_id).order_by("pk"))
    bodies = [json.loads(zlib.decompress(row.body)) for row in rows]
    export = [{"resource": body["resource"], "scopeSpans": [{"spans": [body["span"]]}]} for body in bodies]
    import_transcripts(
        checkpointer,
        [{"resourceSpans": export}],
        format=_FORMAT,
        session_id=session_id,
        imported_by=f"token {token.name}",
    )
    return {row.trace_id for row in rows}


def _delete_observed_sessions_of_traces(checkpointer: SyncCheckpointer, workspace: int, traces: set[str]) -> None:
    """Delete the observed sessions that were named after traces of a conversation, before its name was known."""
    for session in Session.objects.filter(workspace=workspace, session_id__in=traces):
        mark = json.loads(session.metadata or "{}").get(IMPORT_MARK)
        if isinstance(mark, dict) and mark.get("format") == _FORMAT and "path" not in mark:
            checkpointer.delete_session(session.session_id)


@contextmanager
def _lock_session_build(workspace: str, session_id: str) -> Iterator[None]:
    """Let one thread of this process build a session at a time."""
    name = (workspace, session_id)
    with _lock:
        _lock.wait_for(lambda: name not in _building)
        _building.add(name)
    try:
        yield
    finally:
        with _lock:
            _building.discard(name)
            _lock.notify_all()
