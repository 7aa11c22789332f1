"""Reference implementation of the hot statements with the plain ORM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.db.hot_statements import NewVersion, SaveBase
from checkpoints.enums import DISPATCHABLE_SESSION_STATUSES, SETTLED_CALL_STATUSES, CallStatus, SessionStatus
from checkpoints.models import Checkpoint, Message, Segment, Session, ToolCall

_TOUCH = {"revision": F("revision") + 1, "updated_at": Now()}
_FOREIGN = ("run", "segment", "supersedes")


def save_versions_if_session_unchanged(
    connection: BaseDatabaseWrapper,
    base: SaveBase,
    session_values: Mapping[str, Any],
    versions: Sequence[NewVersion],
    head: None = None,
    *,
    revision: None = None,
    additional_rows: Sequence[Any] = (),
) -> int | None:
    with transaction.atomic(using=connection.alias):
        sessions = Session.objects.using(connection.alias).filter(
            pk=base.session_pk,
            fence=base.fence,
            head_segment_id=base.segment_id,
            message_count=base.length,
            head_chain=base.chain,
            latest_version=base.version,
        )
        last_version = base.version + len(versions)
        if not sessions.update(latest_version=last_version, **_TOUCH, **session_values):
            return None
        for number, version in enumerate(versions, base.version + 1):
            _save_version(connection, base.session_pk, number, version)
    return last_version


def _save_version(connection: BaseDatabaseWrapper, session_pk: int, number: int, version: NewVersion) -> None:
    segment_id = version.checkpoint_values["segment"]
    for message in version.messages:
        Message.objects.using(connection.alias).create(
            session_id=session_pk, segment_id=segment_id, **message._asdict()
        )
    Checkpoint.objects.using(connection.alias).create(
        session_id=session_pk, version=number, **_rename_foreign_keys_to_columns(version.checkpoint_values)
    )
    for answer in version.answered:
        calls = ToolCall.objects.using(connection.alias).filter(session_id=session_pk, pk=answer.pk)
        calls = calls if answer.revision is None else calls.filter(revision=answer.revision)
        calls.filter(answered_version=None, status__in=SETTLED_CALL_STATUSES).update(answered_version=number)


def insert_call_if_fence_holds(
    connection: BaseDatabaseWrapper,
    session_pk: int,
    fence: int,
    step: int | None,
    values: Mapping[str, Any],
    *,
    under_review: bool = False,
    head: None = None,
) -> tuple[int, int] | None:
    allowed_statuses = [SessionStatus.NEEDS_REVIEW] if under_review else sorted(DISPATCHABLE_SESSION_STATUSES)
    status = SessionStatus.NEEDS_REVIEW if under_review else SessionStatus.ACTIVE
    with transaction.atomic(using=connection.alias):
        sessions = Session.objects.using(connection.alias).filter(
            pk=session_pk, fence=fence, status__in=allowed_statuses
        )
        if not sessions.update(status=status, **_TOUCH):
            return None
        session = Session.objects.using(connection.alias).get(pk=session_pk)
        call = ToolCall(
            session_id=session_pk,
            workspace_id=session.workspace_id,
            step=session.latest_version if step is None else step,
            **_rename_foreign_keys_to_columns(values),
        )
        try:
            with transaction.atomic(using=connection.alias):
                call.save(using=connection.alias, force_insert=True)
        except IntegrityError:
            return None
    return call.pk, call.step


def update_call_outcome_if_still_issued(
    connection: BaseDatabaseWrapper, session_pk: int, fence: int, call_pk: int, run_id: Any, values: Mapping[str, Any]
) -> bool:
    interrupted = values["status"] == CallStatus.INTERRUPTED
    settled_at = {"interrupted_at" if interrupted else "settled_at": Now()}
    session_values = {"status": SessionStatus.NEEDS_REVIEW} if interrupted else {}
    with transaction.atomic(using=connection.alias):
        sessions = Session.objects.using(connection.alias).filter(pk=session_pk, fence=fence)
        if not sessions.exists():
            return False
        calls = ToolCall.objects.using(connection.alias).filter(
            pk=call_pk, session_id=session_pk, run_id=run_id, status=CallStatus.ISSUED
        )
        if not calls.update(revision=F("revision") + 1, **{**settled_at, **values}):
            return False
        sessions.update(**session_values, **_TOUCH)
    return True


def read_messages(
    connection: BaseDatabaseWrapper, segment_id: int, length: int, fields: Sequence[str], first: int = 0
) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    segment: Segment | None = Segment.objects.using(connection.alias).get(pk=segment_id)
    while segment is not None:
        messages = Message.objects.using(connection.alias).filter(
            segment=segment, position__gte=max(segment.parent_length, first), position__lt=length
        )
        rows = [*messages.order_by("position").values_list(*fields), *rows]
        length, segment = min(length, segment.parent_length), segment.parent
    return rows


def _rename_foreign_keys_to_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}_id" if name in _FOREIGN else name: value for name, value in values.items()}
