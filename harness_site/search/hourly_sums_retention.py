"""Hours of the precomputed sums, which are kept beside those of their days for as long as pages show hours."""

from datetime import datetime, timedelta

from harness_site.search.call_and_decision_sums import get_utc_day_start
from harness_site.search.models import DecisionSums, ModelSums, SessionSums, ToolSums


def get_start_of_kept_hourly_sums(now: datetime) -> datetime:
    """Return the start of the first day whose hours are kept: the day before yesterday.

    The newest 24 hours are compared with those before, which begin on that day.
    """
    return get_utc_day_start(now) - timedelta(days=2)


def delete_outdated_hourly_sums(now: datetime) -> None:
    """Delete the hours of all days whose hours are not kept; the sums of the days contain them."""
    for model in (SessionSums, ModelSums, ToolSums, DecisionSums):
        model._default_manager.filter(hourly=True, start__lt=get_start_of_kept_hourly_sums(now)).delete()
