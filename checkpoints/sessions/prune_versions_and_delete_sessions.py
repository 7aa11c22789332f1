"""Retention: remove versions and whole sessions, and the messages that become unreachable.

The newest version of a session is always kept, and so is every message that a remaining version or a fork reaches.
Version numbers are never reused. Versions are removed only if all rows of their session are as they were written, so
that no removal takes away the evidence of an alteration; a whole session is removed in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from django.db import connections, transaction
from django.db.models import F, Max, Model, QuerySet
from django.db.models.functions import Now

from checkpoints.audit import insert_unchained_events
from checkpoints.db.batched_row_iteration import iterate_rows_read_in_batches
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import AuditKind, SessionStatus
from checkpoints.exceptions import StillNeeded, VersionNotFound
from checkpoints.formats.canonical_json import parse_json
from checkpoints.integrity import verify_session_rows
from checkpoints.models import (
    AuditEvent,
    Blob,
    CallValue,
    Checkpoint,
    Decision,
    FrameworkState,
    FrameworkWrite,
    Join,
    LateResult,
    Message,
    PausedTask,
    PeerCall,
    Run,
    Segment,
    Session,
    ToolCall,
)
from checkpoints.seals import witness
from checkpoints.sessions import peer_pause_blocking_and_closing, unneeded_framework_state_removal
from checkpoints.sessions.version_retention_rule import RemovalCounts, RetentionRule
from checkpoints.store import look_up_and_lock_rows, run_liveness_check
from checkpoints.store.database_client_state import Store
from checkpoints.versions import load_run_phase_and_snapshot, opaque_bytes_as_message_differences

_UNDELETABLE_STATUSES = frozenset({SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED})


#: Events that say what was removed. Their time is that of the beginning of their transaction.
_REMOVALS: Final = frozenset({AuditKind.SESSION_DELETED, AuditKind.VERSIONS_REMOVED})
_LONGEST_TRANSACTION: Final = timedelta(minutes=1)


def prune_versions(store: Store, session_id: str, retention: RetentionRule, *, dry_run: bool = False) -> RemovalCounts:
    """Remove the versions of a session that `retention` does not keep.

    Raises `SessionNotFound`, and `IntegrityError` or `SealKeyMissing` if a row of the session is not as it was written.
    """
    with database_operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
                versions = Checkpoint.objects.using(store.using).filter(session=row)
                newest = versions.order_by("-version").first()
                snapshot_version = (
                    None
                    if newest is None
                    else load_run_phase_and_snapshot.find_earlier_version_with_valid_snapshot(store, session_id, newest)
                )
                numbers = [] if newest is None else _list_removable_versions(retention, versions, newest.version)
                numbers = [number for number in numbers if snapshot_version is None or number < snapshot_version]
                if numbers:
                    verify_session_rows.require_session_unaltered(store.using, row)
                return _remove_versions_or_roll_back_dry_run(store, row, numbers, dry_run=dry_run)
        except _DryRunRollback as dry:
            return dry.removed


def _list_removable_versions(rule: RetentionRule, versions: QuerySet[Checkpoint], newest: int) -> list[int]:
    """List the version numbers that may be removed, oldest first."""
    removable = versions.exclude(version=newest)
    if rule.older_than is not None:
        removable = removable.filter(created_at__lt=Now() - rule.older_than)
    numbers = list(removable.order_by("version").values_list("version", flat=True))
    if rule.keep_last is not None:
        last = set(versions.order_by("-version").values_list("version", flat=True)[: rule.keep_last])
        numbers = [number for number in numbers if number not in last]
    if rule.keep_every is not None:
        numbers = [number for number in numbers if number % rule.keep_every]
    return numbers


def delete_version(store: Store, session_id: str, version: int) -> RemovalCounts:
    """Remove one version; its number is not reused.

    Raises `SessionNotFound`, `VersionNotFound`, and `StillNeeded` for the newest version of a session that somebody
    else drives or that waits for a decision, and for the versions that the newest one depends on. Raises
    `IntegrityError` or `SealKeyMissing` if a row of the session is not as it was written.
    """
    with database_operation(store.using), transaction.atomic(using=store.using):
        row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
        versions = Checkpoint.objects.using(store.using).filter(session=row)
        if not versions.filter(version=version).exists():
            raise VersionNotFound(session_id, version)
        verify_session_rows.require_session_unaltered(store.using, row)
        newest = versions.latest("version")
        if version == newest.version:
            _require_session_deletable(store, row)
            _move_head_back_and_mark_calls_unanswered(store, row, versions.exclude(version=version))
        else:
            snapshot_version = load_run_phase_and_snapshot.find_earlier_version_with_valid_snapshot(
                store, session_id, newest
            )
            if snapshot_version is not None and version >= snapshot_version:
                raise StillNeeded(session_id, f"version {newest.version} goes on from version {version}")
        return _remove_versions_or_roll_back_dry_run(store, row, [version], dry_run=False)


def _move_head_back_and_mark_calls_unanswered(store: Store, row: Session, remaining: QuerySet[Checkpoint]) -> None:
    newest = remaining.order_by("-version").first()
    if newest is None:
        raise StillNeeded(row.session_id, "this is its only version")
    row.head_segment_id, row.head_chain, row.message_count = newest.segment_id, newest.chain, newest.length
    row.save(using=store.using, update_fields=["head_segment", "head_chain", "message_count"])
    # Calls that only removed versions have answered become unanswered.
    calls = ToolCall.objects.using(store.using).filter(session=row, answered_version__gt=newest.version)
    calls.update(answered_version=None)
    owned_session = store.find_owned_session(row.session_id)
    if owned_session is not None:
        owned_session.operations.reset_pairings()


def _require_session_deletable(store: Store, row: Session) -> None:
    if row.status in _UNDELETABLE_STATUSES:
        raise StillNeeded(row.session_id, f"it is {row.status.replace('_', ' ')}")
    if (
        peer_pause_blocking_and_closing.find_blocking_paused_task(store, row) is not None
        or peer_pause_blocking_and_closing.select_open_calls_to_agents(store, row).exists()
    ):
        raise StillNeeded(row.session_id, "it waits for other agents, or their answers are not used yet")
    owned_session = store.find_owned_session(row.session_id)
    if (
        row.owner is not None
        and (owned_session is None or owned_session.run_id != row.owner_id)
        and run_liveness_check.is_run_alive(row.owner)
    ):
        raise StillNeeded(row.session_id, f"run {row.owner.number} drives it")


class _DryRunRollback(Exception):
    """Exception that carries the result of a dry run out of the transaction that is rolled back."""

    def __init__(self, removed: RemovalCounts) -> None:
        self.removed = removed


def _remove_versions_or_roll_back_dry_run(
    store: Store, row: Session, numbers: list[int], *, dry_run: bool
) -> RemovalCounts:
    count = Checkpoint.objects.using(store.using).filter(session=row, version__in=numbers).delete()[0]
    if count:
        unneeded_framework_state_removal.delete_states_before_oldest_version(store.using, row)
    messages = _delete_unreachable_messages_and_segments(store, row) if count else 0
    if dry_run:
        raise _DryRunRollback(RemovalCounts(count, messages, dry_run=True))
    if count:
        Session.objects.using(store.using).filter(pk=row.pk).update(revision=F("revision") + 1, updated_at=Now())
        kind = AuditKind.VERSIONS_REMOVED
        insert_unchained_events.record_event(
            store, kind, session_pk=row.pk, actor="retention", versions=count, messages=messages
        )
    return RemovalCounts(count, messages)


def _delete_unreachable_messages_and_segments(store: Store, row: Session) -> int:
    """Remove the messages and segments of a session that no version and no fork reaches. Returns the number of
    messages.

    A segment is needed up to the longest version that ends in it, and up to each branch that leaves it. Segments are
    created after their parents, so going from the newest to the oldest sees every branch before its parent.
    """
    count = 0
    bases = opaque_bytes_as_message_differences.find_base_segment_keys(store.using, row)
    segments = Segment.objects.using(store.using).filter(session=row)
    messages = Message.objects.using(store.using)
    ends = _load_longest_version_length_by_segment(store, row)
    ends[row.head_segment_id] = max(row.message_count, ends.get(row.head_segment_id, 0))
    for segment in segments.order_by("-pk"):
        branches = segment.children.using(store.using).aggregate(end=Max("parent_length"))["end"]
        needed = max(ends.get(segment.pk, -1), -1 if branches is None else branches)
        if segment.pk in bases:
            opaque_bytes_as_message_differences.inline_contents_that_refer_to_messages(
                store.using, row, segment.pk, max(needed, 0)
            )
        count += messages.filter(segment=segment, position__gte=max(needed, 0)).delete()[0]
        if needed < 0:
            segment.delete(using=store.using)
    return count


def _load_longest_version_length_by_segment(store: Store, row: Session) -> dict[int | None, int]:
    versions = Checkpoint.objects.using(store.using).filter(segment__session=row)
    return dict(versions.values_list("segment_id").annotate(end=Max("length")))


# whole sessions


def delete_session(
    store: Store, session_id: str, *, dry_run: bool = False, condition: Callable[[Session], None] | None = None
) -> RemovalCounts:
    """Remove a session with all its rows. Messages that a fork reaches are handed over to the fork.

    Notices to other agents that are not delivered yet are dropped. `condition` gets the locked session, and raises what
    forbids it. Raises `SessionNotFound`, and `StillNeeded` while a run drives the session or a person has to decide.
    """
    with database_operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                row = look_up_and_lock_rows.get_session(store, session_id, lock=True)
                if condition is not None:
                    condition(row)
                _require_session_deletable(store, row)
                if row.owner is not None and run_liveness_check.is_run_alive(row.owner):
                    raise StillNeeded(session_id, f"run {row.owner.number} drives it; finish it first")
                counts = _delete_session_rows(store, row)
                if dry_run:
                    raise _DryRunRollback(RemovalCounts(counts.versions, counts.messages, dry_run=True))
                insert_unchained_events.record_event(
                    store,
                    AuditKind.SESSION_DELETED,
                    session_pk=row.pk,
                    actor="retention",
                    session_id=session_id,
                    versions=counts.versions,
                    messages=counts.messages,
                )
        except _DryRunRollback as dry:
            return dry.removed
        _truncate_sqlite_write_ahead_log(store)
        return counts


def find_removal_counts_in_audit_trail_since(store: Store, session_id: str, since: datetime) -> RemovalCounts | None:
    """Find what the newest removal of versions of a session, or of all of it, has removed, if it was not before
    `since`."""
    events = AuditEvent.objects.using(store.using).filter(workspace=store.workspace_id)
    with database_operation(store.using, writes=False):
        session = Session.objects.using(store.using).filter(workspace=store.workspace_id, session_id=session_id)
        session_pk = session.values_list("pk", flat=True).first()
        for event in iterate_rows_read_in_batches(events, descending=True):
            if event.created_at < since - _LONGEST_TRANSACTION:
                break
            details = parse_json(event.details) if event.kind in _REMOVALS and event.created_at >= since else {}
            if details and (details.get("session_id") == session_id or event.session_id == session_pk):
                return RemovalCounts(details["versions"], details["messages"])
    return None


def _delete_session_rows(store: Store, row: Session) -> RemovalCounts:
    of_session: list[type[Model]] = [Decision, LateResult, CallValue, ToolCall, PeerCall, Join, PausedTask]
    of_session += [FrameworkWrite, FrameworkState, Blob]
    for model in of_session:
        model._default_manager.using(store.using).filter(session=row).delete()
    versions = Checkpoint.objects.using(store.using).filter(session=row).delete()[0]
    Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=None, owner=None)
    row.head_segment_id = None
    messages = _delete_unreachable_messages_and_segments(store, row)
    _transfer_segments_to_forks(store, row)
    Session.objects.using(store.using).filter(forked_from=row).update(forked_from=None, forked_version=None)
    Run.objects.using(store.using).filter(session=row).delete()
    Session.objects.using(store.using).filter(pk=row.pk).delete()
    witness.record_deleted_session_on_commit(store.using, row.key_space, row.pk)
    return RemovalCounts(versions, messages)


def _transfer_segments_to_forks(store: Store, row: Session) -> None:
    """Give each remaining segment to the first session that branches from it, a fork.

    One that a version of another session ends in, which somebody else has moved here, goes back to that session.
    """
    for segment in Segment.objects.using(store.using).filter(session=row).order_by("-pk"):
        of_versions = segment.checkpoints.using(store.using).order_by("pk").values_list("session_id", flat=True)
        of_branches = segment.children.using(store.using).order_by("pk").values_list("session_id", flat=True)
        heir = of_versions.first() or of_branches[0]
        Segment.objects.using(store.using).filter(pk=segment.pk).update(session_id=heir)
        Message.objects.using(store.using).filter(segment=segment).update(session_id=heir)


def _truncate_sqlite_write_ahead_log(store: Store) -> None:
    """On SQLite, truncate the write-ahead log too, so that it holds no deleted data; busy readers may delay that a
    little."""
    connection = connections[store.using]
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
