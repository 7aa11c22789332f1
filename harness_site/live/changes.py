"""Which sessions changed: the one query behind every live page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from checkpoints.models import Session, Workspace

#: A change becomes visible when its transaction commits, with the time at which its statement ran. Looking back
#: this far finds those that committed late; what was already told is told once.
OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Change:
    """Session `session` of workspace `workspace` (both primary keys) is now at `revision`."""

    workspace: int
    session: int
    revision: int
    at: datetime


def changed_since(moment: datetime, *, workspace: int | None = None) -> list[Change]:
    """Sessions changed since `moment` less the overlap, in order of time."""
    # The index is by workspace and time.
    where = Workspace.objects.all() if workspace is None else Workspace.objects.filter(pk=workspace)
    rows = Session.objects.filter(workspace__in=where, updated_at__gt=moment - OVERLAP).order_by("updated_at")
    return [Change(*row) for row in rows.values_list("workspace_id", "pk", "revision", "updated_at")]


class Cursor:
    """Reads the changes on and on, each (session, revision) once."""

    def __init__(self, start: datetime) -> None:
        self._position = start
        self._told: dict[int, Change] = {}

    def read(self) -> list[Change]:
        """What changed since the last reading. One query."""
        found = changed_since(self._position)
        fresh = list(self._unknown(found))
        if found:
            self._position = max(self._position, found[-1].at)
        oldest = self._position - OVERLAP
        self._told = {change.session: change for change in found if change.at > oldest}
        return fresh

    def _unknown(self, found: list[Change]) -> Iterator[Change]:
        for change in found:
            told = self._told.get(change.session)
            if told is None or told.revision != change.revision:
                yield change
