"""Date ranges in query parameters, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.http import QueryDict


@dataclass(frozen=True, slots=True)
class DateRange:
    """Range from `first` to `last`, both included; None is unbounded."""

    first: date | None
    last: date | None

    @classmethod
    def from_query(cls, asked: QueryDict) -> DateRange:
        return cls(parse_date(asked.get("first", "")), parse_date(asked.get("last", "")))

    def __bool__(self) -> bool:
        return bool(self.first or self.last)

    def contains_moment(self, moment: datetime) -> bool:
        day = moment.astimezone(UTC).date()
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


def parse_date(text: str) -> date | None:
    """Parse a date; None if it is invalid."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # The next day has to be representable.
    return day if day < date.max else None


def get_day_start(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
