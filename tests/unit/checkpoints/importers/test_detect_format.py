"""Detection of the format of a file by its first values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from checkpoints.importers.claude_code.transcript_reader import CLAUDE_CODE
from checkpoints.importers.codex import CODEX
from checkpoints.importers.detect_format import find_only_certain_format_or_none
from checkpoints.importers.find_and_read_transcript_files import (
    FEW_SAMPLE_VALUES,
    build_source_file_from_stat,
    read_first_values_and_detect_json_lines,
)

PROMPT = {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "Hi"}}
ITEM = {"timestamp": datetime(2025, 3, 4, tzinfo=UTC).isoformat(), "type": "response_item", "payload": {"type": "x"}}
VAGUE = {"type": "unknown", "uuid": "u2"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([PROMPT] * 4, CLAUDE_CODE),
        ([ITEM] * 4, CODEX),
        ([PROMPT, PROMPT, PROMPT, VAGUE], None),
        ([PROMPT, PROMPT, ITEM, ITEM], None),
        ([], None),
    ],
)
def test_format_is_certain_if_each_value_certainly_has_it(values: Sequence[Any], expected: object) -> None:
    assert find_only_certain_format_or_none(values) is expected


def test_sample_has_the_values_of_the_first_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f"{json.dumps({'number': number})}\n" for number in range(50)))
    file = build_source_file_from_stat(path, "lines")
    assert [value["number"] for value in read_first_values_and_detect_json_lines(file, FEW_SAMPLE_VALUES)] == list(
        range(FEW_SAMPLE_VALUES + 1)
    )


def test_document_is_parsed_once_for_both_samples(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"number": number} for number in range(50)], indent=1))
    file = build_source_file_from_stat(path, "list")
    first = read_first_values_and_detect_json_lines(file, FEW_SAMPLE_VALUES)
    path.unlink()
    assert read_first_values_and_detect_json_lines(file) == first
    assert not file.is_lines
