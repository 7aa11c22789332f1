"""Ranges of days or times in query parameters, in the time zone that a parameter names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext

from harness_site.core.datetime_parameters import parse_utc_datetime_or_none

_DAY: Final = timedelta(days=1)
#: Maximum length of the name of a time zone.
_MAX_ZONE_LENGTH: Final = 64
#: Largest number of characters of an invalid bound that are quoted.
_MAX_QUOTED_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Range from `since` up to, but not including, `until`; None is unbounded.

    `first` and `last` are the parameters in their normal form: a day such as 2026-11-25, or a time such as
    2026-11-25T14:00, both in the time zone `zone`. The range includes a last day, and ends at a last time. Invalid
    parameters are empty.
    """

    since: datetime | None = None
    until: datetime | None = None
    first: str = ""
    last: str = ""
    zone: str = "UTC"

    @classmethod
    def parse_query(cls, query: QueryDict) -> TimeRange:
        """Parse the parameters `first`, `last` and `zone`.

        A link has to mean the same for every reader, so days without a zone are days in UTC. A range without bounds has
        the zone of the reader, in which a form asks for them.
        """
        zone = parse_zone_or_get_utc(query.get("zone", ""))
        since, first = _parse_and_normalize_range_bound(query.get("first", ""), timedelta(), zone)
        until, last = _parse_and_normalize_range_bound(query.get("last", ""), _DAY, zone)
        return cls(since, until, first, last, str(zone) if first or last else timezone.get_current_timezone_name())

    def __bool__(self) -> bool:
        return bool(self.since or self.until)

    def describe_invalid_bounds_by_parameter(self, query: QueryDict) -> dict[str, str]:
        """Describe each of the parameters `first` and `last` of the range that is no day or time."""
        sentence = gettext("“%(value)s” is not a day or a time, so it does not filter.")
        texts = {name: query.get(name, "").replace("\0", "").strip() for name in ("first", "last")}
        return {
            name: sentence % {"value": text[:_MAX_QUOTED_LENGTH]}
            for name, text in texts.items()
            if text and not getattr(self, name)
        }

    @property
    def is_reversed(self) -> bool:
        """Whether the range ends before it begins, so that nothing can be in it."""
        return self.since is not None and self.until is not None and self.since > self.until

    @property
    def zone_label(self) -> str:
        """The name of the zone without that of its continent."""
        return self.zone.rpartition("/")[2].replace("_", " ")

    @property
    def is_in_reader_zone(self) -> bool:
        return self.zone == timezone.get_current_timezone_name()

    @property
    def has_time_of_day_in_first(self) -> bool:
        return "T" in self.first

    @property
    def has_time_of_day_in_last(self) -> bool:
        return "T" in self.last


def format_time_parameter(moment: datetime, zone: tzinfo = UTC) -> str:
    """Format a moment as a value of `first` or `last`, which is also that of an input of the type `datetime-local`."""
    local = moment.astimezone(zone).replace(tzinfo=None)
    return local.isoformat(timespec="auto" if local.second or local.microsecond else "minutes")


def compute_midnight(day: date, zone: tzinfo) -> datetime:
    """Return the moment, in UTC, at which a day begins in a time zone."""
    return datetime.combine(day, time.min, zone).astimezone(UTC)


def parse_date_or_none(text: str) -> date | None:
    """Parse a date; None if it is invalid."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # The next day has to be representable.
    return day if day < date.max else None


def parse_range_start(text: str) -> datetime | None:
    """Parse a day or a time in UTC; None if it is invalid."""
    return _parse_and_normalize_range_bound(text, timedelta(), UTC)[0]


def parse_zone_or_get_utc(name: str) -> tzinfo:
    """Return the time zone with this name; UTC without one, and for a name that does not exist."""
    if not name or len(name) > _MAX_ZONE_LENGTH:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a name may also be a part of a path, or no path at all
        return UTC


def _parse_and_normalize_range_bound(text: str, length_of_day: timedelta, zone: tzinfo) -> tuple[datetime | None, str]:
    """Return a bound of a range in UTC and its normal form; a day ends after its length."""
    if (day := parse_date_or_none(text)) is not None:
        start = datetime.combine(day + length_of_day, time.min, zone)
        moment = parse_utc_datetime_or_none(start.isoformat())
        return (None, "") if moment is None else (moment, day.isoformat())
    moment = parse_utc_datetime_or_none(text, zone=zone)
    return (None, "") if moment is None else (moment, format_time_parameter(moment, zone))
