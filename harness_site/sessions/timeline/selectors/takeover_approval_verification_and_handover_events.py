"""Events that only the audit trail has: takeovers of runs, requests for approvals and probes, hand-overs of calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeAlias

from django.db.models import Q, QuerySet

from checkpoints.db import keyset_pagination
from checkpoints.enums import AuditKind
from checkpoints.formats import parse_json, to_canonical_json
from checkpoints.models import AuditEvent
from harness_site.sessions.timeline.selectors.call_handovers_between_people import (
    HANDOVER_KINDS,
    HandOver,
    list_handovers,
)

#: Maximum number of the newest events read, and of those about claims on one call.
LIMIT: Final = 200
#: Id and step of a call.
ProbeKey: TypeAlias = tuple[str, int | None]
_RUN = re.compile(r"run (\d{1,9})\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Takeover:
    """The takeover at `at` of the session of run `number`, whose last heartbeat was at `seen_at`."""

    number: int
    at: datetime
    seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class ApprovalQuestion:
    """The request of a run for the approval of a call."""

    run_number: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """The request of `name` for the probe of a call."""

    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RunEvents:
    """Takeovers by the number of the run that lost its session; approval requests by call id, oldest first."""

    takeovers: dict[int, Takeover] = field(default_factory=dict)
    asked: dict[str, list[ApprovalQuestion]] = field(default_factory=dict)
    #: Probe requests by call id and step, oldest first.
    probes: dict[ProbeKey, list[ProbeRequest]] = field(default_factory=dict)

    def find_last_approval_request(self, call_id: str, before: datetime) -> ApprovalQuestion | None:
        """Return the last approval request for a call before a moment."""
        return next((question for question in reversed(self.asked.get(call_id, [])) if question.at <= before), None)

    def find_first_approval_request(self, call_id: str, since: datetime) -> ApprovalQuestion | None:
        """Return the first approval request for a call since a moment."""
        return next((question for question in self.asked.get(call_id, []) if question.at >= since), None)


def load_takeovers_approval_and_probe_requests(session_pk: int) -> RunEvents:
    """Load the events of a session, in one query."""
    takeovers: dict[int, Takeover] = {}
    questions: defaultdict[str, list[ApprovalQuestion]] = defaultdict(list)
    probes: defaultdict[ProbeKey, list[ProbeRequest]] = defaultdict(list)
    for kind, actor, stored_details, created_at in reversed(list(_query_takeover_and_request_events(session_pk))):
        run, details = _RUN.fullmatch(actor), _parse_event_details_or_empty(stored_details)
        if kind == AuditKind.VERIFY_REQUESTED:
            probes[_get_probe_key(details)].append(ProbeRequest(actor, created_at))
            continue
        if run is None:
            continue
        number = int(run.group(1))
        if kind == AuditKind.TAKEOVER:
            takeovers[number] = Takeover(number, created_at, _parse_event_time(details.get("last_seen")))
        else:
            questions[str(details.get("call_id"))].append(ApprovalQuestion(number, created_at))
    return RunEvents(takeovers, dict(questions), dict(probes))


def load_handovers_of_call(session_pk: int, call_id: str, step: int) -> list[HandOver]:
    """Load the hand-overs of a call and how they ended, oldest first, in one query."""
    kinds = AuditEvent.objects.filter(session=session_pk, kind__in=HANDOVER_KINDS)
    # The details are canonical JSON. Without the condition, claims on other calls would use up the limit.
    is_about_step = Q(details__contains=f'"step":{step},') | Q(details__contains=f'"step":{step}}}')
    events = kinds.filter(is_about_step, details__contains=f'"call_id":{to_canonical_json(call_id)}')
    newest = events.order_by(keyset_pagination.build_newest_first_ordering())[:LIMIT]
    stored = reversed(newest.values_list("kind", "actor", "details", "created_at"))
    entries = ((kind, actor, _parse_event_details_or_empty(details), at) for kind, actor, details, at in stored)
    return list_handovers(entry for entry in entries if _get_probe_key(entry[2]) == (call_id, step))


def _query_takeover_and_request_events(session: int) -> QuerySet[AuditEvent, tuple[str, str, str, datetime]]:
    return _select_takeover_approval_and_probe_events().filter(session=session)[:LIMIT]


@cache
def _select_takeover_approval_and_probe_events() -> QuerySet[AuditEvent, tuple[str, str, str, datetime]]:
    kinds = [AuditKind.TAKEOVER, AuditKind.APPROVAL_REQUESTED, AuditKind.VERIFY_REQUESTED]
    events = AuditEvent.objects.filter(kind__in=kinds).order_by(keyset_pagination.build_newest_first_ordering())
    return events.values_list("kind", "actor", "details", "created_at")


def load_probe_requests(sessions: Iterable[int]) -> dict[tuple[int, ProbeKey], list[ProbeRequest]]:
    """Load the probe requests by session and call, oldest first, in one query."""
    events = AuditEvent.objects.filter(session__in=sessions, kind=AuditKind.VERIFY_REQUESTED).order_by("pk")
    requests: defaultdict[tuple[int, ProbeKey], list[ProbeRequest]] = defaultdict(list)
    for session, actor, details, at in events.values_list("session_id", "actor", "details", "created_at"):
        requests[session, _get_probe_key(_parse_event_details_or_empty(details))].append(ProbeRequest(actor, at))
    return dict(requests)


def _get_probe_key(details: dict[str, Any]) -> ProbeKey:
    return str(details.get("call_id")), details.get("step")


def _parse_event_details_or_empty(stored: str) -> dict[str, Any]:
    try:
        details = parse_json(stored)
    except (ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def _parse_event_time(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
