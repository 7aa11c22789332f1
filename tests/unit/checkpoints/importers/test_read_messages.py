"""Reading lines: damage is reported, and only a line is in memory."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from checkpoints import conf
from checkpoints.importers import json_lines
from checkpoints.importers.imported_message import UsageTotals, parse_time


def test_objects_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"b": 2}')
    reading = json_lines.open_import_files([path], None)
    assert [(line.number, line.value) for line in json_lines.iterate_json_objects(path, reading)] == [
        (1, {"a": 1}),
        (4, {"b": 2}),
    ]
    assert (reading.report.lines, reading.report.damaged) == (2, [])


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b'{"a": "\\ud83d\\ud83d"}\n', None),
        (b'{"a": 1', "it ends before it is complete"),
        (b'"text"\n', "it is a str, not an object"),
        (b"\xff\n", "it is not UTF-8"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}\n", "it is nested more than 200 levels deep"),
        (b'{"a": 1e999}\n', "the number 1e999 is too large"),
        (b"[" * 100_000 + b"\n", "it is nested more than 200 levels deep"),
    ],
)
def test_damage_is_reported_with_its_reason(tmp_path: Path, raw: bytes, why: str | None) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + raw)
    reading = json_lines.open_import_files([path], None)
    found = list(json_lines.iterate_json_objects(path, reading))
    if why is None:
        assert [line.number for line in found] == [1, 2]
        return
    assert [line.number for line in found] == [1]
    (damaged,) = reading.report.damaged
    assert damaged.line == 2
    assert damaged.why.startswith(why)


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "%s"}\n{"b": 1}\n' % ("x" * 5000))
    monkeypatch.setattr(json_lines, "MAX_VALUE_BYTES", 100)
    reading = json_lines.open_import_files([path], None)
    assert [line.value for line in json_lines.iterate_json_objects(path, reading)] == [{"b": 1}]
    assert [(damaged.line, damaged.why) for damaged in reading.report.damaged] == [(1, "it is too long")]
    assert conf.MAX_VALUE_BYTES > 100


def test_what_is_written_while_reading_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    reading = json_lines.open_import_files([path], None)
    found = json_lines.iterate_json_objects(path, reading)
    next(found)
    with path.open("a") as file:
        file.write('{"c": 3}\n')
    assert [line.value for line in found] == [{"b": 2}]


def test_times_of_both_kinds() -> None:
    then = datetime(2025, 3, 4, 10, 0, tzinfo=UTC)
    for told in ("2025-03-04T10:00:00Z", "2025-03-04T12:00:00+02:00", "2025-03-04T10:00:00", then.timestamp()):
        assert parse_time(told) == then
    odd: object
    for odd in ("yesterday", None, True, -1, 1e30, float("nan"), {}):
        assert parse_time(odd) is None


def test_tokens_are_summed_unless_the_sum_is_given() -> None:
    totals = UsageTotals()
    assert totals.usage() is None
    totals.tokens.update({"input_tokens": 3, "output_tokens": 4})
    assert totals.usage() == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
    totals.tokens["total_tokens"] = 9
    assert totals.usage() == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 9}
