"""Period that the overview shows: 24 hours in steps of an hour, or days (UTC) in steps of a day or of seven days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from harness_site.core.time_range_parameters import format_time_parameter, get_utc_midnight, parse_date

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
_WEEK: Final = timedelta(days=7)
#: Smallest number of days of a period whose steps have seven days.
_WEEKLY_FROM: Final = 60


@dataclass(frozen=True, slots=True)
class Period:
    """Period from `start` up to, but not including, `end`. `key` is empty for dates of its own.

    It is divided into steps back from its end, so that the first step may be shorter than the others.
    """

    key: str
    start: datetime
    end: datetime
    step: timedelta

    @property
    def has_hourly_steps(self) -> bool:
        return self.step == _HOUR

    @property
    def has_weekly_steps(self) -> bool:
        return self.step == _WEEK

    @property
    def first_day(self) -> date:
        return self.start.date()

    @property
    def last_day(self) -> date:
        return (self.end - timedelta(microseconds=1)).date()

    @property
    def preceding_period(self) -> Period:
        """The period of the same length before this one."""
        return Period("", self.start - (self.end - self.start), self.start, self.step)

    def list_step_starts(self) -> list[datetime]:
        number = -((self.start - self.end) // self.step)
        return [max(self.start, self.end - index * self.step) for index in range(number, 0, -1)]

    def build_query_string(self) -> str:
        """Return the parameters `first` and `last` that select this period in lists."""
        if self.has_hourly_steps:
            return build_range_query_string(self.start, self.end)
        return f"first={self.first_day.isoformat()}&last={self.last_day.isoformat()}"

    def build_query_string_of_chart_step(self, step: datetime) -> str:
        """Return the parameters `first` and `last` that select one step of this period in lists."""
        if self.has_hourly_steps:
            return build_range_query_string(step, step + _HOUR)
        return f"first={step.date().isoformat()}&last={self.get_last_day_of_step(step).isoformat()}"

    def get_step_start(self, moment: datetime) -> datetime:
        """Return the start of the step that contains a moment."""
        return max(self.start, self.end + (moment - self.end) // self.step * self.step)

    def get_last_day_of_step(self, step: datetime) -> date:
        return (self.end + ((step - self.end) // self.step + 1) * self.step - timedelta(microseconds=1)).date()


def choose_default_period_key(oldest: datetime | None, now: datetime) -> str:
    """Return the shortest period that contains everything since `oldest`, at most the default one.

    So the charts of an installation's first days are not nearly empty. None stands for no session at all.
    """
    if oldest is None:
        return DEFAULT
    return next(key for key in CHOICES if key == DEFAULT or _build_period(key, now).start <= oldest)


def parse_period_and_problem(query: QueryDict, now: datetime, usual: str = DEFAULT) -> tuple[Period, str]:
    """Parse the period of a request, which is `usual` if the request names none.

    Returns it with an empty text, or the default period with a sentence that says what is wrong.
    """
    if "first" not in query and "last" not in query:
        key = query.get("period", usual)
        if key in CHOICES:
            return _build_period(key, now), ""
        return _build_period(DEFAULT, now), _("There is no such period. The last 14 days are shown instead.")
    first, last = parse_date(query.get("first", "")), parse_date(query.get("last", ""))
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
    return _build_period_of_days("", get_utc_midnight(first), get_utc_midnight(last) + _DAY), ""


def build_query_string_with_swapped_days(query: QueryDict) -> str:
    """Return the parameters of a request with its days exchanged; empty unless the last day is before the first."""
    first, last = parse_date(query.get("first", "")), parse_date(query.get("last", ""))
    if first is None or last is None or first <= last:
        return ""
    return f"first={last.isoformat()}&last={first.isoformat()}"


def build_range_query_string(since: datetime, until: datetime) -> str:
    return f"first={format_time_parameter(since)}&last={format_time_parameter(until)}"


def _build_period(key: str, now: datetime) -> Period:
    days = CHOICES[key][1]
    if not days:
        end = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + _HOUR
        return Period(key, end - _DAY, end, _HOUR)
    end = get_utc_midnight(now.astimezone(UTC).date()) + _DAY
    return _build_period_of_days(key, end - days * _DAY, end)


def _build_period_of_days(key: str, start: datetime, end: datetime) -> Period:
    return Period(key, start, end, _WEEK if end - start >= _WEEKLY_FROM * _DAY else _DAY)
