"""Fidelity of each format: messages, calls, tokens, times and costs of a hand-made sample of its documented form."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.formats.parse_message_parts import OtherPart, list_message_parts
from checkpoints.importers import ImportReport, import_transcripts
from checkpoints.importers.detect_format import FORMATS
from checkpoints.models import Checkpoint, Message, Session, ToolCall

T = "2025-03-04T10:00:{:02}.000Z"


def line(number: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": T.format(number), "type": kind, "payload": payload}


def tokens(total: int, cached: int, output: int) -> dict[str, Any]:
    counts = {"input_tokens": total, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "token_count", "info": {"total_token_usage": {**counts, "total_tokens": total + output}}}


CODEX = [
    line(0, "session_meta", {"id": "c-1", "cwd": "/srv", "cli_version": "0.40.0", "git": {"branch": "main"}}),
    line(
        1,
        "response_item",
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]},
    ),
    line(2, "turn_context", {"model": "m-1", "approval_policy": "on-request", "sandbox_policy": {"mode": "read-only"}}),
    line(3, "event_msg", {"type": "user_message", "message": "Fix it"}),
    line(
        3,
        "response_item",
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]},
    ),
    line(4, "response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}),
    line(5, "response_item", {"type": "function_call", "name": "shell", "call_id": "x", "arguments": '{"a": 1}'}),
    line(6, "event_msg", tokens(100, 60, 10)),
    line(9, "response_item", {"type": "function_call_output", "call_id": "x", "output": "done"}),
    line(10, "event_msg", tokens(100, 60, 10)),
    line(11, "event_msg", tokens(300, 200, 30)),
    line(
        12,
        "response_item",
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Fixed."}]},
    ),
]
GEMINI = {
    "sessionId": "g-1",
    "projectHash": "h",
    "startTime": T.format(0),
    "messages": [
        {"id": "1", "type": "user", "content": "Read it", "timestamp": T.format(0)},
        {
            "id": "2",
            "type": "gemini",
            "content": "Reading.",
            "timestamp": T.format(2),
            "thoughts": [{"subject": "Plan", "description": "Read the file."}],
            "model": "m-2",
            "tokens": {"input": 50, "output": 5, "cached": 20, "thoughts": 7, "tool": 0, "total": 62},
            "toolCalls": [
                {
                    "id": "r-1",
                    "name": "read_file",
                    "args": {"path": "a"},
                    "status": "success",
                    "timestamp": T.format(4),
                    "result": [{"functionResponse": {"id": "r-1", "response": {"output": "text"}}}],
                }
            ],
        },
    ],
}
PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "p-1", "timestamp": T.format(0), "cwd": "/srv"},
    {
        "type": "message",
        "id": "a",
        "parentId": None,
        "timestamp": T.format(1),
        "message": {"role": "user", "content": "Build"},
    },
    {
        "type": "message",
        "id": "b",
        "parentId": "a",
        "timestamp": T.format(2),
        "message": {
            "role": "assistant",
            "model": "m-3",
            "content": [{"type": "toolCall", "id": "t-1", "name": "bash", "arguments": {"command": "make"}}],
            "usage": {"input": 5, "output": 6, "cacheRead": 7, "cacheWrite": 8, "cost": {"total": 0.25}},
            "stopReason": "toolUse",
        },
    },
    {
        "type": "message",
        "id": "c",
        "parentId": "b",
        "timestamp": T.format(5),
        "message": {
            "role": "toolResult",
            "toolCallId": "t-1",
            "toolName": "bash",
            "isError": True,
            "content": [{"type": "text", "text": "no rule"}],
        },
    },
    {
        "type": "compaction",
        "id": "d",
        "parentId": "c",
        "timestamp": T.format(6),
        "summary": "It fails",
        "tokensBefore": 90,
    },
]
SWE = {
    "environment": "main",
    "trajectory": [{"action": "ls\n", "observation": "a.py", "response": "Look", "thought": "Look"}],
    "history": [
        {"role": "system", "content": "You are an agent.", "agent": "main"},
        {"role": "user", "content": "We solve this issue:\nISSUE:\nThe lamp is off\nIt hums.", "agent": "main"},
        {"role": "assistant", "content": "Look\n```\nls\n```", "thought": "Look", "action": "ls\n", "agent": "main"},
        {"role": "user", "content": "a.py", "agent": "main"},
    ],
    "info": {
        "exit_status": "submitted",
        "model_stats": {"instance_cost": 0.5, "tokens_sent": 70, "tokens_received": 9},
    },
}

MINI_SWE = {
    "trajectory_format": "mini-swe-agent-1",
    "info": {"model_stats": {"instance_cost": 0.25}, "config": {"model": {"model_name": "m-8"}}, "submission": ""},
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Fix the bug"},
        {
            "role": "assistant",
            "content": "THOUGHT: Look.\n\n```bash\nls -a\n```",
            "extra": {"response": {"usage": {"prompt_tokens": 70, "completion_tokens": 9}}},
        },
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"},
    ],
}


def attribute(name: str, value: Any) -> dict[str, Any]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": name, "value": {kind: str(value) if isinstance(value, int) else value}}


def span(number: int, start: int, end: int, **attributes: Any) -> dict[str, Any]:
    nanoseconds = 1_741_082_400 * 10**9
    return {
        "traceId": "t-1",
        "spanId": f"s{number}",
        "parentSpanId": "" if number == 1 else "s1",
        "name": f"span {number}",
        "startTimeUnixNano": str(nanoseconds + start * 10**9),
        "endTimeUnixNano": str(nanoseconds + end * 10**9),
        "attributes": [attribute(name.replace("__", "."), value) for name, value in attributes.items()],
    }


def export(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": list(spans)}]}]}


ASK = {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
CALL = {"role": "assistant", "parts": [{"type": "tool_call", "id": "w-1", "name": "weather", "arguments": {"c": 1}}]}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "w-1", "response": "sunny"}]}
SAY = {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}
USAGE = {"gen_ai__usage__input_tokens": 30, "gen_ai__usage__output_tokens": 4, "gen_ai__response__model": "m-4"}
GEN_AI = export(
    span(1, 0, 9, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="clerk"),
    span(
        2,
        0,
        2,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=json.dumps([ASK]),
        gen_ai__output__messages=json.dumps([CALL]),
        **USAGE,
    ),
    span(3, 3, 5, gen_ai__operation__name="execute_tool", gen_ai__tool__name="weather", gen_ai__tool__call__id="w-1"),
    span(
        4,
        6,
        8,
        gen_ai__operation__name="chat",
        gen_ai__input__messages=json.dumps([ASK, CALL, RESULT]),
        gen_ai__output__messages=json.dumps([SAY]),
        **USAGE,
    ),
)
OPEN_INFERENCE = export(
    span(
        1,
        0,
        2,
        openinference__span__kind="LLM",
        llm__model_name="m-5",
        llm__input_messages__0__message__role="user",
        llm__input_messages__0__message__content="Weather?",
        llm__output_messages__0__message__role="assistant",
        llm__output_messages__0__message__tool_calls__0__tool_call__id="w-1",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__name="weather",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments='{"c": 1}',
        llm__token_count__prompt=30,
        llm__token_count__completion=4,
        llm__token_count__prompt_details__cache_read=10,
    ),
    span(2, 2, 5, openinference__span__kind="TOOL", tool__name="weather", output__value="sunny"),
)


def observation(number: int, kind: str, start: int, end: int, **fields: Any) -> dict[str, Any]:
    times = {"startTime": T.format(start), "endTime": T.format(end)}
    return {"id": f"o{number}", "traceId": "l-1", "type": kind, "name": fields.pop("name", kind), **times, **fields}


LANGFUSE: dict[str, Any] = {
    "trace": {"id": "l-1", "name": "Weather", "timestamp": T.format(0)},
    "observations": [
        observation(3, "TOOL", 3, 5, name="weather", input='{"c": 1}', output='"sunny"'),
        observation(
            1,
            "GENERATION",
            0,
            2,
            model="m-6",
            input=json.dumps([{"role": "user", "content": "Weather?"}]),
            output=json.dumps(
                {"role": "assistant", "tool_calls": [{"id": "w-1", "function": {"name": "weather", "arguments": "{}"}}]}
            ),
            usageDetails={"input": 20, "output": 4, "total": 24},
            costDetails={"total": 0.125},
        ),
    ],
}
STREAM = [
    {"type": "system", "subtype": "init", "session_id": "st-1", "model": "m-7", "permissionMode": "plan"},
    {
        "type": "assistant",
        "session_id": "st-1",
        "message": {
            "id": "m1",
            "role": "assistant",
            "model": "m-7",
            "content": [{"type": "tool_use", "id": "q", "name": "Bash", "input": {}}],
            "usage": {"input_tokens": 3, "output_tokens": 2},
        },
    },
    {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "q", "content": "ok"}]}},
    {"type": "result", "subtype": "success", "session_id": "st-1", "total_cost_usd": 0.75},
]
WEB = {
    "loglines": [
        {"type": "user", "timestamp": T.format(1), "message": {"role": "user", "content": "yes"}},
        {"type": "assistant", "timestamp": T.format(2), "message": {"role": "assistant", "content": "Ok"}},
        {"type": "user", "timestamp": T.format(3), "message": {"role": "user", "content": "yes"}},
    ]
}

Sample = tuple[str, Any, str, list[str], dict[str, Any]]
#: Format, content, id of the session, roles of the messages, and what else is to be found.
SAMPLES: list[Sample] = [
    (
        "codex",
        CODEX,
        "c-1",
        ["system", "user", "assistant", "assistant", "tool", "assistant"],
        {"tokens": 330, "seconds": 4.0, "cache_read": 200, "title": "Fix it"},
    ),
    ("gemini-cli", GEMINI, "g-1", ["user", "assistant", "tool"], {"tokens": 62, "seconds": 2.0, "cache_read": 20}),
    (
        "pi",
        PI,
        "p-1",
        ["user", "assistant", "tool", "system"],
        {"tokens": 26, "seconds": 3.0, "cost": "0.250000", "status": "failed"},
    ),
    (
        "swe-agent",
        SWE,
        "sample",
        ["system", "user", "assistant", "tool"],
        {"tokens": 79, "seconds": 0.0, "cost": "0.500000", "times": False, "title": "The lamp is off"},
    ),
    (
        "swe-agent",
        MINI_SWE,
        "sample",
        ["system", "user", "assistant", "tool"],
        {"tokens": 79, "seconds": 0.0, "cost": "0.250000", "times": False, "title": "Fix the bug"},
    ),
    (
        "opentelemetry",
        GEN_AI,
        "t-1",
        ["user", "assistant", "tool", "assistant"],
        {"tokens": 68, "seconds": 2.0, "agent": "clerk", "result": "sunny"},
    ),
    (
        "opentelemetry",
        OPEN_INFERENCE,
        "t-1",
        ["user", "assistant", "tool"],
        {"tokens": 34, "seconds": 3.0, "cache_read": 10},
    ),
    (
        "langfuse",
        LANGFUSE,
        "l-1",
        ["user", "assistant", "tool"],
        {"tokens": 24, "seconds": 2.0, "cost": "0.125000", "title": "Weather"},
    ),
    ("claude-code", STREAM, "st-1", ["assistant", "tool"], {"tokens": 5, "cost": "0.750000", "times": False}),
    ("claude-code", WEB, "sample", ["user", "assistant", "user"], {"title": "yes"}),
]

IDS = [f"{sample[0]}-{number}" for number, sample in enumerate(SAMPLES)]


def save(path: Path, content: Any, *, lines: bool) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in content) if lines else json.dumps(content, indent=1))
    os.utime(path, (1_741_100_000, 1_741_100_000))
    return path


def read_sample(cp: SyncCheckpointer, folder: Path, content: Any) -> ImportReport:
    lines = isinstance(content, list)
    return import_transcripts(cp, save(folder / f"sample.json{'l' if lines else ''}", content, lines=lines))


@pytest.mark.parametrize(("name", "content", "session_id", "roles", "facts"), SAMPLES, ids=IDS)
def test_sample_keeps_messages_calls_tokens_times_and_costs(
    cp: SyncCheckpointer,
    tmp_path: Path,
    name: str,
    content: Any,
    session_id: str,
    roles: list[str],
    facts: dict[str, Any],
) -> None:
    report = read_sample(cp, tmp_path, content)
    assert (dict(report.formats), report.session_ids, report.skipped) == ({name: 1}, [session_id], 0)
    assert report.unknown == {}
    rows = Message.objects.order_by("created_at", "pk") if name == "pi" else Message.objects.order_by("pk")
    assert [row.role for row in rows] == roles
    session = Session.objects.get()
    has_times = facts.get("times", True)
    assert session.has_times is has_times
    assert session.created_at.year == session.updated_at.year == 2025
    cost = facts.get("cost")
    assert (session.cost_basis, str(session.budget_spent_usd)) == ("stated" if cost else "unknown", cost or "0.000000")
    assert session.total_tokens == facts.get("tokens", 0)
    newest = Checkpoint.objects.order_by("-version")[0]
    assert json.loads(newest.usage or "{}").get("cache_read_input_tokens", 0) == facts.get(
        "cache_read", 7 * (name == "pi")
    )
    for call in ToolCall.objects.all():
        assert call.status == facts.get("status", "completed")
        assert call.settled_at is not None
        assert (call.settled_at - call.issued_at).total_seconds() == facts.get("seconds", 3.0 * has_times)
    assert ToolCall.objects.count() == (0 if content is WEB else 1)
    assert session.agent == facts.get("agent", session.agent)
    assert session.title == facts.get("title", session.title)
    if "result" in facts:
        assert ToolCall.objects.get().result_text == facts["result"]
    again = read_sample(cp, tmp_path, content)
    assert (again.new_messages, again.new_calls, again.messages) == (0, 0, report.messages)


@pytest.mark.parametrize(
    ("output", "seconds"),
    [
        ('{"output":"done","metadata":{"exit_code":0,"duration_seconds":0.4}}', 0.4),
        ("Exit code: 0\nWall time: 0.4 seconds\nOutput:", 0.4),
        # Codex rounds to tenths of a second. Nothing took no time, so how long this took is unknown.
        ("Exit code: 0\nWall time: 0 seconds\nOutput:", 0.0),
        ('{"output":"done","metadata":{"exit_code":0,"duration_seconds":0.0}}', 0.0),
    ],
)
def test_stated_duration_is_used_when_call_and_result_have_the_same_time(
    cp: SyncCheckpointer, tmp_path: Path, output: str, seconds: float
) -> None:
    call = {"type": "function_call", "name": "shell", "call_id": "x", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "x", "output": output}
    read_sample(cp, tmp_path, [CODEX[0], line(2, "response_item", call), line(2, "response_item", result)])
    logged = ToolCall.objects.get()
    assert logged.exit_code == 0
    assert logged.settled_at is not None
    assert (logged.settled_at - logged.issued_at).total_seconds() == seconds


def test_edit_that_the_editor_of_swe_agent_rejected_is_a_failed_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    edit = {"role": "assistant", "content": "Edit", "thought": "Edit", "action": "edit 1:1\nx = (\nend_of_edit"}
    answer = "Your proposed edit has introduced new syntax error(s). Please read this error message.\n\nERRORS:\n- E999"
    read_sample(cp, tmp_path, {**SWE, "history": [*SWE["history"], edit, {"role": "user", "content": answer}]})
    assert list(ToolCall.objects.order_by("pk").values_list("tool", "status")) == [
        ("ls", "completed"),
        ("edit", "failed"),
    ]


def test_command_of_mini_swe_agent_is_a_call(cp: SyncCheckpointer, tmp_path: Path) -> None:
    read_sample(cp, tmp_path, MINI_SWE)
    call, answer = ToolCall.objects.get(), json.loads(Message.objects.get(role="assistant").body)
    assert (call.tool, json.loads(call.args)) == ("bash", {"command": "ls -a"})
    assert answer["blocks"][0]["text"] == "THOUGHT: Look."
    assert (answer["source"]["content"], answer["source"]["usage"]["model"]) == (
        MINI_SWE["messages"][2]["content"],  # type: ignore[index]
        "m-8",
    )


MINI_ANSWERS = {
    "no example of another language": (
        "As in:\n\n```bash\necho x\n```\n\n```mswea_bash_command\nls\n```",
        [("completed", "ls")],
    ),
    "no answer with two commands, which the program refuses": ("```bash\nls\n```\n\n```bash\nrm a.py\n```", []),
    "spaces after the language": ("```bash \nls\n```", [("completed", "ls")]),
}


@pytest.mark.parametrize("kind", MINI_ANSWERS)
def test_command_of_mini_swe_agent_is_the_one_that_the_program_runs(
    cp: SyncCheckpointer, tmp_path: Path, kind: str
) -> None:
    content, calls = MINI_ANSWERS[kind]
    answer = {"role": "assistant", "content": content}
    messages = [MINI_SWE["messages"][1], answer, {"role": "user", "content": "a.py"}]  # type: ignore[index]
    read_sample(cp, tmp_path, {**MINI_SWE, "messages": messages})
    stored = [(call.status, json.loads(call.args)["command"]) for call in ToolCall.objects.all()]
    assert stored == calls


@pytest.mark.parametrize(("submission", "messages"), [("\ndiff --git a/a.py b/a.py\r\n+new\n", 6), ("another diff", 7)])
def test_submitted_patch_is_added_unless_the_last_result_contains_it(
    cp: SyncCheckpointer, tmp_path: Path, submission: str, messages: int
) -> None:
    submit = {"role": "assistant", "content": "Done", "thought": "Done", "action": "submit\n"}
    steps = [{"action": "submit\n", "observation": "diff --git a/a.py b/a.py\n+new\n\n(Open file: a.py)"}]
    history, info = [*SWE["history"], submit], {"submission": submission}
    read_sample(cp, tmp_path, {**SWE, "trajectory": steps, "history": history, "info": info})
    assert Message.objects.count() == messages
    stored = [*Message.objects.values_list("body", flat=True), Session.objects.get().metadata]
    assert sum(json.dumps(submission) in body for body in stored) == 1


def test_facts_are_stored_where_the_documentation_says(cp: SyncCheckpointer, tmp_path: Path) -> None:
    read_sample(cp, tmp_path, CODEX)
    metadata = json.loads(Session.objects.get().metadata)
    assert metadata["models"] == ["m-1"]
    assert metadata["permission_modes"] == ["on-request, read-only"]
    assert (metadata["git_branches"], metadata["working_directories"]) == (["main"], ["/srv"])
    prompt = json.loads(Message.objects.get(position=1).body)
    assert prompt["source"]["context"]["permission_mode"] == "on-request, read-only"
    assert [note["type"] for note in prompt["source"]["before"]] == ["turn_context", "event_msg"]
    read_sample(cp, tmp_path, PI)
    usage = json.loads(Message.objects.get(message_id="b").body)["source"]["usage"]
    assert usage == {
        "model": "m-3",
        "input_tokens": 5,
        "output_tokens": 6,
        "cache_read_input_tokens": 7,
        "cache_creation_input_tokens": 8,
        "cost_usd": "0.25",
    }
    block = json.loads(Message.objects.get(message_id="d").body)["blocks"][0]
    assert block == {"kind": "compaction", "messages_before": 3, "tokens_before": 90}


def test_messages_of_extensions_and_errors_of_pi_are_kept(cp: SyncCheckpointer, tmp_path: Path) -> None:
    messages = [
        {"role": "hookMessage", "content": "An old hook"},
        {"role": "custom", "customType": "memo", "content": [{"type": "text", "text": "A memo"}], "display": True},
        {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "Overloaded"},
    ]
    entries = [
        {"type": "message", "id": f"e{number}", "parentId": "a", "timestamp": T.format(number), "message": message}
        for number, message in enumerate(messages, 2)
    ]
    read_sample(cp, tmp_path, [*PI[:2], *entries])
    rows = Message.objects.order_by("created_at")
    assert [row.role for row in rows] == ["user", "system", "system", "assistant"]
    assert list_message_parts(json.loads(rows[3].body)) == (OtherPart({"errorMessage": "Overloaded"}),)


def test_fork_of_pi_counts_only_its_own_tokens(cp: SyncCheckpointer, tmp_path: Path) -> None:
    own = {**PI[2], "id": "z", "parentId": "c", "timestamp": T.format(30)}
    header = {**PI[0], "id": "p-2", "timestamp": T.format(20), "parentSession": "/old.jsonl"}
    read_sample(cp, tmp_path, [header, *PI[1:4], own])
    session = Session.objects.get()
    assert (session.total_tokens, str(session.budget_spent_usd), session.message_count) == (26, "0.250000", 4)


ODD: list[Any] = [None, 7, "", [], {}, [[]], {"a": []}, True]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_any_value_in_any_field_is_imported_without_an_error(
    cp: SyncCheckpointer, tmp_path: Path, sample: Sample
) -> None:
    """Replace each field of the sample once; nothing is raised, and a second import adds nothing."""
    text = json.dumps(sample[1])
    fields = sorted(set(_iterate_fields(sample[1])))
    for number, field in enumerate(fields):
        content = _replace(json.loads(text), field, ODD[number % len(ODD)])
        values = content if isinstance(content, list) else [content]
        first = import_transcripts(cp, values, format=sample[0], session_id=f"s-{number}")
        again = import_transcripts(cp, values, format=sample[0], session_id=f"s-{number}")
        assert (field, again.new_messages, again.messages) == (field, 0, first.messages)


def _iterate_fields(value: Any) -> list[str]:
    if isinstance(value, list):
        return [field for item in value for field in _iterate_fields(item)]
    return (
        [*value, *(field for item in value.values() for field in _iterate_fields(item))]
        if isinstance(value, dict)
        else []
    )


def _replace(value: Any, field: str, new: Any) -> Any:
    if isinstance(value, list):
        return [_replace(item, field, new) for item in value]
    if isinstance(value, dict):
        return {name: new if name == field else _replace(item, field, new) for name, item in value.items()}
    return value


def test_every_format_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "importing.md").read_text()
    assert [name for name in FORMATS if f"\n| `{name}` | " not in page] == []
