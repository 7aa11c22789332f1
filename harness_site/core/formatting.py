"""Formatting of numbers, dates, durations and stored JSON."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import Final

from django.utils import timezone
from django.utils.dateformat import format as format_date
from django.utils.formats import number_format
from django.utils.translation import get_language, gettext, ngettext

#: Size in seconds → unit, from large to small.
_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))
#: Whether times of day are formatted with their date and their offset from UTC.
_are_times_complete: ContextVar[bool] = ContextVar("_are_times_complete", default=False)


def format_number(number: Decimal | float, digits: int = 0) -> str:
    """Format a number with `digits` decimal places and the separators of the reader's language: 1,234.5 or 1.234,5."""
    if not digits and isinstance(number, int) and 0 <= number < 1000:  # has no separators in any language
        return str(number)
    return _insert_thousands_separators(f"{number:.{digits}f}", digits, get_language())


@lru_cache(maxsize=4_096)
def _insert_thousands_separators(number: str, digits: int, _language: str | None) -> str:
    """Insert the separators of the current language, which is a part of the key of the cache."""
    return number_format(number, digits, use_l10n=True, force_grouping=True)


def format_day(day: date) -> str:
    """Format a day and its month, abbreviated: 10 Nov."""
    return _format_day_in_language(day, get_language())


def format_day_with_weekday(day: date) -> str:
    """Format a day with its weekday and month, abbreviated: Tue 10 Nov."""
    return _format_day_with_weekday_in_language(day, get_language())


def format_date_with_weekday_and_year(day: date) -> str:
    """Format a day with its weekday, month and year, abbreviated: Tue 10 Nov 2026."""
    return _format_date_with_weekday_and_year_in_language(day, get_language())


def format_duration(seconds: float) -> str:
    """Format a duration, rounded down; fewer than ten of a unit with the next smaller one: 3.4 s, 1 h 39 min, 12 h.

    Nothing that was measured takes no time: below a millisecond, it is “< 1 ms”.
    """
    if seconds < 0.001:
        return gettext("< 1 ms")
    if seconds < 1:
        return _format_duration_in_language(round(seconds * 1000), "ms", 0, get_language())
    if seconds < 10:
        return _format_duration_in_language(round(seconds, 1), "s", 1, get_language())
    return _format_amounts_of_duration_in_language(int(seconds), get_language())


def format_duration_rounded_up(seconds: float) -> str:
    """Format a duration as `format_duration` does, but rounded up, so that "within" is true: 81.5 min are 1 h 22 min.

    Seconds are whole.
    """
    precision = _compute_precision_of_duration(seconds)
    return _format_amounts_of_duration_in_language(ceil(seconds / precision) * precision, get_language())


def _compute_precision_of_duration(seconds: float) -> int:
    """Return the size in seconds of the smallest unit in which a duration is written."""
    sizes = [size for size, _unit in _UNITS]
    index = next((index for index, size in enumerate(sizes) if seconds >= size), len(sizes) - 1)
    return sizes[min(index + 1, len(sizes) - 1)] if seconds < 10 * sizes[index] else sizes[index]


def format_time_ago(moment: datetime, now: datetime) -> str:
    """Format the time since a moment in one unit.

    A moment in the near future counts as now, as clocks of two machines may differ.
    """
    seconds = int((now - moment).total_seconds())
    if seconds < 5:
        return gettext("just now")
    return _format_time_ago_in_language(*_convert_to_largest_unit(seconds), get_language())


# The language of the following functions is the current one. It is a part of the keys of their caches.


@lru_cache(maxsize=1_000)
def _format_day_in_language(day: date, _language: str | None) -> str:
    # Translators: a format of Django's filter `date`: the day and the abbreviated month, such as 10 Nov
    return format_date(day, gettext("j M"))


@lru_cache(maxsize=1_000)
def _format_day_with_weekday_in_language(day: date, _language: str | None) -> str:
    # Translators: a format of Django's filter `date`: weekday, day and abbreviated month, such as Tue 10 Nov
    return format_date(day, gettext("D j M"))


@lru_cache(maxsize=1_000)
def _format_date_with_weekday_and_year_in_language(day: date, _language: str | None) -> str:
    # Translators: a format of Django's filter `date`: weekday, day, abbreviated month and year, such as Tue 10 Nov 2026
    return format_date(day, gettext("D j M Y"))


@lru_cache(maxsize=4_096)
def _format_duration_in_language(amount: float, unit: str, digits: int, _language: str | None) -> str:
    match unit:
        case "day":
            sentence = ngettext("%(count)s day", "%(count)s days", round(amount))
        case "h":
            sentence = gettext("%(count)s h")
        case "min":
            sentence = gettext("%(count)s min")
        case "ms":
            sentence = gettext("%(count)s ms")
        case _:
            sentence = gettext("%(count)s s")
    return sentence % {"count": format_number(amount, digits) if digits else amount}


