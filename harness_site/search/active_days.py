"""Search facts for each UTC day on which a session was active; a session may last for many days."""

from datetime import UTC, date, datetime
from typing import Any

from django.db.models import QuerySet

from harness_site.search.models import Fact, Trait


def build_day_facts(*moments: datetime | None) -> tuple[tuple[Trait, str], ...]:
    """Build the facts for the days of these moments."""
    days = dict.fromkeys(moment.astimezone(UTC).date().isoformat() for moment in moments if moment is not None)
    return tuple((Trait.DAY, day) for day in days)


def query_sessions_active_between(workspace: int, first: date | None, last: date | None) -> QuerySet[Any, Any]:
    """Query the keys of the sessions active on these days, both included; None is unbounded."""
    facts = Fact.objects.filter(workspace=workspace, trait=Trait.DAY)
    if first is not None:
        facts = facts.filter(value__gte=first.isoformat())
    if last is not None:
        facts = facts.filter(value__lte=last.isoformat())
    return facts.values("session")
