"""Query of changed sessions, used by every live page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from checkpoints.models import Session, Workspace

#: A change becomes visible at its commit, but carries the time of its statement. Reading this far back finds late
#: commits; the cursor drops what it has already returned.
OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class SessionChange:
    """Change of a session to `revision`; `workspace` and `session` are primary keys."""

    workspace: int
    session: int
    revision: int
    at: datetime


def list_session_changes_since_with_overlap(moment: datetime, *, workspace: int | None = None) -> list[SessionChange]:
    """List the sessions changed since `moment` less the overlap, in order of time."""
    # The index is on workspace and time.
    workspaces = Workspace.objects.all() if workspace is None else Workspace.objects.filter(pk=workspace)
    rows = Session.objects.filter(workspace__in=workspaces, updated_at__gt=moment - OVERLAP).order_by("updated_at")
    return [SessionChange(*row) for row in rows.values_list("workspace_id", "pk", "revision", "updated_at")]


class ChangeCursor:
    """Cursor over the changes that returns each (session, revision) once."""

    def __init__(self, start: datetime) -> None:
        self._position = start
        self._told: dict[int, SessionChange] = {}

    def fetch_new_changes(self) -> list[SessionChange]:
        """Return the changes since the last call; one query."""
        changes = list_session_changes_since_with_overlap(self._position)
        new_changes = list(self._iterate_changes_not_sent_before(changes))
        if changes:
            self._position = max(self._position, changes[-1].at)
        oldest = self._position - OVERLAP
        self._told = {change.session: change for change in changes if change.at > oldest}
        return new_changes

    def _iterate_changes_not_sent_before(self, changes: list[SessionChange]) -> Iterator[SessionChange]:
        for change in changes:
            previous = self._told.get(change.session)
            if previous is None or previous.revision != change.revision:
                yield change
