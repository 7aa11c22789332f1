"""Spans whose kind only their attributes tell, exports of other programs, and files of spans that grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.importers.watch_folder import FolderWatch
from checkpoints.models import Checkpoint, Message, Session, ToolCall
from tests.integration.checkpoints.importers.test_formats import ASK, CALL, LANGFUSE, RESULT, SAY, USAGE, export, span

FLATTENED = {
    "gen_ai__prompt__0__role": "user",
    "gen_ai__prompt__0__content": "Weather?",
    "gen_ai__completion__0__role": "assistant",
    "gen_ai__completion__0__content": "Sunny.",
    "llm__request__model": "m-9",
    "llm__usage__prompt_tokens": 30,
    "llm__usage__completion_tokens": 4,
}


def read_transcript(cp: SyncCheckpointer) -> list[dict[str, Any]]:
    newest = cp.load_latest("t-1")
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