@lru_cache(maxsize=4_096)
def _format_amounts_of_duration_in_language(seconds: int, language: str | None) -> str:
    """Format whole amounts of the largest unit and, if there are fewer than ten of it, of the next smaller one."""
    amount, unit = _convert_to_largest_unit(seconds)
    larger = _format_duration_in_language(amount, unit, 0, language)
    size = next(size for size, name in _UNITS if name == unit)
    precision = _compute_precision_of_duration(seconds)
    rest = seconds % size // precision
    if not rest:
        return larger
    smaller = _format_duration_in_language(rest, dict(_UNITS)[precision], 0, language)
    # Translators: a duration in two units, such as 1 h 39 min
    return gettext("%(larger)s %(smaller)s") % {"larger": larger, "smaller": smaller}


@lru_cache(maxsize=1_000)
def _format_time_ago_in_language(amount: int, unit: str, _language: str | None) -> str:
    match unit:
        case "day":
            sentence = ngettext("%(count)s day ago", "%(count)s days ago", amount)
        case "h":
            sentence = gettext("%(count)s h ago")
        case "min":
            sentence = gettext("%(count)s min ago")
        case _:
            sentence = gettext("%(count)s s ago")
    return sentence % {"count": amount}


def format_relative_deadline(moment: datetime, now: datetime) -> str:
    """Format the time until or since a deadline in one unit; until it, hours with their minutes, days with their hours.

    Ten days and more are without hours, as in other durations.
    """
    seconds = (moment - now).total_seconds()
    amount, unit = _convert_to_largest_unit(abs(seconds))
    match unit, seconds > 0:
        case "day", True:
            hours = int(seconds % 86_400 // 3600)
            if hours and amount < 10:
                sentence = ngettext("due in %(count)s day %(hours)s h", "due in %(count)s days %(hours)s h", amount)
                return sentence % {"count": amount, "hours": hours}
            sentence = ngettext("due in %(count)s day", "due in %(count)s days", amount)
        case "h", True:
            minutes = int(seconds % 3600 // 60)
            sentence = gettext("due in %(count)s h %(minutes)s min") if minutes else gettext("due in %(count)s h")
            return sentence % {"count": amount, "minutes": minutes}
        case "min", True:
            sentence = gettext("due in %(count)s min")
        case _, True:
            sentence = gettext("due in %(count)s s")
        case "day", _:
            sentence = ngettext("overdue for %(count)s day", "overdue for %(count)s days", amount)
        case "h", _:
            sentence = gettext("overdue for %(count)s h")
        case "min", _:
            sentence = gettext("overdue for %(count)s min")
        case _:
            return gettext("overdue")
    return sentence % {"count": amount}


def _convert_to_largest_unit(seconds: float) -> tuple[int, str]:
    """Return the amount, rounded down, of the largest unit that the duration reaches."""
    size, unit = next((step for step in _UNITS if seconds >= step[0]), _UNITS[-1])
    return int(seconds // size), unit


def convert_to_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Convert a moment to a time zone; one at the ends of the supported range stays in UTC."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment.astimezone(UTC)


def format_utc_time(moment: datetime, timespec: str = "seconds") -> str:
    return moment.astimezone(UTC).isoformat(" ", timespec).replace("+00:00", " UTC")


def format_iso_date_and_time_with_zone(moment: datetime) -> str:
    """Format a time in the current time zone, with its date and the name of the zone."""
    zone = timezone.get_current_timezone()
    text = convert_to_zone(moment, zone).replace(tzinfo=None).isoformat(" ", "seconds")
    return f"{text} {timezone.get_current_timezone_name()}"


@contextmanager
def write_dates_and_offsets_with_times() -> Iterator[None]:
    """Format all times of day with their date and their offset from UTC, as a sheet of paper needs them."""
    token = _are_times_complete.set(True)
    try:
        yield
    finally:
        _are_times_complete.reset(token)


def are_dates_and_offsets_written() -> bool:
    return _are_times_complete.get()


def format_time_with_date_unless_today(moment: datetime, now: datetime, timespec: str = "seconds") -> str:
    """Format a time of day in the current time zone, with the date unless it is that of `now`.

    Within `write_dates_and_offsets_with_times`, it is always `2026-11-10 14:30:00 +01:00`.
    """
    if _are_times_complete.get():
        return format_time_with_date_and_offset(moment, timespec)
    zone = timezone.get_current_timezone()
    local = convert_to_zone(moment, zone)
    text = local.replace(tzinfo=None).isoformat(" ", timespec)
    return text.split()[1] if local.date() == convert_to_zone(now, zone).date() else text


def format_time_with_date_and_offset(moment: datetime, timespec: str = "seconds") -> str:
    """Format a time in the current time zone with its date and offset from UTC: 2026-11-10 14:30:00 +01:00."""
    local = convert_to_zone(moment, timezone.get_current_timezone())
    if local.tzname() == "UTC":
        return format_utc_time(moment, timespec)
    text = local.replace(tzinfo=None).isoformat(" ", timespec)
    return f"{text} {local.isoformat(' ', timespec).removeprefix(text)}"


def format_date_and_time_with_zone(moment: datetime) -> str:
    """Format a time in the current time zone for a sentence: Tue 10 Nov 2026, 14:30 (Europe/Berlin)."""
    local = convert_to_zone(moment, timezone.get_current_timezone())
    return f"{format_date_with_weekday_and_year(local.date())}, {local:%H:%M} ({timezone.get_current_timezone_name()})"


def format_iso_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
