"""Days and times of filters in the time zone that a link names."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.http import QueryDict
from django.utils import timezone

from harness_site.core.time_range_parameters import TimeRange


@pytest.mark.parametrize(
    ("query", "since", "until", "zone"),
    [
        (
            "first=2026-11-25&last=2026-11-25&zone=Europe/Berlin",
            "2026-11-24T23:00",
            "2026-11-25T23:00",
            "Europe/Berlin",
        ),
        (
            "first=2026-03-29&last=2026-03-29&zone=Europe/Berlin",
            "2026-03-28T23:00",
            "2026-03-29T22:00",
            "Europe/Berlin",
        ),
        ("first=2026-11-25T14:00&zone=Asia/Kolkata", "2026-11-25T08:30", None, "Asia/Kolkata"),
        ("first=2026-11-25&last=2026-11-25", "2026-11-25T00:00", "2026-11-26T00:00", "UTC"),
        ("last=2026-11-25&zone=Europe/Atlantis", None, "2026-11-26T00:00", "UTC"),
        ("last=2026-11-25&zone=../../etc/passwd", None, "2026-11-26T00:00", "UTC"),
        ("last=2026-11-25&zone=Europe", None, "2026-11-26T00:00", "UTC"),
        ("zone=Asia/Kolkata", None, None, "America/New_York"),
    ],
)
def test_link_means_the_same_days_for_every_reader(query: str, since: str | None, until: str | None, zone: str) -> None:
    with timezone.override(ZoneInfo("America/New_York")):
        times = TimeRange.parse_query(QueryDict(query))
        assert times.is_in_reader_zone == (zone == "America/New_York")
    bounds = [text and datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (since, until)]
    assert [times.since, times.until, times.zone] == [*bounds, zone]
    asked = QueryDict(query)
    assert [times.first, times.last] == [asked.get("first", ""), asked.get("last", "")]
