"""Hours of the precomputed sums, which are kept beside those of their days for as long as pages show these days.

Pages show days of the reader's time zone, which begin between two hours of a day in UTC.
"""

from datetime import datetime, timedelta
from typing import Final

from harness_site.search.hourly_call_and_decision_sums import get_utc_day_start
from harness_site.search.models import DecisionSums, ModelSums, SessionSums, ToolSums

#: The longest period of a page, that of the same length before it, and a day for the time zone.
_KEPT: Final = timedelta(days=2 * 366 + 1)


def get_start_of_kept_hourly_sums(now: datetime) -> datetime:
    """Return the start of the first day whose hours are kept."""
    return get_utc_day_start(now) - _KEPT


def delete_outdated_hourly_sums(now: datetime) -> None:
    """Delete the hours of all days whose hours are not kept; the sums of the days contain them."""
    for model in (SessionSums, ModelSums, ToolSums, DecisionSums):
        model._default_manager.filter(hourly=True, start__lt=get_start_of_kept_hourly_sums(now)).delete()
