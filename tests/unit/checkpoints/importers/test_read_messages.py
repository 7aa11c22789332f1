"""Reading transcript files line by line, with reports of damaged lines."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from checkpoints import constants
from checkpoints.importers import find_and_read_transcript_files
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.imported_message_and_usage import UsageTotals, parse_iso_or_unix_time_or_none


def read(path: Path, *, live: bool = False) -> find_and_read_transcript_files.FileReader:
    return find_and_read_transcript_files.FileReader(
        find_and_read_transcript_files.build_source_file_from_stat(path, path.stem), ImportReport(), live=live
    )


def test_objects_are_read_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"b": 2}')
    reading = read(path)
    assert [(line.number, line.value) for line in reading.iterate_values()] == [
        (1, {"a": 1}),
        (4, {"b": 2}),
    ]
    assert (reading.report.lines, reading.report.damaged) == (2, [])


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": "\\ud83d\\ud83d"}\n', None),
        (b'{"a": 1', "it ends before it is complete"),
        (b'"text"\n', "it is not a JSON object"),
        (b"\xff\n", "it is not UTF-8"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}\n", "it is nested more than 200 levels deep"),
        (b'{"a": 1e999}\n', "the number 1e999 is too large"),
        (b"[" * 100_000 + b"\n", "it is nested more than 200 levels deep"),
    ],
)
def test_damaged_line_is_reported_with_its_reason(tmp_path: Path, raw: bytes, why: str | None) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + raw)
    reading = read(path)
    found = list(reading.iterate_values())
    if why is None:
        assert [line.number for line in found] == [1, 2]
        return
    assert [line.number for line in found] == [1]
    (damaged,) = reading.report.damaged
    assert damaged.line == 2
    assert damaged.why.startswith(why)


def test_too_long_line_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "%s"}\n{"b": 1}\n' % ("x" * 5000))
    monkeypatch.setattr(find_and_read_transcript_files, "MAX_VALUE_BYTES", 100)
    reading = read(path)
    assert [line.value for line in reading.iterate_values()] == [{"b": 1}]
    assert [(damaged.line, damaged.why) for damaged in reading.report.damaged] == [(1, "it is too long")]
    assert constants.MAX_VALUE_BYTES > 100


def test_incomplete_last_line_of_a_live_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"b"')
    reading = read(path, live=True)
    assert [line.value for line in reading.iterate_values()] == [{"a": 1}]
    with path.open("a") as file:
        file.write(': 2}\n{"c": 3}')
    reading.file.size = path.stat().st_size
    assert [(line.number, line.value) for line in reading.iterate_values()] == [(2, {"b": 2}), (3, {"c": 3})]
    assert reading.report.damaged == []


def test_timestamps_as_text_and_numbers() -> None:
    then = datetime(2025, 3, 4, 10, 0, tzinfo=UTC)
    for told in ("2025-03-04T10:00:00Z", "2025-03-04T12:00:00+02:00", "2025-03-04T10:00:00", then.timestamp()):
        assert parse_iso_or_unix_time_or_none(told) == then
    odd: object
    for odd in ("yesterday", None, True, -1, 1e30, float("nan"), {}):
        assert parse_iso_or_unix_time_or_none(odd) is None


def test_tokens_are_summed_by_model_unless_only_the_sum_is_given() -> None:
    totals = UsageTotals()
    assert totals.build_stored_usage_or_none() is None
    totals.add_usage("", {"total_tokens": 9})
    assert totals.build_stored_usage_or_none() == {"total_tokens": 9}
    totals.add_usage("a", {"input_tokens": 3, "reasoning_output_tokens": 2})
    totals.add_usage("b", {"input_tokens": 1, "output_tokens": 4})
    usage = totals.build_stored_usage_or_none()
    assert usage is not None
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (4, 4, 8)
    assert usage["by_model"]["b"] == {"input_tokens": 1, "output_tokens": 4}
    totals.add_usage("b", {"input_tokens": 1}, Decimal("0.25"))
    usage = totals.build_stored_usage_or_none()
    assert usage is not None
    assert usage["by_model"]["b"] == {"input_tokens": 2, "output_tokens": 4, "cost_usd": "0.25"}


def test_number_and_length_of_model_names_in_a_usage_are_limited() -> None:
    totals = UsageTotals()
    for number in range(150):
        totals.add_usage(f"{number:03}" + "x" * 5000, {"input_tokens": 1})
    usage = totals.build_stored_usage_or_none()
    assert usage is not None
    assert usage["total_tokens"] == 150
    assert len(usage["by_model"]) == 100
    assert {len(model) for model in usage["by_model"]} == {255}
