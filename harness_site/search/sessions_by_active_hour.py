"""Search facts for each UTC hour in which a session was active; a session may last for many days."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from harness_site.search.models import Fact, Trait


def build_active_hour_facts(*moments: datetime | None) -> tuple[tuple[Trait, str], ...]:
    """Build the facts for the hours of these moments."""
    hours = dict.fromkeys(_format_hour(moment) for moment in moments if moment is not None)
    return tuple((Trait.HOUR, hour) for hour in hours)


def query_sessions_active_between(workspace: int, since: datetime | None, until: datetime | None) -> QuerySet[Any, Any]:
    """Query the keys of the sessions active from the hour of `since` up to `until`; None is unbounded."""
    facts = Fact.objects.filter(workspace=workspace, trait=Trait.HOUR)
    if since is not None:
        facts = facts.filter(value__gte=_format_hour(since))
    if until is not None:
        facts = facts.filter(value__lte=_format_hour(until - timedelta(microseconds=1)))
    return facts.values("session")


def _format_hour(moment: datetime) -> str:
    """Format an hour as 2026-11-25T14, which sorts by time."""
    return moment.astimezone(UTC).isoformat(timespec="hours")[:13]
