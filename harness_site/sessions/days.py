"""Days that an address asks for, in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.http import QueryDict


@dataclass(frozen=True, slots=True)
class Days:
    """From `first` to `last`, both of which count; None is without end."""

    first: date | None
    last: date | None

    @classmethod
    def of(cls, asked: QueryDict) -> Days:
        return cls(parsed(asked.get("first", "")), parsed(asked.get("last", "")))

    def __bool__(self) -> bool:
        return bool(self.first or self.last)

    def hold(self, moment: datetime) -> bool:
        day = moment.astimezone(UTC).date()
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)


def parsed(text: str) -> date | None:
    """None where the text says no day."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    # One day more has to exist.
    return found if found < date.max else None


def start(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
