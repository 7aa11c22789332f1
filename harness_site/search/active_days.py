"""On which days (UTC) something was said, called or decided in a session: the days its row knows nothing of, because a
session goes on for as long as it likes."""

from datetime import UTC, date, datetime
from typing import Any

from django.db.models import QuerySet

from harness_site.search.models import Fact, Trait


def facts(*moments: datetime | None) -> tuple[tuple[Trait, str], ...]:
    """What the index keeps of these times."""
    days = dict.fromkeys(moment.astimezone(UTC).date().isoformat() for moment in moments if moment is not None)
    return tuple((Trait.DAY, day) for day in days)


def between(workspace: int, first: date | None, last: date | None) -> QuerySet[Any, Any]:
    """The keys of the sessions with something on these days; both count, and None is without end."""
    found = Fact.objects.filter(workspace=workspace, trait=Trait.DAY)
    if first is not None:
        found = found.filter(value__gte=first.isoformat())
    if last is not None:
        found = found.filter(value__lte=last.isoformat())
    return found.values("session")
