from typing import Any

import pytest

from harness_site.core.call_sentences import build_masked_call_sentence
from harness_site.core.iso_times_in_call_arguments import format_time_argument


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("2026-12-01T09:00", "2026-12-01 09:00"),
        ("2026-12-01T09:00:00", "2026-12-01 09:00"),
        ("2026-12-01T09:00:05.250000Z", "2026-12-01 09:00:05 UTC"),
        ("2026-12-01T09:00:00+00:00", "2026-12-01 09:00 UTC"),
        ("2026-12-01T09:00+01:00", "2026-12-01 09:00 UTC+01:00"),
        ("2026-12-01", "2026-12-01"),
        ("date -d 2026-12-01T09:00", "date -d 2026-12-01T09:00"),
        (17, 17),
        (None, None),
    ],
)
def test_time_in_iso_8601_is_shown_without_its_letters(stored: Any, shown: Any) -> None:
    assert format_time_argument(stored) == shown


def test_sentence_says_the_times_of_arguments_in_a_readable_form() -> None:
    args = {"order": 17, "pickup": "2026-12-01T09:00"}
    said = "Book a courier for order 17, pickup 2026-12-01T09:00"
    assert build_masked_call_sentence("book", said, args) == "Book a courier for order 17, pickup 2026-12-01 09:00"
    assert build_masked_call_sentence("book", "", args) == "Book: order 17, pickup 2026-12-01 09:00"
    command = {"command": "date -d 2026-12-01T09:00"}
    assert "2026-12-01T09:00" in build_masked_call_sentence("Bash", "", command)
    assert "2026-12-01T09:00:30" in build_masked_call_sentence("book", f"{said}:30", args)
