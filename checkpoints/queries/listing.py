"""Sessions, and the calls that wait for a decision, as dictionaries: lists for programs, page by page.

Each entry has a `cursor`; that of the last one, given as `after`, begins the next page.
"""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from checkpoints.enums import UNDECIDED_CALL, CallStatus, SessionStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.ids import checked, checked_number
from checkpoints.models import Session, ToolCall
from checkpoints.queries import keyset
from checkpoints.queries.keyset import Cursor
from checkpoints.queries.known import labels_of
from checkpoints.queries.narrowing import SessionFilter, streams
from checkpoints.queries.standing import DRIVEN
from checkpoints.saving import calls
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store
from checkpoints.serde.canonical import canonical, parse

#: A list shows at most so many entries at once.
LIMIT = 1000


def list_sessions(
    store: Store,
    *,
    status: str | None = None,
    agent: str | None = None,
    label: str | None = None,
    updated_before: datetime | None = None,
    after: str | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Sessions of the workspace, newest activity first. Raises `InvalidInput`."""
    _checked_limit(limit)
    with operation(store.using, writes=False):
        wanted = SessionFilter(agent=agent or "", among=tuple(_conditions(status, label, updated_before, after)))
        found: list[Session] = []
        for part in streams(store.workspace_id, wanted):
            found += _told(part.using(store.using))[:limit]
        found.sort(key=attrgetter("updated_at", "pk"), reverse=True)
        return [_session(row) for row in found[:limit]]


def _conditions(status: str | None, label: str | None, updated_before: datetime | None, after: str | None) -> list[Q]:
    conditions = []
    if status is not None:
        conditions.append(Q(status=_checked_status(status)))
    if label is not None:
        conditions.append(_labelled(label))
    if updated_before is not None:
        if updated_before.tzinfo is None:
            raise InvalidInput(f"updated_before is {updated_before!r}; give a datetime with a time zone.")
        conditions.append(Q(updated_at__lt=updated_before))
    if after is not None:
        conditions.append(Q(keyset.before(_checked_cursor(after), "updated_at")))
    return conditions


def _checked_status(status: str) -> SessionStatus:
    try:
        return SessionStatus(status)
    except ValueError:
        raise InvalidInput(f"{status!r} is not the status of a session. Use {', '.join(SessionStatus)}.") from None


def _checked_cursor(after: str) -> Cursor:
    cursor = Cursor.parse(after)
    if cursor is None:
        raise InvalidInput(f"after is {after!r}; give the cursor of the last entry of the page before.")
    return cursor


def _labelled(label: str) -> Q:
    """Labels are stored as a JSON list; an element of one stands behind a bracket or a comma."""
    text = canonical(checked("label", label), "label")
    first, later = (StrIndex("labels", Value(f"{before}{text}")) for before in "[,")
    return Q(GreaterThan(first, 0)) | Q(GreaterThan(later, 0))


def _told(found: QuerySet[Session]) -> QuerySet[Session]:
    driven = ExpressionWrapper(DRIVEN, output_field=BooleanField())
    told = found.select_related("owner").annotate(driven=driven, stored_time=keyset.stored_text("updated_at"))
    return told.order_by("-updated_at", "-pk")


def _session(row: Session) -> dict[str, Any]:
    owner = row.owner
    return {
        "session_id": row.session_id,
        "title": row.title,
        "agent": row.agent,
        "status": row.status,
        "finished": row.finished,
        "labels": list(labels_of(row.labels)),
        "metadata": _metadata(row.metadata),
        "version": row.latest_version,
        "message_count": row.message_count,
        "budget_spent_usd": row.budget_spent_usd,
        "total_tokens": row.total_tokens,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
        "owner": None
        if owner is None
        else {
            "run_id": str(owner.pk),
            "host": owner.host,
            "pid": owner.pid,
            "last_seen": owner.heartbeat_at.isoformat(),
            "lease_ends": owner.lease_expires_at.isoformat(),
            "alive": bool(row.driven),  # type: ignore[attr-defined]
        },
        "cursor": str(Cursor(str(row.stored_time), row.pk)),  # type: ignore[attr-defined]
    }


def _metadata(stored: str) -> Any:
    """What a session was started with; text that is damaged as the text it is, so that a list can still be shown."""
    try:
        return parse(stored)
    except ValueError:
        return stored


def pending_decisions(
    store: Store, *, agent: str | None = None, after: int | None = None, limit: int = 50
) -> list[dict[str, Any]]:
    """The calls of all sessions of the workspace that wait for a person, the oldest first. Raises `InvalidInput`."""
    _checked_limit(limit)
    with operation(store.using, writes=False):
        noticed = ToolCall.objects.using(store.using).filter(
            workspace_id=store.workspace_id, status__in=sorted(UNDECIDED_CALL)
        )
        found: list[ToolCall] = []
        for part in (noticed, calls.abandoned(store)):
            if agent is not None:
                part = part.filter(session__agent=agent.replace("\0", ""))
            if after is not None:
                # A sum, for the reason that `keyset.oldest` names.
                part = part.alias(key=F("pk") + 0).filter(key__gt=checked_number("after", after))
            found += part.select_related("session", "run").order_by(keyset.oldest())[:limit]
        shown = sorted(found, key=attrgetter("pk"))[:limit]
        reasons = calls.verify_reasons(store, shown)
        return [_undecided(call, reasons.get(call.pk)) for call in shown]


def _undecided(call: ToolCall, verify_reason: str | None) -> dict[str, Any]:
    waits_since = call.interrupted_at if call.status == CallStatus.INTERRUPTED else call.issued_at
    return {
        **calls.as_dict(call, verify_reason=verify_reason),
        "session_id": call.session.session_id,
        "agent": call.session.agent,
        "sentence": call.sentence,
        "risk": call.risk,
        "waits_since": None if waits_since is None else waits_since.isoformat(),
        "deadline": None if call.deadline is None else call.deadline.isoformat(),
        "cursor": call.pk,
    }


def _checked_limit(limit: int) -> None:
    if checked_number("limit", limit, least=1) > LIMIT:
        raise InvalidInput(f"limit is {limit}; {LIMIT} is the most.")
