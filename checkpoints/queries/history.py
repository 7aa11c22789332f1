"""Everything that people and machines did to one session, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any

from django.db.models import TextChoices

from checkpoints.enums import AuditKind, DecisionKind
from checkpoints.models import AuditEvent, Decision
from checkpoints.queries import keyset, origins, trail
from checkpoints.queries.origins import RunFacts
from checkpoints.serde import parse

PAGE = 100


@dataclass(frozen=True, slots=True)
class Happening:
    """An audit event, or a decision about a call (then `call_pk` and `tool` name it), and its key. `details` is JSON.

    `final` is False for one voice of the `approvals` people who have to agree; `intact` is False for an event that is
    not what was recorded.
    """

    pk: int
    at: datetime
    label: str
    kind: str
    actor: str
    actor_kind: str
    details: dict[str, Any]
    reason: str = ""
    evidence: str | None = None
    result: str | None = None
    call_pk: int | None = None
    call_id: str = ""
    tool: str = ""
    final: bool = True
    approvals: int = 1
    intact: bool = True


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """`before` is where the next page starts: the ids of the last event and the last decision shown."""

    rows: tuple[Happening, ...]
    before: tuple[int, int] | None


def takers(session_pk: int, page: HistoryPage) -> dict[str, RunFacts]:
    """The runs that took the session over on this page, each by the name of the run that it was taken from."""
    taken = [row.actor for row in page.rows if row.kind == AuditKind.TAKEOVER]
    numbers = [int(name.removeprefix("run ")) for name in taken if name.removeprefix("run ").isdecimal()]
    if not numbers:
        return {}
    found = origins.runs(session_pk, min(numbers) + 1, max(numbers) + 1)
    return {f"run {number}": found[number + 1] for number in numbers if number + 1 in found}


def page(session_pk: int, *, before: tuple[int, int] | None = None, size: int = PAGE) -> HistoryPage:
    """A decision stands for the audit event that tells of it."""
    events = AuditEvent.objects.filter(session=session_pk).exclude(kind=AuditKind.DECIDED)
    decisions = Decision.objects.filter(session=session_pk).select_related("tool_call")
    if before is not None:
        events, decisions = events.filter(pk__lt=before[0]), decisions.filter(pk__lt=before[1])
    recorded = list(events.order_by(keyset.newest())[: size + 1])
    broken = trail.broken(recorded[0].workspace_id, recorded) if recorded else frozenset()
    found = [(event.created_at, event.pk, 0, _event(event, event.pk not in broken)) for event in recorded]
    ruled = [(row.created_at, row.pk, 1, _decision(row)) for row in decisions.order_by(keyset.newest())[: size + 1]]
    newest = list(islice(merge(found, ruled, key=lambda row: row[:3], reverse=True), size + 1))
    shown = newest[:size]
    if len(newest) <= size:
        return HistoryPage(tuple(row[3] for row in shown), None)
    top = before or (2**62, 2**62)
    last = [min((row[1] for row in shown if row[2] == source), default=top[source]) for source in (0, 1)]
    return HistoryPage(tuple(row[3] for row in shown), (last[0], last[1]))


def _event(event: AuditEvent, intact: bool) -> Happening:
    return Happening(
        pk=event.pk,
        at=event.created_at,
        label=_label(AuditKind, event.kind),
        kind=event.kind,
        actor=event.actor,
        actor_kind=event.actor_kind,
        details=_details(event.details),
        intact=intact,
    )


def _decision(decision: Decision) -> Happening:
    return Happening(
        pk=decision.pk,
        at=decision.created_at,
        label=_label(DecisionKind, decision.kind),
        kind=decision.kind,
        actor=decision.actor,
        actor_kind=decision.actor_kind,
        details={},
        reason=decision.reason,
        evidence=decision.evidence,
        result=decision.result_text,
        call_pk=decision.tool_call_id,
        call_id=decision.tool_call.call_id,
        tool=decision.tool_call.tool,
        final=decision.final,
        approvals=decision.tool_call.approvals,
    )


def _label(kinds: type[TextChoices], kind: str) -> str:
    """The word for a kind; one that a newer version wrote, as it is."""
    return str(kinds(kind).label) if kind in kinds.values else kind.replace("_", " ").capitalize()


def _details(stored: str) -> dict[str, Any]:
    try:
        details = parse(stored)
    except (ValueError, RecursionError):
        return {"details": stored}
    return details if isinstance(details, dict) else {"details": details}
