"""Forks of a session: those there are, and what one more would take along and leave behind."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from checkpoints.enums import CallStatus, KeyScope
from checkpoints.models import Session, ToolCall, Workflow
from checkpoints.queries import calls
from checkpoints.queries.calls import CallRecord
from checkpoints.queries.versions import Version
from checkpoints.saving.forking import CARRIED

#: Forks that are named above the pages of their origin, and undecided calls before a fork is made.
NAMED = 4
SHOWN = 20
_SETTLED = sorted(status for status, becomes in CARRIED.items() if becomes == CallStatus.COMPLETED)
_OPEN = sorted(set(CARRIED) - set(_SETTLED))


@dataclass(frozen=True, slots=True)
class ForkRow:
    pk: int
    session_id: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Forks:
    """The newest forks of a session, and how many there are."""

    rows: tuple[ForkRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a fork from `version` takes along: `settled` calls, `later` of them begun after the version; `workflows`.

    So many calls are `open`, `undecided` being the first of them: they will be as undecided in the fork. `left` is what
    stays behind, by status; `shared` calls belong to the workspace and answer in every session.
    """

    version: Version
    settled: int
    later: int
    open: int
    undecided: tuple[CallRecord, ...]
    left: tuple[tuple[str, int], ...]
    shared: int
    workflows: int


def of(session_pk: int) -> Forks:
    """Two queries."""
    found = Session.objects.filter(forked_from=session_pk)
    rows = found.order_by("-pk").values_list("pk", "session_id", "forked_version")[:NAMED]
    return Forks(tuple(ForkRow(*row) for row in rows), found.count())


def prospect(session_pk: int, version: Version) -> Prospect:
    """Five queries."""
    own = ToolCall.objects.filter(session=session_pk, key_scope=KeyScope.SESSION)
    later = Count("pk", filter=Q(issued_at__gt=version.at))
    by_status = own.values_list("status").annotate(count=Count("pk"), later=later)
    counted = {status: (count, after) for status, count, after in by_status}
    open_ = own.filter(status__in=_OPEN).order_by("pk")
    return Prospect(
        version=version,
        settled=sum(counted[status][0] for status in _SETTLED if status in counted),
        later=sum(counted[status][1] for status in _SETTLED if status in counted),
        open=sum(counted[status][0] for status in _OPEN if status in counted),
        undecided=calls.records(open_[:SHOWN]),
        left=tuple(sorted((status, count) for status, (count, _) in counted.items() if status not in CARRIED)),
        shared=ToolCall.objects.filter(session=session_pk).exclude(key_scope=KeyScope.SESSION).count(),
        workflows=Workflow.objects.filter(session=session_pk).count(),
    )


def free_id(workspace_id: int, session_id: str, version: int) -> str:
    """An id for a fork that nobody has, made of its origin's."""
    stem = f"{session_id[:220]}-fork-v{version}"
    named = Session.objects.filter(workspace=workspace_id, session_id__startswith=stem)
    taken = set(named.values_list("session_id", flat=True))
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)
