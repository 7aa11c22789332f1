"""Period that the overview shows: 24 hours in steps of an hour, or days in steps of a day or of seven days.

Days are those of a time zone. The sums that a period is added up from are those of hours and of days in UTC, so a day
begins with the first hour of UTC that begins in it: half an hour after midnight in India, at midnight in most zones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.core.time_range_parameters import (
    compute_midnight,
    format_time_parameter,
    parse_date_or_none,
    parse_zone_or_get_utc,
)

#: Value of the parameter `period` → (label, number of days); no days stands for 24 hours.
CHOICES: Final = {
    "24h": (gettext_lazy("24 h"), 0),
    "7d": (gettext_lazy("7 days"), 7),
    "14d": (gettext_lazy("14 days"), 14),
    "90d": (gettext_lazy("90 days"), 90),
}
DEFAULT: Final = "14d"
#: Largest number of days of a period with dates of its own.
LONGEST: Final = 366
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
#: Smallest number of days of a period whose steps have seven days.
_WEEKLY_FROM: Final = 60


@dataclass(frozen=True, slots=True)
class Period:
    """Period that is divided into steps, and the one of the same length before it.

    `bounds` are the start of the preceding period, the start of each step and the end of the last one. Steps are
    counted back from the end, so that the first one may be shorter than the others. `days_of_step` is 0 for steps of an
    hour. `key` is empty for dates of its own.
    """

    key: str
    bounds: tuple[datetime, ...]
    days_of_step: int
    zone: tzinfo

    @property
    def preceding_start(self) -> datetime:
        return self.bounds[0]

    @property
    def start(self) -> datetime:
        return self.bounds[1]

    @property
    def end(self) -> datetime:
        """The end, which the period does not contain."""
        return self.bounds[-1]

    @property
    def step_starts(self) -> tuple[datetime, ...]:
        return self.bounds[1:-1]

    @property
    def has_hourly_steps(self) -> bool:
        return not self.days_of_step

    @property
    def has_weekly_steps(self) -> bool:
        return self.days_of_step > 1

    @property
    def first_day(self) -> date:
        return self._get_day(self.start)

    @property
    def last_day(self) -> date:
        return self._get_day(self.end) - _DAY

    @property
    def zone_name(self) -> str:
        return str(self.zone)

    @property
    def day_start_time_unless_midnight(self) -> str:
        """The time at which days begin, such as 00:30; empty if that is midnight."""
        return "" if self._is_midnight(self.end) else f"{self.end.astimezone(self.zone):%H:%M}"

    def build_query_string(self) -> str:
        """Return the parameters that select this period in lists."""
        return self.build_range_query_string(self.start, self.end)

    def build_query_string_of_chart_step(self, step: datetime) -> str:
        """Return the parameters that select one step of this period in lists."""
        return _build_query_string_of_step(self, step)

    def get_last_day_of_step(self, step: datetime) -> date:
        return self._get_day(self.get_end_of_step(step)) - _DAY

    def is_preceding_period_complete_since(self, moment: datetime) -> bool:
        """Return whether the preceding period begins in the hour or day of a moment, or later."""
        if self.has_hourly_steps:
            return moment <= self.preceding_start
        return self._get_day(moment) <= self._get_day(self.preceding_start)

    def map_hours_and_utc_days_to_signed_steps(self) -> dict[tuple[bool, datetime], list[tuple[datetime, int]]]:
        """List the hours and the days in UTC that the steps and the preceding period are added up from.

        Few rows make up many days: a step consists of the days in UTC between the midnights nearest to its bounds, to
        which the hours between a bound and its midnight are added, or from which they are subtracted.

        Returns:
            For each hour (True, start) and day (False, start) the steps that it belongs to, each with 1 or -1.
        """
        parts: defaultdict[tuple[bool, datetime], list[tuple[datetime, int]]] = defaultdict(list)
        for start, end in zip(self.bounds, self.bounds[1:], strict=False):
            if self.has_hourly_steps:
                for hour in _iterate_moments(start, end, _HOUR):
                    parts[True, hour].append((start, 1))
                continue
            first, last = _find_nearest_utc_midnight(start), _find_nearest_utc_midnight(end)
            for day in _iterate_moments(first, last, _DAY):
                parts[False, day].append((start, 1))
            for since, until, sign in ((start, first, 1), (first, start, -1), (last, end, 1), (end, last, -1)):
                for hour in _iterate_moments(since, until, _HOUR):
                    parts[True, hour].append((start, sign))
        return dict(parts)

    def list_ranges_of_hours_and_utc_days(self) -> tuple[tuple[bool, datetime, datetime], ...]:
        """List the ranges of hours (True) and of days in UTC (False) that make up the whole period."""
        if self.has_hourly_steps:
            return ((True, self.start, self.end),)
        first, last = _get_utc_midnight(self.start + _DAY - timedelta(microseconds=1)), _get_utc_midnight(self.end)
        if first >= last:
            return ((True, self.start, self.end),)
        ranges = ((True, self.start, first), (False, first, last), (True, last, self.end))
        return tuple(each for each in ranges if each[1] < each[2])

    def build_range_query_string(self, since: datetime, until: datetime) -> str:
        zone = self.zone
        if self._is_midnight(since) and self._is_midnight(until):
            first, last = self._get_day(since).isoformat(), (self._get_day(until) - _DAY).isoformat()
        else:
            if not (
                _is_first_occurrence_of_local_time(since, zone) and _is_first_occurrence_of_local_time(until, zone)
            ):
                zone = UTC
            first, last = format_time_parameter(since, zone), format_time_parameter(until, zone)
        return f"first={first}&last={last}{_build_zone_parameter(zone)}"

    def get_end_of_step(self, step: datetime) -> datetime:
        return self.bounds[bisect_right(self.bounds, step)]

    def _get_day(self, moment: datetime) -> date:
        return moment.astimezone(self.zone).date()

    def _is_midnight(self, moment: datetime) -> bool:
        return compute_midnight(self._get_day(moment), self.zone) == moment


@lru_cache(maxsize=1_000)
def _build_query_string_of_step(period: Period, step: datetime) -> str:
    """Build it once for a step, whose bars are in several charts and whose numbers are in a table."""
    return period.build_range_query_string(step, period.get_end_of_step(step))


def choose_default_period_key(oldest: datetime | None, now: datetime) -> str:
    """Return the shortest period that contains everything since `oldest`, at most the default one.

    So the charts of an installation's first days are not nearly empty. None stands for no session at all.
    """
    if oldest is None:
        return DEFAULT
    return next(key for key in CHOICES if key == DEFAULT or _build_period(key, now).start <= oldest)


def parse_period_and_problem(query: QueryDict, now: datetime, usual: str = DEFAULT) -> tuple[Period, str]:
    """Parse the period of a request, which is `usual` if the request names none.

    The days of a request are those of the zone that it names, and in UTC without one, as in lists. Other periods are in
    the zone of the reader.

    Returns it with an empty text, or the default period with a sentence that says what is wrong.
    """
    if "first" not in query and "last" not in query:
        key = query.get("period", usual)
        if key in CHOICES:
            return _build_period(key, now), ""
        return _build_period(DEFAULT, now), _("There is no such period. The last 14 days are shown instead.")
    first, last = parse_date_or_none(query.get("first", "")), parse_date_or_none(query.get("last", ""))
    if first is None or last is None:
        return _build_period(DEFAULT, now), _("Enter both days. The last 14 days are shown instead.")
    if first > last:
        return _build_period(DEFAULT, now), _(
            "The first day is after the last one. The last 14 days are shown instead."
        )
    if (last - first).days >= LONGEST:
        return _build_period(DEFAULT, now), _(
            "A period can have 366 days at most. Choose fewer. The last 14 days are shown instead."
        )
    if first.year < 2000:
        return _build_period(DEFAULT, now), _("Choose days after 1999. The last 14 days are shown instead.")
    return _build_period_from_first_to_last_day("", first, last, parse_zone_or_get_utc(query.get("zone", ""))), ""


def build_query_string_with_swapped_days(query: QueryDict) -> str:
    """Return the parameters of a request with its days exchanged; empty unless the last day is before the first."""
    first, last = parse_date_or_none(query.get("first", "")), parse_date_or_none(query.get("last", ""))
    if first is None or last is None or first <= last:
        return ""
    zone = parse_zone_or_get_utc(query.get("zone", ""))
    return f"first={last.isoformat()}&last={first.isoformat()}{_build_zone_parameter(zone)}"


def _build_zone_parameter(zone: tzinfo) -> str:
    """Return the parameter `zone` with the ampersand before it; empty for UTC, which days without a zone are in."""
    return "" if str(zone) == "UTC" else f"&zone={quote(str(zone))}"


def _build_period(key: str, now: datetime) -> Period:
    days, zone = CHOICES[key][1], timezone.get_current_timezone()
    if not days:
        start = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - 23 * _HOUR
        return Period(key, (start - _DAY, *(start + number * _HOUR for number in range(25))), 0, zone)
    today = _find_current_day(now, zone)
    return _build_period_from_first_to_last_day(key, today - (days - 1) * _DAY, today, zone)


def _find_current_day(now: datetime, zone: tzinfo) -> date:
    """Find the day of a moment; half an hour after midnight may still be the day before."""
    day = now.astimezone(zone).date()
    return day if _compute_first_utc_hour_of_day(day, zone) <= now else day - _DAY


def _build_period_from_first_to_last_day(key: str, first: date, last: date, zone: tzinfo) -> Period:
    number = (last - first).days + 1
    length = 7 if number >= _WEEKLY_FROM else 1
    # Rounded up, so that the first step may begin with `first`, in the middle of a week.
    starts = [max(first, last + _DAY - index * length * _DAY) for index in range(-(-number // length), 0, -1)]
    days = (first - number * _DAY, *starts, last + _DAY)
    return Period(key, tuple(_compute_first_utc_hour_of_day(day, zone) for day in days), length, zone)


def _compute_first_utc_hour_of_day(day: date, zone: tzinfo) -> datetime:
    """Return the first full hour of UTC in a day."""
    midnight = compute_midnight(day, zone)
    hour = midnight.replace(minute=0, second=0, microsecond=0)
    return hour if hour == midnight else hour + _HOUR


def _find_nearest_utc_midnight(moment: datetime) -> datetime:
    return _get_utc_midnight(moment + _DAY / 2)


def _get_utc_midnight(moment: datetime) -> datetime:
    """Return the start of the day in UTC that contains a moment in UTC."""
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _iterate_moments(since: datetime, until: datetime, distance: timedelta) -> Iterator[datetime]:
    while since < until:
        yield since
        since += distance


def _is_first_occurrence_of_local_time(moment: datetime, zone: tzinfo) -> bool:
    """Return whether the local time means this moment, and not the same hour before the clocks were set back."""
    return moment.astimezone(zone).replace(fold=0).astimezone(UTC) == moment
