"""Spans over OTLP/HTTP, in JSON and in protobuf: late, unordered, repeated, foreign."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import MalformedRequest
from checkpoints.models import Checkpoint, Session, ToolCall, Workspace
from harness_site.accounts.models import TokenRole
from harness_site.api import in_process_rate_limit
from harness_site.api.models import ObservedSpan
from harness_site.api.otlp_protobuf import encode_partial_success, parse_traces
from tests.support.api_client import make_token
from tests.support.factories import make_workspace

#: Export that opentelemetry-proto 1.45.2 wrote, with each kind of value, and fields that are not read.
EXPORT = base64.b64decode(
    "CuYCChoKFgoMc2VydmljZS5uYW1lEgYKBGRlc2sQAxK8AgoGCgFzEgExEq4CChABAgMEBQYHCAkKCwwNDg8QEggAAQIDBAUGBxoD"
    "YT1iIggCAwQFBgcICSoHY2hhdCDDvDADOXvAT1e0oXoYQXuK6pK0oXoYSgsKAXQSBgoEdGV4dEoHCgFlEgIKAEoHCgFiEgIQAUoH"
    "CgFmEgIQAEoQCgFpEgsY+///////////AUoRCgNiaWcSChiAgICAgICAgEBKDgoBZBIJIQAAAAAAANA/SgoKAmJ5EgQ6AgD/ShUK"
    "BGxpc3QSDSoLCgUKA29uZQoCGAJKHgoDbWFwEhcyFQoTCgJpbhINKgsKCSEAAAAAAAD4P0oGCgRub25lUAFaFwkHAAAAAAAAABIC"
    "ZXYaCAoBeBIDCgF5ahIKEDExMTExMTExMTExMTExMTF6BxIDYmFkGAKFAQEBAAAaAXkaCWh0dHBzOi8veA=="
)
PARTIAL_SUCCESS = base64.b64decode("CgsIrAISBnRvbyDDvA==")
TRACE = "5b8efff798038103d269b633813fc60c"
PROTOBUF = "application/x-protobuf"


@pytest.fixture(autouse=True)
def clear_caches() -> Iterator[None]:
    yield
    in_process_rate_limit.clear_request_counts()


@pytest.fixture
def token(workspace: Workspace) -> str:
    return make_token(TokenRole.AGENT)


def send(token: str, body: bytes, kind: str = "application/json", **headers: str) -> Any:
    client = Client(headers={"Authorization": f"Bearer {token}", **headers})
    return client.post("/v1/traces", body, content_type=kind)


def build_span(number: int, name: str, start: int, end: int, trace: str = TRACE, parent: int = 1, **more: Any) -> Any:
    """Build a span; `start` and `end` are seconds, `more` are its attributes with two underscores for a point."""
    attributes = [
        {
            "key": key.replace("__", "."),
            "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)},
        }
        for key, value in more.items()
    ]
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        **({"parentSpanId": f"{parent:016x}"} if number != 1 else {}),
        "name": name,
        "startTimeUnixNano": str((1_763_900_000 + start) * 10**9),
        "endTimeUnixNano": str((1_763_900_000 + end) * 10**9),
        "attributes": attributes,
    }


def export(*spans: Any) -> bytes:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "unknown_service:python"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


def say(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


ASKED = say("user", {"type": "text", "content": "Where is it?"})
CALLED = say("assistant", {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"order": 17}})
LOOKED = say("tool", {"type": "tool_call_response", "id": "c1", "response": "in the post"})
ANSWERED = say("assistant", {"type": "text", "content": "In the post."})
ROOT = build_span(
    1,
    "invoke_agent",
    0,
    9,
    gen_ai__operation__name="invoke_agent",
    gen_ai__agent__name="desk",
    gen_ai__conversation__id="chat-1",
)
FIRST = build_span(
    2, "chat", 1, 2, gen_ai__operation__name="chat", gen_ai__input__messages=[ASKED], gen_ai__output__messages=[CALLED]
)
TOOL = build_span(
    3,
    "execute_tool",
    3,
    4,
    gen_ai__operation__name="execute_tool",
    gen_ai__tool__name="look",
    gen_ai__tool__call__id="c1",
    gen_ai__tool__call__result="in the post",
)
SECOND = build_span(
    4,
    "chat",
    5,
    6,
    gen_ai__operation__name="chat",
    gen_ai__input__messages=[ASKED, CALLED, LOOKED],
    gen_ai__output__messages=[ANSWERED],
)
HTTP = build_span(5, "GET /", 0, 9, http__route="/")


def list_transcript(session_id: str) -> list[str]:
    """List the roles of the messages, each with its text, its call or its result."""
    with SyncCheckpointer() as cp:
        transcript = (cp.load_latest(session_id) or {})["transcript"]
    return [
        f"{message['role']} {block.get('text') or block.get('name') or block.get('content')}"
        for message in transcript
        for block in message["blocks"]
    ]


WHOLE = ["user Where is it?", "assistant look", "tool in the post", "assistant In the post."]


def test_session_is_independent_of_the_order_of_spans(token: str) -> None:
    orders = list(permutations([ROOT, FIRST, TOOL, SECOND]))[::5]
    for number, order in enumerate(orders):
        trace = f"{number + 1:032x}"
        conversation = {"key": "gen_ai.conversation.id", "value": {"stringValue": f"chat-{number}"}}
        for span in order:
            mine = {**span, "traceId": trace}
            if span is ROOT:
                mine["attributes"] = [*ROOT["attributes"][:2], conversation]
            response = send(token, export(mine, HTTP))
            assert (response.status_code, response.json()) == (200, {"partialSuccess": {}})
        assert list_transcript(f"chat-{number}") == WHOLE, [span["name"] for span in order]
    sessions = Session.objects.all()  # none is left that has the name of a trace
    assert sorted(session.session_id for session in sessions) == sorted(f"chat-{n}" for n in range(len(orders)))
    assert {(session.status, session.labels) for session in sessions} == {("completed", '["opentelemetry"]')}


def test_observed_session_is_never_gated_and_repeated_spans_change_nothing(token: str) -> None:
    send(token, export(ROOT, FIRST))  # the call has no result yet
    with SyncCheckpointer() as cp:
        assert cp.pending_decisions() == []
    send(token, export(TOOL, SECOND))
    versions = Checkpoint.objects.count()
    send(token, export(SECOND, ROOT, TOOL, FIRST))
    assert (Checkpoint.objects.count(), ObservedSpan.objects.count()) == (versions, 4)
    assert (Session.objects.get().agent, list_transcript("chat-1")) == ("desk", WHOLE)
    assert set(ToolCall.objects.values_list("status", flat=True)) == {"completed"}
    with SyncCheckpointer() as cp:
        cp.delete_session("chat-1")
    assert ObservedSpan.objects.count() == 0  # no text of it is left


def test_session_of_an_agent_is_not_changed_by_spans(token: str) -> None:
    with SyncCheckpointer() as cp:
        cp.start_session("chat-1", "mine")
    answer = send(token, export(ROOT, FIRST)).json()["partialSuccess"]
    assert answer["rejectedSpans"] == 2
    assert "was not imported" in answer["errorMessage"]
    with SyncCheckpointer() as cp:
        cp.start_session(TRACE, "mine, and named like a trace")
    other = [{**span, "attributes": [*span["attributes"][:2]]} for span in (ROOT, FIRST)]
    other[0]["attributes"].append({"key": "session.id", "value": {"stringValue": "chat-2"}})
    assert send(token, export(*other)).json() == {"partialSuccess": {}}
    assert Session.objects.filter(session_id__in=[TRACE, "chat-2"]).count() == 2
    foreign = make_token(TokenRole.AGENT, name="x", workspace=make_workspace(slug="elsewhere"))
    assert send(foreign, export(ROOT, FIRST)).json() == {"partialSuccess": {}}
    assert Session.objects.filter(session_id="chat-1").count() == 2


def test_export_in_protobuf(token: str) -> None:
    (resource,) = parse_traces(EXPORT)["resourceSpans"]
    ((span,),) = [scope["spans"] for scope in resource["scopeSpans"]]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "desk"}}]
    assert span == {
        "traceId": "0102030405060708090a0b0c0d0e0f10",
        "spanId": "0001020304050607",
        "parentSpanId": "0203040506070809",
        "name": "chat ü",
        "kind": 3,
        "startTimeUnixNano": 1763900000000000123,
        "endTimeUnixNano": 1763900001000000123,
        "attributes": [
            {"key": "t", "value": {"stringValue": "text"}},
            {"key": "e", "value": {"stringValue": ""}},
            {"key": "b", "value": {"boolValue": True}},
            {"key": "f", "value": {"boolValue": False}},
            {"key": "i", "value": {"intValue": -5}},
            {"key": "big", "value": {"intValue": 2**62}},
            {"key": "d", "value": {"doubleValue": 0.25}},
            {"key": "by", "value": {"bytesValue": "00ff"}},
            {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "one"}, {"intValue": 2}]}}},
            {
                "key": "map",
                "value": {
                    "kvlistValue": {
                        "values": [{"key": "in", "value": {"arrayValue": {"values": [{"doubleValue": 1.5}]}}}]
                    }
                },
            },
            {"key": "none"},
        ],
        "events": [{"timeUnixNano": 7, "name": "ev", "attributes": [{"key": "x", "value": {"stringValue": "y"}}]}],
        "status": {"message": "bad", "code": 2},
    }
    assert (encode_partial_success(300, "too ü"), encode_partial_success(0, "")) == (PARTIAL_SUCCESS, b"")
    response = send(token, gzip.compress(EXPORT), PROTOBUF, **{"Content-Encoding": "gzip"})
    assert (response.status_code, response.content, response["Content-Type"]) == (200, b"", PROTOBUF)
    for end in range(1, len(EXPORT)):  # cut off anywhere: read or refused
        try:
            parse_traces(EXPORT[:end])
        except MalformedRequest:
            continue
    nested = b""
    for _ in range(300):  # an array in an array
        inner = b"\x0a" + _measure(nested) + nested
        nested = b"\x2a" + _measure(inner) + inner
    with pytest.raises(MalformedRequest):
        parse_traces(_wrap(_wrap(_wrap(_wrap(_wrap(nested, 2), 9), 2), 2), 1))


def _measure(data: bytes) -> bytes:
    return bytes([len(data) & 0x7F | 0x80, len(data) >> 7]) if len(data) > 127 else bytes([len(data)])


def _wrap(data: bytes, field: int) -> bytes:
    return bytes([field << 3 | 2]) + _measure(data) + data


@pytest.mark.parametrize(
    ("body", "kind", "status", "answer"),
    [
        (b"\xff\xff", PROTOBUF, 400, "MalformedRequest"),
        (b"[1]", "application/json", 400, "MalformedRequest"),
        (b"{}", "text/plain", 400, "MalformedRequest"),
        (b"{}", "application/json", 200, None),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00"}]}]}]}', "application/json", 200, 1),
    ],
)
def test_bad_export(token: str, body: bytes, kind: str, status: int, answer: Any) -> None:
    response = send(token, body, kind)
    assert response.status_code == status
    if isinstance(answer, str):
        assert response.json()["type"] == answer
    elif answer:
        assert response.json()["partialSuccess"]["rejectedSpans"] == answer
    assert Session.objects.count() == 0


def test_tokens_without_permission_are_refused(workspace: Workspace) -> None:
    auditor = make_token(TokenRole.AUDITOR)
    assert send(auditor, export(ROOT, FIRST)).status_code == 403
    assert send("nonsense", export(ROOT, FIRST)).status_code == 401
    assert Client(headers={"Authorization": f"Bearer {auditor}"}).get("/v1/traces").status_code == 405
    assert ObservedSpan.objects.count() == 0
