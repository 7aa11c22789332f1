"""Places that a reader types to go to in a transcript: a message number, a time of day, a day, or both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from harness_site.core import time_range_parameters

#: Longest text that is read.
MAX_INPUT_LENGTH: Final = 40
_NUMBER: Final = re.compile(r"#?([0-9]{1,9})")
_TIME: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


@dataclass(frozen=True, slots=True)
class JumpTarget:
    """A typed place: the `number` of a message, counted from 1, or else a day, a time of day, or both."""

    number: int | None = None
    day: date | None = None
    time: time | None = None


def parse_message_number_or_time(text: str) -> JumpTarget | None:
    """Parse `120`, `14:28`, `14:28:05`, `2026-02-14` or `2026-02-14 14:28`; None for anything else."""
    text = text[:MAX_INPUT_LENGTH].strip()
    if number := _NUMBER.fullmatch(text):
        return JumpTarget(number=int(number[1]))
    day = time_range_parameters.parse_date_or_none(text[:10]) if len(text) >= 10 else None
    rest = text[10:].strip(" T,") if day else text
    if day and not rest:
        return JumpTarget(day=day)
    match = _TIME.fullmatch(rest)
    if match is None:
        return None
    return JumpTarget(day=day, time=time(int(match[1]), int(match[2]), int(match[3] or 0)))


def combine_day_and_time(day: date, at: time | None, zone: tzinfo) -> datetime:
    return datetime.combine(day, at or time.min, zone)


def find_next_time_of_day(at: time, earliest: datetime, zone: tzinfo) -> datetime:
    """Return the first moment with this time of day at or after `earliest`, whose seconds do not count."""
    local = earliest.astimezone(zone).replace(second=0, microsecond=0)
    moment = combine_day_and_time(local.date(), at, zone)
    return moment if moment >= local else combine_day_and_time(local.date() + timedelta(days=1), at, zone)
