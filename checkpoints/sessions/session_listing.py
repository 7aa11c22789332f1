"""Paginated list of the sessions of a workspace, as dictionaries.

Each entry has a `cursor`; the cursor of the last one, passed as `after`, returns the next page.
"""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from checkpoints.db import keyset_pagination
from checkpoints.db.keyset_pagination import Cursor
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import InvalidInput
from checkpoints.formats.canonical_json import parse_json_or_return_text, to_canonical_json
from checkpoints.generate_and_validate_ids import validate_id
from checkpoints.models import Session
from checkpoints.models.session import deserialize_labels
from checkpoints.seals import row_seals
from checkpoints.sessions.display_status import DISPLAY_STATUS_CONDITIONS, HAS_LIVE_OWNER, DisplayStatus
from checkpoints.sessions.session_list_filters_and_sorting import SessionFilter, split_into_indexed_querysets
from checkpoints.store.database_client_state import Store


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
    """List the sessions of the workspace, newest activity first. Raises `InvalidInput`."""
    keyset_pagination.validate_page_limit(limit)
    with database_operation(store.using, writes=False):
        session_filter = SessionFilter(
            agent=agent or "", among=tuple(_build_list_conditions(status, label, updated_before, after))
        )
        sessions: list[Session] = []
        for part in split_into_indexed_querysets(store.workspace_id, session_filter):
            sessions += _annotate_owner_and_order(part.using(store.using))[:limit]
        sessions.sort(key=attrgetter("updated_at", "pk"), reverse=True)
        return [_session_to_dict(row) for row in sessions[:limit]]


def _build_list_conditions(
    status: str | None, label: str | None, updated_before: datetime | None, after: str | None
) -> list[Q]:
    conditions = []
    if status is not None:
        conditions.append(_build_status_condition(status))
    if label is not None:
        conditions.append(_build_label_condition(label))
    if updated_before is not None:
        if updated_before.tzinfo is None:
            raise InvalidInput(f"updated_before is {updated_before!r}; give a datetime with a time zone.")
        conditions.append(Q(updated_at__lt=updated_before))
    if after is not None:
        conditions.append(Q(keyset_pagination.build_before_cursor_condition(_parse_cursor(after), "updated_at")))
    return conditions


def _build_status_condition(status: str) -> Q:
    if status == DisplayStatus.QUARANTINED:
        return DISPLAY_STATUS_CONDITIONS[DisplayStatus.QUARANTINED]
    try:
        return Q(status=SessionStatus(status))
    except ValueError:
        names = ", ".join([*SessionStatus, DisplayStatus.QUARANTINED])
        raise InvalidInput(f"{status!r} is not the status of a session. Use {names}.") from None


def _parse_cursor(after: str) -> Cursor:
    cursor = Cursor.parse(after)
    if cursor is None:
        raise InvalidInput(f"after is {after!r}; give the cursor of the last entry of the page before.")
    return cursor


def _build_label_condition(label: str) -> Q:
    """Condition for a label: labels are stored as a JSON list, where an element follows a bracket or a comma."""
    text = to_canonical_json(validate_id("label", label), "label")
    first, later = (StrIndex("labels", Value(f"{separator}{text}")) for separator in "[,")
    return Q(GreaterThan(first, 0)) | Q(GreaterThan(later, 0))


def _annotate_owner_and_order(sessions: QuerySet[Session]) -> QuerySet[Session]:
    has_owner = ExpressionWrapper(HAS_LIVE_OWNER, output_field=BooleanField())
    annotated = sessions.select_related("owner").annotate(
        driven=has_owner, stored_time=keyset_pagination.cast_field_to_text("updated_at")
    )
    return annotated.order_by("-updated_at", "-pk")


def _session_to_dict(row: Session) -> dict[str, Any]:
    owner = row.owner
    return {
        "session_id": row.session_id,
        "title": row.title,
        "agent": row.agent,
        "status": DisplayStatus.QUARANTINED.value if row_seals.is_row_altered(row) else row.status,
        "finished": row.finished,
        "quarantined_at": None if row.quarantined_at is None else row.quarantined_at.isoformat(),
        "labels": list(deserialize_labels(row.labels)),
        "metadata": parse_json_or_return_text(row.metadata),
        "version": row.latest_version,
        "message_count": row.message_count,
        "budget_spent_usd": row.budget_spent_usd,
        "cost_basis": row.cost_basis,
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
