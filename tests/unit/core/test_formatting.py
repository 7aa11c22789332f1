from datetime import UTC, datetime, timedelta, timezone

import pytest

from harness_site.core import formatting, masked_formatting

NOW = datetime(2026, 11, 21, 10, 42, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "< 1 ms"),
        (0.0009, "< 1 ms"),
        (0.001, "1 ms"),
        (0.21, "210 ms"),
        (3.4, "3.4 s"),
        (3, "3.0 s"),
        (10, "10 s"),
        (9.97, "10.0 s"),
        (42, "42 s"),
        (60, "1 min"),
        (65.9, "1 min 5 s"),
        (599.9, "9 min 59 s"),
        (600, "10 min"),
        (3599, "59 min"),
        (5999, "1 h 39 min"),
        (7200, "2 h"),
        (7259, "2 h"),
        (86399, "23 h"),
        (86400, "1 day"),
        (200000, "2 days 7 h"),
        (864000, "10 days"),
    ],
)
def test_duration(seconds: float, words: str) -> None:
    assert formatting.format_duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (60, "1 min"),
        (60.1, "1 min 1 s"),
        (290, "4 min 50 s"),
        (599.5, "10 min"),
        (601, "11 min"),
        (3_599, "1 h"),
        (3_600, "1 h"),
        (5_300, "1 h 29 min"),
        (86_390, "1 day"),
        (0.2, "1 s"),
        (0, "0 s"),
    ],
)
def test_limit_of_a_duration_is_rounded_up(seconds: float, words: str) -> None:
    assert formatting.format_duration_rounded_up(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(-3, "just now"), (4, "just now"), (5, "5 s ago"), (42, "42 s ago"), (2520, "42 min ago")]
)
def test_ago(seconds: int, words: str) -> None:
    assert formatting.format_time_ago(NOW - timedelta(seconds=seconds), NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3600, "due in 1 h"),
        (6899, "due in 1 h 54 min"),
        (86_400, "due in 1 day"),
        (86_400 + 3_599, "due in 1 day"),
        (86_400 + 23.4 * 3_600, "due in 1 day 23 h"),
        (2.5 * 86_400, "due in 2 days 12 h"),
        (10.5 * 86_400, "due in 10 days"),
        (59.9, "due in 59 s"),
        (0.4, "due in 0 s"),
        (0, "overdue"),
        (-61, "overdue for 1 min"),
        (-200_000, "overdue for 2 days"),
    ],
)
def test_due(seconds: float, words: str) -> None:
    assert formatting.format_relative_deadline(NOW + timedelta(seconds=seconds), NOW) == words


def test_times_are_formatted_in_utc() -> None:
    there = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    assert formatting.format_utc_time(there) == "2026-11-21 10:00:00 UTC"
    assert formatting.format_iso_time(there) == "2026-11-21T10:00:00.123Z"


def test_json_is_formatted_completely() -> None:
    assert masked_formatting.mask_and_indent_json('{"a":[1,"\\ud800"]}') == '{\n  "a": [\n    1,\n    "\\ud800"\n  ]\n}'


def test_stored_json_string_is_shown_as_text() -> None:
    assert masked_formatting.mask_and_format_json_or_text('"two\\nlines"') == "two\nlines"
    assert masked_formatting.mask_and_format_json_or_text('{"n":1}') == '{\n  "n": 1\n}'


def test_text_that_is_not_json_is_shown_unchanged() -> None:
    assert masked_formatting.mask_and_indent_json("{half") == "{half"
    assert masked_formatting.parse_json_or_text("{half") == "{half"
