"""Spans whose kind only their attributes tell, exports of other programs, and files of spans that grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.formats.parse_message_parts import TextPart, list_message_parts
from checkpoints.importers import import_transcripts
from checkpoints.importers.import_errors import NothingToImport
from checkpoints.importers.normalized_span import Span
from checkpoints.importers.span_messages import parse_span_messages
from checkpoints.importers.watch_folder import FolderWatch
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from tests.integration.checkpoints.importers.test_formats import (
    ASK,
    CALL,
    LANGFUSE,
    RESULT,
    SAY,
    USAGE,
    attribute,
    export,
    span,
)

Attributes = dict[str, Any]
FLATTENED = {
    "gen_ai__prompt__0__role": "user",
    "gen_ai__prompt__0__content": "Weather?",
    "gen_ai__completion__0__role": "assistant",
    "gen_ai__completion__0__content": "Sunny.",
    "llm__request__model": "m-9",
    "llm__usage__prompt_tokens": 30,
    "llm__usage__completion_tokens": 4,
}


def read_transcript(cp: SyncCheckpointer, session_id: str = "t-1") -> list[dict[str, Any]]:
    newest = cp.load_latest(session_id)
    assert newest is not None
    return list(newest["transcript"])


@pytest.mark.parametrize("kind", [{"llm__request__type": "chat"}, {}])
def test_request_inside_a_workflow_is_found_by_its_attributes(
    cp: SyncCheckpointer, tmp_path: Path, kind: dict[str, Any]
) -> None:
    path = tmp_path / "spans.json"
    workflow = span(1, 0, 9, traceloop__span__kind="workflow")
    path.write_text(json.dumps(export(workflow, span(2, 1, 3, **FLATTENED, **kind))))
    import_transcripts(cp, path)
    assert [body["role"] for body in read_transcript(cp)] == ["user", "assistant"]
    assert Session.objects.get().total_tokens == 34
    assert list(json.loads(Checkpoint.objects.get().usage or "{}")["by_model"]) == ["m-9"]


def test_tools_offered_to_the_model_are_one_message_that_no_tool_has_written() -> None:
    tools = [
        {"role": "tool", "content": {"type": "function", "function": {"name": name, "description": ""}}}
        for name in ("search", "refund_card")
    ]
    messages = parse_span_messages({"messages": [{"role": "user", "content": "Hello"}, *tools]}, "user")
    assert [(body["role"], len(body["blocks"])) for body in messages] == [("user", 1), ("system", 2)]


def test_answer_of_tempo_is_an_export(cp: SyncCheckpointer, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"batches": export(span(1, 0, 2, **FLATTENED))["resourceSpans"]}))
    assert dict(import_transcripts(cp, path).formats) == {"opentelemetry": 1}
    assert len(read_transcript(cp)) == 2


def test_file_of_spans_that_grows_continues_its_session(cp: SyncCheckpointer, tmp_path: Path) -> None:
    chat = {"gen_ai__operation__name": "chat", **USAGE}
    first = span(
        2, 0, 2, gen_ai__input__messages=json.dumps([ASK]), gen_ai__output__messages=json.dumps([CALL]), **chat
    )
    tool = span(3, 3, 5, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather")
    history = json.dumps([ASK, CALL, RESULT])
    second = span(4, 6, 8, gen_ai__input__messages=history, gen_ai__output__messages=json.dumps([SAY]), **chat)
    path = tmp_path / "spans.jsonl"
    path.write_text("")
    watch = FolderWatch(cp, tmp_path)
    watch.import_existing()
    for each in (first, tool, second):
        with path.open("a") as file:
            file.write(f"{json.dumps(export(each))}\n")
        assert watch.import_changes() == 1
    assert [body["role"] for body in read_transcript(cp)] == ["user", "assistant", "tool", "assistant"]
    assert (watch.report.refused, Session.objects.get().total_tokens) == ([], 68)
    assert ToolCall.objects.get().status == "completed"
    assert import_transcripts(cp, path).new_messages == 0


def test_another_export_of_the_same_trace_adds_nothing(cp: SyncCheckpointer, tmp_path: Path) -> None:
    for number, export_of_trace in enumerate((LANGFUSE, {**LANGFUSE, "observations": list_observations_with_scores()})):
        path = tmp_path / f"export-{number}.json"
        path.write_text(json.dumps(export_of_trace))
        import_transcripts(cp, path)
    assert (Session.objects.get().message_count, Message.objects.count(), ToolCall.objects.count()) == (3, 3, 1)


def list_observations_with_scores() -> list[dict[str, Any]]:
    return [{**each, "updatedAt": "2026-01-01T00:00:00Z", "scores": [1]} for each in LANGFUSE["observations"]]


STORED: list[dict[str, Any]] = [
    {
        "id": "g-1",
        "trace_id": "l-7",
        "project_id": "p",
        "type": "GENERATION",
        "parent_observation_id": "r-1",
        "start_time": "2025-03-04 10:00:00.500000",
        "end_time": "2025-03-04 10:00:02.000000",
        "trace_name": "Refund",
        "session_id": "c-9",
        "provided_model_name": "m-6",
        "input": json.dumps([{"role": "user", "content": "Weather?"}]),
        "output": json.dumps({"role": "assistant", "content": "Sunny."}),
        "usage_details": {"input": 20, "output": 4, "total": 24},
        "cost_details": {"input": 0.1, "output": 0.025, "total": 0.125},
        "total_cost": 0.125,
    },
    {
        "id": "r-1",
        "trace_id": "l-7",
        "project_id": "p",
        "type": "SPAN",
        "parent_observation_id": "",
        "start_time": "2025-03-04 10:00:00.000000",
        "end_time": None,
        "input": "",
        "output": "",
    },
]


@pytest.mark.parametrize("is_page", [False, True])
def test_observations_that_langfuse_writes_to_a_storage_are_read(
    cp: SyncCheckpointer, tmp_path: Path, is_page: bool
) -> None:
    path = tmp_path / ("page.json" if is_page else "observations.jsonl")
    path.write_text(json.dumps({"data": STORED, "meta": {}}) if is_page else "\n".join(map(json.dumps, STORED)))
    report = import_transcripts(cp, path)
    assert (dict(report.formats), report.session_ids, report.unknown) == ({"langfuse": 1}, ["l-7"], {})
    session = Session.objects.get()
    assert (session.title, session.total_tokens, str(session.budget_spent_usd)) == ("Refund", 24, "0.125000")
    assert json.loads(session.metadata)["trace"] == {"sessionId": "c-9"}
    newest = cp.load_latest("l-7")
    assert newest is not None
    assert [(body["role"], body["created_at"][11:21]) for body in newest["transcript"]] == [
        ("user", "10:00:00.5"),
        ("assistant", "10:00:02+0"),
    ]


def test_input_with_only_the_names_of_the_fields_of_a_message_is_no_message(
    cp: SyncCheckpointer, tmp_path: Path
) -> None:
    later = STORED[0] | {
        "id": "g-2",
        "start_time": "2025-03-04 10:00:03.000000",
        "end_time": "2025-03-04 10:00:04.000000",
        "input": '{"content":"role"}',
        "output": json.dumps({"role": "assistant", "content": "Take a hat."}),
    }
    path = tmp_path / "observations.jsonl"
    path.write_text("\n".join(map(json.dumps, [*STORED, later])))
    import_transcripts(cp, path)
    transcript = read_transcript(cp, "l-7")
    assert [body["blocks"][0]["text"] for body in transcript] == ["Weather?", "Sunny.", "Take a hat."]
    assert transcript[-1]["source"]["span"]["input"] == {"content": "role"}


@pytest.mark.parametrize(
    "output", ["Sunny.", {"role": "assistant", "text": "Sunny."}, {"role": "assistant", "content": "Sunny."}]
)
def test_answer_that_only_the_outermost_span_has_ends_the_transcript(
    cp: SyncCheckpointer, tmp_path: Path, output: Any
) -> None:
    request = {**STORED[0], "output": ""}
    root = {**STORED[1], "end_time": "2025-03-04 10:00:03.000000", "output": output}
    path = tmp_path / "observations.jsonl"
    path.write_text("\n".join(map(json.dumps, [root, request])))
    import_transcripts(cp, path)
    newest = cp.load_latest("l-7")
    assert newest is not None
    question, answer = newest["transcript"]
    assert (question["role"], answer["role"], answer["blocks"]) == (
        "user",
        "assistant",
        [{"kind": "text", "text": "Sunny."}],
    )
    assert (Session.objects.get().total_tokens, answer["source"]["span"]["id"]) == (24, "r-1")
    assert import_transcripts(cp, path).new_messages == 0


def test_result_of_a_later_tool_is_not_the_answer_of_the_outermost_span(cp: SyncCheckpointer, tmp_path: Path) -> None:
    request = {**STORED[0], "output": ""}
    root = {**STORED[1], "end_time": "2025-03-04 10:00:03.000000", "output": "Sunny."}
    tool = {**STORED[1], "id": "t-1", "type": "TOOL", "name": "log", "end_time": "2025-03-04 10:00:04", "output": "ok"}
    path = tmp_path / "observations.jsonl"
    path.write_text("\n".join(map(json.dumps, [root, request, tool])))
    import_transcripts(cp, path)
    transcript = read_transcript(cp, "l-7")
    assert [body["role"] for body in transcript] == ["user", "assistant", "assistant", "tool"]
    assert transcript[1]["blocks"] == [{"kind": "text", "text": "Sunny."}]


def test_spans_of_a_long_trace_are_not_compared_with_each_other(
    cp: SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[object] = []
    monkeypatch.setattr(Span, "__eq__", lambda one, _: compared.append(one))
    requests = [{**STORED[0], "id": f"g-{number}", "output": ""} for number in range(50)]
    roots = [{**STORED[1], "id": f"r-{number}", "output": "Sunny."} for number in range(50)]
    path = tmp_path / "observations.jsonl"
    path.write_text("\n".join(map(json.dumps, [*requests, *roots])))
    import_transcripts(cp, path)
    assert [body["role"] for body in read_transcript(cp, "l-7")[:2]] == ["assistant", "user"]
    assert compared == []


def test_tools_of_calls_without_ids_are_found_without_reading_all_spans(
    cp: SyncCheckpointer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def is_matched(tool: Span) -> bool:
        read.append(tool)
        return bool(vars(tool).get("_matched"))

    monkeypatch.setattr(Span, "matched", property(is_matched, lambda tool, value: vars(tool).update(_matched=value)))
    count, spans = 40, []
    for number in range(count):
        calls = [{"type": "tool_call", "name": "weather", "arguments": {"day": number}}]
        answer = json.dumps([{"role": "assistant", "parts": calls}])
        start = 4 * number
        spans += [
            span(2 * number, start, start + 1, gen_ai__operation__name="chat", gen_ai__output__messages=answer),
            span(
                2 * number + 1,
                start + 2,
                start + 3,
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name="weather",
                gen_ai__tool__call__arguments=json.dumps({"day": number}),
                gen_ai__tool__call__result=f"sunny {number}",
            ),
        ]
    import_request(cp, tmp_path, *spans)
    assert sorted(ToolCall.objects.values_list("args", "result")) == sorted(
        (f'{{"day":{number}}}', f'"sunny {number}"') for number in range(count)
    )
    assert len(read) <= 4 * count


LOGGED_CALL = {"id": "w-1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
LOGGED_EVENTS: list[tuple[str, Any, Attributes]] = [
    ("gen_ai.user.message", {"content": "Weather?"}, {}),
    ("gen_ai.assistant.message", {"tool_calls": [LOGGED_CALL]}, {}),
    ("gen_ai.tool.message", {"id": "w-1", "content": "sunny"}, {}),
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Sunny."}}, {}),
]
LOGGED_DETAILS: list[tuple[str, Any, Attributes]] = [
    (
        "gen_ai.client.inference.operation.details",
        None,
        {
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
                {"role": "assistant", "parts": [{"type": "tool_call", "id": "w-1", "name": "weather"}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "w-1", "response": "sunny"}]},
            ],
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}],
        },
    )
]


def build_otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        entries = [{"key": key, "value": build_otlp_value(inner)} for key, inner in value.items()]
        return {"kvlistValue": {"values": entries}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [build_otlp_value(inner) for inner in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def build_log_export(events: list[tuple[str, Any, Attributes]], place: dict[str, str], *, is_named: bool) -> Any:
    records = []
    for number, (name, body, fields) in enumerate(events):
        attributes = {"gen_ai.request.model": "m-9", **fields, **({} if is_named else {"event.name": name})}
        records.append(
            {
                **place,
                **({"eventName": name} if is_named else {}),
                "timeUnixNano": str((1_700_000_000 + number) * 10**9),
                "attributes": [{"key": key, "value": build_otlp_value(value)} for key, value in attributes.items()],
                **({} if body is None else {"body": build_otlp_value(body)}),
            }
        )
    other = {"body": {"stringValue": "started"}, "timeUnixNano": "1"}
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": [other, *records]}]}]}


@pytest.mark.parametrize("is_span_known", [False, True])
@pytest.mark.parametrize("events", [LOGGED_EVENTS, LOGGED_DETAILS], ids=["messages", "details"])
def test_messages_in_log_records_are_those_of_their_span(
    cp: SyncCheckpointer, tmp_path: Path, events: list[tuple[str, Any, Attributes]], is_span_known: bool
) -> None:
    request = span(1, 0, 2, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=7)
    place = {"traceId": request["traceId"], "spanId": request["spanId"]}
    logs = build_log_export(events, place, is_named=is_span_known)
    exports = [logs, logs, *([export(request)] if is_span_known else [])]
    path = tmp_path / "telemetry.jsonl"
    path.write_text("\n".join(map(json.dumps, exports)))
    assert import_transcripts(cp, path).formats == {"opentelemetry": 1}
    assert [body["role"] for body in read_transcript(cp)] == ["user", "assistant", "tool", "assistant"]
    assert (ToolCall.objects.get().result_text, Session.objects.get().total_tokens) == ("sunny", 7 * is_span_known)


def test_requests_in_log_records_without_spans_follow_each_other(cp: SyncCheckpointer, tmp_path: Path) -> None:
    said = ("Weather?", "=Sunny.", "Weather?", "And now?", "=Rain.")
    events: list[tuple[str, Any, Attributes]] = [
        ("gen_ai.choice", {"message": {"content": text[1:]}}, {})
        if text.startswith("=")
        else ("gen_ai.user.message", {"content": text}, {})
        for text in said
    ]
    (tmp_path / "logs.json").write_text(json.dumps(build_log_export(events, {}, is_named=True)))
    import_transcripts(cp, tmp_path)
    shown = [list_shown(body)[0][1] for body in read_transcript(cp, "logs")]
    assert shown == ["Weather?", "Sunny.", "And now?", "Rain."]


def test_log_records_of_other_programs_are_no_transcript(cp: SyncCheckpointer, tmp_path: Path) -> None:
    (tmp_path / "logs.json").write_text(json.dumps(build_log_export([], {}, is_named=True)))
    with pytest.raises(NothingToImport):
        import_transcripts(cp, tmp_path)


@pytest.mark.parametrize("calls", [5, "6", "true", '{"toolName": "weather", "args": {}}', "cut off ["])
def test_calls_of_an_answer_that_are_no_list_are_kept(cp: SyncCheckpointer, tmp_path: Path, calls: Any) -> None:
    (answer,) = import_request(cp, tmp_path, span(1, 0, 2, ai__response__toolCalls=calls, ai__model__id="m-5"))
    assert answer["role"] == "assistant"
    assert "weather" in str(answer["blocks"]) if "weather" in str(calls) else len(answer["blocks"]) == 1


@pytest.mark.parametrize("place", ["²", "9" * 5000], ids=["superscript", "long"])
def test_attribute_whose_place_in_a_list_is_no_number_refuses_no_file(
    cp: SyncCheckpointer, tmp_path: Path, place: str
) -> None:
    request = span(1, 0, 2, **FLATTENED)
    request["attributes"].append(attribute(f"gen_ai.prompt.{place}.content", "Odd."))
    request["attributes"].append(attribute(f"gen_ai.completion.0.parts.{place}", "Odd."))
    assert [body["role"] for body in import_request(cp, tmp_path, request)] == ["user", "assistant"]


def import_request(cp: SyncCheckpointer, folder: Path, *spans: dict[str, Any]) -> list[dict[str, Any]]:
    path = folder / "spans.json"
    path.write_text(json.dumps(export(*spans)))
    report = import_transcripts(cp, path)
    assert (report.unknown, report.skipped, report.refused) == ({}, 0, [])
    return read_transcript(cp)


def list_shown(body: dict[str, Any]) -> list[Any]:
    """List what the pages show of a message: kinds of its parts, and their text, address or tool."""
    parts = list_message_parts({name: value for name, value in body.items() if name != "source"})
    names = ("text", "url", "name", "parts", "value")
    return [(part.kind, next(getattr(part, name) for name in names if hasattr(part, name))) for part in parts]


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "text", "content": "Hi"}, ("text", "Hi")),
        ({"type": "reasoning", "content": "Hm."}, ("reasoning", "Hm.")),
        (
            {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AA"},
            ("image", "data:image/png;base64,AA"),
        ),
        (
            {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "AA"},
            ("audio", "data:audio/wav;base64,AA"),
        ),
        ({"type": "uri", "modality": "image", "uri": "https://a.example/b"}, ("image", "https://a.example/b")),
        ({"type": "file_data", "modality": "audio", "uri": "https://a.example/b"}, ("audio", "https://a.example/b")),
        ({"type": "file", "modality": "image", "file_id": "f"}, ("other", ANY)),
        ({"type": "blob", "modality": "video", "content": "AA"}, ("other", ANY)),
        ({"type": "server_tool_call", "id": "c", "name": "code", "server_tool_call": {"x": 1}}, ("call", "code")),
        (
            {"type": "server_tool_call_response", "id": "c", "server_tool_call_response": "x"},
            ("result", (TextPart("x"),)),
        ),
        ({"kind": "tool_call", "name": "code", "arguments": {"x": 1}}, ("call", "code")),
        ({"type": "hologram"}, ("other", {"type": "hologram"})),
    ],
)
def test_each_part_of_the_gen_ai_conventions_is_shown(
    cp: SyncCheckpointer, tmp_path: Path, part: dict[str, Any], shown: Any
) -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Look:"}, part]}]
    chat = {"gen_ai__operation__name": "chat", "gen_ai__input__messages": json.dumps(messages)}
    assert list_shown(import_request(cp, tmp_path, span(1, 0, 2, **chat))[0]) == [("text", "Look:"), shown]


CONTENTS = "llm__input_messages__0__message__contents__0__message_content__"


@pytest.mark.parametrize(
    ("attributes", "shown"),
    [
        ({CONTENTS + "type": "image", CONTENTS + "image__image__url": "https://a.example/b"}, [("image", ANY)]),
        (
            {
                CONTENTS + "type": "audio",
                CONTENTS + "audio__audio__url": "https://a.example/b",
                CONTENTS + "audio__audio__transcript": "Hi",
            },
            [("audio", "https://a.example/b")],
        ),
        (
            {
                "llm__output_messages__0__message__role": "assistant",
                "llm__output_messages__0__message__function_call_name": "weather",
                "llm__output_messages__0__message__function_call_arguments_json": '{"c": 1}',
            },
            [("call", "weather")],
        ),
        ({"llm__prompts__0__prompt__text": "Hi"}, [("text", "Hi")]),
        ({"llm__choices__0__completion__text": "Hi"}, [("text", "Hi")]),
        ({"output__value": '[{"type": "text", "text": "Hi"}]'}, [("text", "Hi")]),
        (
            {
                "gen_ai__completion__0__role": "assistant",
                "gen_ai__completion__0__content": "Hi",
                "gen_ai__completion__0__reasoning": "Hm.",
            },
            [("reasoning", "Hm."), ("text", "Hi")],
        ),
        (
            {
                "ai__response__text": "Hi",
                "ai__response__reasoning": "Hm.",
                "ai__response__toolCalls": '[{"toolCallId": "w-1", "toolName": "weather", "input": "{}"}]',
            },
            [("reasoning", "Hm."), ("text", "Hi"), ("call", "weather")],
        ),
        ({"ai__response__object": '{"c": 1}'}, [("other", {"c": 1})]),
    ],
)
def test_each_attribute_with_content_is_shown(
    cp: SyncCheckpointer, tmp_path: Path, attributes: Attributes, shown: list[Any]
) -> None:
    messages = import_request(cp, tmp_path, span(1, 0, 2, openinference__span__kind="LLM", **attributes))
    assert [part for body in messages for part in list_shown(body)] == shown
    assert {body["role"] for body in messages} <= {"user", "assistant"}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"ai__usage__promptTokens": 30, "ai__usage__completionTokens": 4}, (34, 0)),
        (
            {"ai__usage__inputTokens": 30, "ai__usage__outputTokens": 4, "ai__usage__cachedInputTokens": 10},
            (34, 10),
        ),
        ({"llm__token_count__total": 34}, (34, 0)),
        ({"llm__token_count__total": 99, "llm__token_count__prompt": 30, "llm__token_count__completion": 4}, (34, 0)),
        ({"gen_ai__usage__input_tokens": "9" * 5000, "gen_ai__usage__output_tokens": 4}, (4, 0)),
    ],
)
def test_tokens_are_counted_by_each_name(
    cp: SyncCheckpointer, tmp_path: Path, counts: Attributes, expected: tuple[int, int]
) -> None:
    chat = {"gen_ai__operation__name": "chat", "gen_ai__prompt__0__role": "user", "gen_ai__prompt__0__content": "Hi"}
    import_request(cp, tmp_path, span(1, 0, 2, **chat, llm__response__model_name="m-9", **counts))
    usage = json.loads(Checkpoint.objects.get().usage or "{}")
    assert (usage["total_tokens"], usage.get("cache_read_input_tokens", 0)) == expected
    assert list(usage["by_model"]) == ["m-9"]


def test_messages_in_events_are_read(cp: SyncCheckpointer, tmp_path: Path) -> None:
    calls = [{"id": "w-1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]
    events: list[tuple[str, Attributes]] = [
        ("gen_ai.user.message", {"content": "Weather?"}),
        ("gen_ai.assistant.message", {"tool_calls": json.dumps(calls)}),
        ("gen_ai.tool.message", {"id": "w-1", "content": "sunny"}),
        ("gen_ai.choice", {"message": json.dumps({"role": "assistant", "content": "Sunny."})}),
    ]
    request = {
        **span(1, 0, 2, gen_ai__operation__name="chat"),
        "events": [
            {"name": name, "attributes": [attribute(key, value) for key, value in fields.items()]}
            for name, fields in events
        ],
    }
    assert [body["role"] for body in import_request(cp, tmp_path, request)] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert ToolCall.objects.get().status == "completed"


def test_system_instructions_in_an_event_are_read(cp: SyncCheckpointer, tmp_path: Path) -> None:
    instructions = attribute("gen_ai.system_instructions", json.dumps([{"type": "text", "content": "Be kind."}]))
    event = {"name": "gen_ai.client.inference.operation.details", "attributes": [instructions]}
    request = {**span(1, 0, 2, gen_ai__operation__name="chat", **FLATTENED), "events": [event]}
    assert list_shown(import_request(cp, tmp_path, request)[0]) == [("text", "Be kind.")]


def test_input_and_output_of_other_spans_are_kept_once(cp: SyncCheckpointer, tmp_path: Path) -> None:
    request = span(2, 0, 3, gen_ai__operation__name="chat", **FLATTENED)
    search = span(3, 0, 1, openinference__span__kind="RETRIEVER", input__value="order 17", output__value="a shelf")
    chain = span(1, 0, 4, openinference__span__kind="CHAIN", input__value="Weather?", output__value="Sunny.")
    stored = json.dumps([import_request(cp, tmp_path, chain, request, search), Session.objects.get().metadata])
    assert [stored.count(text) for text in ("order 17", "a shelf", "Weather?", "Sunny.")] == [1, 1, 1, 1]


def test_trace_of_a_tool_alone_is_its_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    attributes = {"gen_ai__tool__call__arguments": '{"c": 1}', "gen_ai__tool__call__result": "sunny"}
    tool = span(1, 0, 2, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather", **attributes)
    assert [body["role"] for body in import_request(cp, tmp_path, tool)] == ["assistant", "tool"]
    call = ToolCall.objects.get()
    assert (call.tool, call.args, call.result_text) == ("weather", '{"c":1}', "sunny")


@pytest.mark.parametrize(
    ("name", "prompt", "title"),
    [
        ("LangGraph", "Is order 17 late? Tell me.", "Is order 17 late?"),
        ("Refund desk", "Is order 17 late? Tell me.", "Refund desk"),
        ("LangGraph", "You are a helpful clerk. Be brief.", "You are a helpful clerk."),
        ("LangGraph", "<context>\nOrder 17\n</context>", "LangGraph"),
    ],
)
def test_title_of_a_trace_is_its_name_if_somebody_chose_that(
    cp: SyncCheckpointer, tmp_path: Path, name: str, prompt: str, title: str
) -> None:
    model = {
        **LANGFUSE["observations"][1],
        "input": json.dumps([{"role": "user", "content": prompt}]),
        "output": "Done.",
    }
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"trace": {"id": "l-1", "name": name}, "observations": [model]}))
    import_transcripts(cp, path)
    assert Session.objects.get().title == title


@pytest.mark.parametrize(
    ("prompt", "title"),
    [("Is order 17 late? Tell me.", "Is order 17 late?"), ("You are a helpful clerk. Be brief.", "Answer a letter")],
)
def test_name_of_the_outermost_span_is_the_title_without_a_prompt_of_a_person(
    cp: SyncCheckpointer, tmp_path: Path, prompt: str, title: str
) -> None:
    request = {**span(2, 2, 3, gen_ai__operation__name="chat", gen_ai__prompt=prompt), "parentSpanId": "s1"}
    root = {**span(1, 1, 4), "name": "Answer a letter"}
    (tmp_path / "spans.json").write_text(json.dumps(export(root, request)))
    import_transcripts(cp, tmp_path)
    assert Session.objects.get().title == title


def test_first_answer_is_the_title_if_there_is_no_prompt_and_only_the_name_of_an_operation(
    cp: SyncCheckpointer, tmp_path: Path
) -> None:
    answer = json.dumps([{"role": "assistant", "content": "Order 17 is late. It arrives on Monday."}])
    request = {**span(1, 1, 4, gen_ai__operation__name="chat", gen_ai__output__messages=answer), "name": "chat"}
    (tmp_path / "spans.json").write_text(json.dumps(export(request)))
    import_transcripts(cp, tmp_path)
    assert Session.objects.get().title == "Order 17 is late."


def test_message_is_complete_when_the_first_of_its_calls_starts_although_its_span_ends_later(
    cp: SyncCheckpointer, tmp_path: Path
) -> None:
    path = tmp_path / "spans.json"
    request = span(
        2,
        0,
        9,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=json.dumps([ASK]),
        gen_ai__output__messages=json.dumps([CALL]),
        **USAGE,
    )
    tool = span(
        3, 3, 5, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather", gen_ai__tool__call__id="w-1"
    )
    path.write_text(json.dumps(export(span(1, 0, 9, gen_ai__operation__name="invoke_agent"), request, tool)))
    import_transcripts(cp, path)
    call, asking = ToolCall.objects.get(), Message.objects.get(role="assistant")
    assert asking.created_at == call.issued_at
