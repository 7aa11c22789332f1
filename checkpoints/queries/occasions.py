"""What only the audit trail of a session remembers of its runs: who was taken over, who asked for an
approval, when somebody asked for a probe."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet

from checkpoints.enums import AuditKind
from checkpoints.models import AuditEvent
from checkpoints.queries import keyset
from checkpoints.serde import parse

#: The newest so many of all are looked at.
LIMIT = 200
#: The id and the step of a call.
ProbeKey: TypeAlias = tuple[str, int | None]
_RUN = re.compile(r"run (\d{1,9})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Takeover:
    """At `at`, the session was taken from run `number`, which had shown signs of life until `seen_at`."""

    number: int
    at: datetime
    seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Asked:
    """When a run asked for the approval of a call."""

    run_number: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Occasions:
    """Takeovers by the number of the run that lost its session; questions by call id, oldest first."""

    takeovers: dict[int, Takeover] = field(default_factory=dict)
    asked: dict[str, list[Asked]] = field(default_factory=dict)
    #: When the probe of a call was last asked for, by its id and step.
    probes: dict[ProbeKey, datetime] = field(default_factory=dict)

    def question(self, call_id: str, before: datetime) -> Asked | None:
        """The last time somebody was asked about a call by then."""
        return next((asked for asked in reversed(self.asked.get(call_id, [])) if asked.at <= before), None)


def read(session_pk: int) -> Occasions:
    """One query."""
    takeovers: dict[int, Takeover] = {}
    asked: defaultdict[str, list[Asked]] = defaultdict(list)
    probes: dict[ProbeKey, datetime] = {}
    for event in reversed(list(_remembered(session_pk))):
        run, details = _RUN.fullmatch(event.actor), _details(event.details)
        if event.kind == AuditKind.VERIFY_REQUESTED:
            probes[_probe(details)] = event.created_at
            continue
        if run is None:
            continue
        number = int(run.group(1))
        if event.kind == AuditKind.TAKEOVER:
            takeovers[number] = Takeover(number, event.created_at, _moment(details.get("last_seen")))
        else:
            asked[str(details.get("call_id"))].append(Asked(number, event.created_at))
    return Occasions(takeovers, dict(asked), probes)


def _remembered(session: int) -> QuerySet[AuditEvent]:
    kinds = [AuditKind.TAKEOVER, AuditKind.APPROVAL_REQUESTED, AuditKind.VERIFY_REQUESTED]
    return AuditEvent.objects.filter(session=session, kind__in=kinds).order_by(keyset.newest())[:LIMIT]


def probe_times(sessions: Iterable[int]) -> dict[tuple[int, ProbeKey], datetime]:
    """When the probes of calls were last asked for, by session and call; one query."""
    events = AuditEvent.objects.filter(session__in=sessions, kind=AuditKind.VERIFY_REQUESTED).order_by("pk")
    rows = events.values_list("session_id", "details", "created_at")
    return {(session, _probe(_details(details))): at for session, details, at in rows}


def _probe(details: dict[str, Any]) -> ProbeKey:
    return str(details.get("call_id")), details.get("step")


def _details(stored: str) -> dict[str, Any]:
    try:
        details = parse(stored)
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
