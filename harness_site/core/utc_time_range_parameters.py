"""Ranges of days or times in query parameters, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.http import QueryDict

from harness_site.core.datetime_parameters import parse_utc_datetime_or_none

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Range from `since` up to, but not including, `until`; None is unbounded.

    `first` and `last` are the parameters in their normal form: a day such as 2026-11-25, or a time such as
    2026-11-25T14:00. The range includes a last day, and ends at a last time. Invalid parameters are empty.
    """

    since: datetime | None = None
    until: datetime | None = None
    first: str = ""
    last: str = ""

    @classmethod
    def parse_query(cls, query: QueryDict) -> TimeRange:
        """Parse the parameters `first` and `last`."""
        since, first = _parse_range_bound(query.get("first", ""), timedelta())
        until, last = _parse_range_bound(query.get("last", ""), _DAY)
        return cls(since, until, first, last)

    def __bool__(self) -> bool:
        return bool(self.since or self.until)

    def contains_moment(self, moment: datetime) -> bool:
        return (self.since is None or self.since <= moment) and (self.until is None or moment < self.until)

    @property
    def has_time_of_day_in_first(self) -> bool:
        return "T" in self.first

    @property
    def has_time_of_day_in_last(self) -> bool:
        return "T" in self.last


def format_time_parameter(moment: datetime) -> str:
    """Format a moment as a value of `first` or `last`, which is also that of an input of the type `datetime-local`."""
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return utc.isoformat(timespec="auto" if utc.second or utc.microsecond else "minutes")


def get_utc_midnight(day: date) -> datetime:
    """Return the moment at which a day begins in UTC."""
    return datetime.combine(day, time.min, UTC)


def parse_date(text: str) -> date | None:
    """Parse a date; None if it is invalid."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # The next day has to be representable.
    return day if day < date.max else None


def parse_range_start(text: str) -> datetime | None:
    """Parse a day or a time; None if it is invalid."""
    return _parse_range_bound(text, timedelta())[0]


def _parse_range_bound(text: str, length_of_day: timedelta) -> tuple[datetime | None, str]:
    """Return a bound of a range and its normal form; a day ends after its length."""
    if (day := parse_date(text)) is not None:
        return get_utc_midnight(day) + length_of_day, day.isoformat()
    moment = parse_utc_datetime_or_none(text, needs_zone=False)
    return (None, "") if moment is None else (moment, format_time_parameter(moment))
