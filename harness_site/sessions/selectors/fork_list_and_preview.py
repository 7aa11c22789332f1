"""Forks of a session, and preview of a new one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Q

from checkpoints.enums import IMPORTED_MARK, CallStatus, KeyScope
from checkpoints.models import Checkpoint, Session, ToolCall, Workflow
from checkpoints.sessions.fork import CARRIED_STATUSES
from harness_site.sessions.selectors import call_records
from harness_site.sessions.selectors.call_records import CallRecord
from harness_site.sessions.selectors.version_lookup import Version

#: Maximum number of forks named on the pages of their origin, and of undecided calls named in the preview.
NAMED = 4
SHOWN = 20
_SETTLED = sorted(status for status, becomes in CARRIED_STATUSES.items() if becomes == CallStatus.COMPLETED)
_OPEN = sorted(set(CARRIED_STATUSES) - set(_SETTLED))
_IS_IMPORTED = Q(side_effects=IMPORTED_MARK)
_UNANSWERED_IMPORTED = _IS_IMPORTED & Q(status__in=[CallStatus.ISSUED, CallStatus.DISCARDED])


@dataclass(frozen=True, slots=True)
class ForkRow:
    pk: int
    session_id: str
    version: int | None


@dataclass(frozen=True, slots=True)
class Forks:
    """The newest forks of a session, and the number of all."""

    rows: tuple[ForkRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class ForkPreview:
    """Contents of a fork from `version`: `settled` calls, `later` of them issued after the version, and `workflows`.

    `open` calls are copied unsettled; `undecided` lists the first of them. `left` counts the calls that are not copied
    by status; `shared` calls belong to the workspace and answer in every session.

    Of the calls of imported messages in the version, `imported` ones have a result and are copied to be read; the first
    of the `unanswered_total` ones without a result, which are not copied, are listed as `unanswered`.

    `has_payload` tells whether the version has a payload: what the agent's program saved beside messages and plan.
    """

    version: Version
    settled: int
    later: int
    open: int
    undecided: tuple[CallRecord, ...]
    left: tuple[tuple[str, int], ...]
    shared: int
    workflows: int
    imported: int
    unanswered: tuple[CallRecord, ...]
    unanswered_total: int
    has_payload: bool


def load_newest_forks_and_count(session_pk: int) -> Forks:
    """Load the forks of a session, in two queries."""
    forks = Session.objects.filter(forked_from=session_pk)
    rows = forks.order_by("-pk").values_list("pk", "session_id", "forked_version")[:NAMED]
    return Forks(tuple(ForkRow(*row) for row in rows), forks.count())


def load_fork_preview(session_pk: int, version: Version) -> ForkPreview:
    """Load the preview of a fork, in at most nine queries."""
    session_calls = Q(session=session_pk, key_scope=KeyScope.SESSION)
    own_calls = session_calls & ~_IS_IMPORTED
    calls_of_messages = session_calls & _IS_IMPORTED & Q(step__lte=version.version)
    later_count = Count("pk", filter=Q(issued_at__gt=version.at))
    by_status = ToolCall.objects.filter(own_calls).values_list("status").annotate(count=Count("pk"), later=later_count)
    counts = {status: (count, after) for status, count, after in by_status}
    read = ToolCall.objects.filter(calls_of_messages).aggregate(
        completed=Count("pk", filter=Q(status=CallStatus.COMPLETED)),
        failed=Count("pk", filter=Q(status=CallStatus.FAILED)),
        unanswered=Count("pk", filter=_UNANSWERED_IMPORTED),
    )
    left = Counter({status: count for status, (count, _) in counts.items() if status not in CARRIED_STATUSES})
    left[CallStatus.FAILED.value] += read["failed"]
    records = call_records.select_call_records().order_by("pk")
    open_calls = records.filter(own_calls, status__in=_OPEN)
    unanswered = list(records.filter(calls_of_messages & _UNANSWERED_IMPORTED)[:SHOWN]) if read["unanswered"] else []
    return ForkPreview(
        version=version,
        settled=sum(counts[status][0] for status in _SETTLED if status in counts),
        later=sum(counts[status][1] for status in _SETTLED if status in counts),
        open=sum(counts[status][0] for status in _OPEN if status in counts),
        undecided=call_records.load_decisions_and_build_verified_calls(list(open_calls[:SHOWN])),
        left=tuple(sorted((+left).items())),
        shared=ToolCall.objects.filter(session=session_pk).exclude(key_scope=KeyScope.SESSION).count(),
        workflows=Workflow.objects.filter(session=session_pk).count(),
        imported=read["completed"],
        unanswered=call_records.load_decisions_and_build_verified_calls(unanswered),
        unanswered_total=read["unanswered"],
        has_payload=Checkpoint.objects.filter(
            session=session_pk, version=version.version, payload__isnull=False
        ).exists(),
    )


def find_unused_fork_id(workspace_id: int, session_id: str, version: int) -> str:
    """Return an unused id for a fork, derived from the id of its origin."""
    stem = f"{session_id[:220]}-fork-v{version}"
    sessions = Session.objects.filter(workspace=workspace_id, session_id__startswith=stem)
    used_ids = set(sessions.values_list("session_id", flat=True))
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(used_ids) + 3)))
    return next(name for name in names if name not in used_ids)
