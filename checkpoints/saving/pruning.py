"""Retention: removing versions and whole sessions, and the messages that nothing reaches any more.

The newest version of a session always stays, and so does every message that a remaining version or a fork reaches.
Version numbers never come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.db import connections, transaction
from django.db.models import F, Max, QuerySet
from django.db.models.functions import Now

from checkpoints.enums import AuditKind, SessionStatus
from checkpoints.exceptions import InvalidInput, StillNeeded, VersionNotFound
from checkpoints.models import (
    Checkpoint,
    Decision,
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
from checkpoints.saving import audit, liveness, lookup, pauses, phases
from checkpoints.saving.operations import operation
from checkpoints.saving.store import Store

_IN_USE = frozenset({SessionStatus.NEEDS_REVIEW, SessionStatus.READY, SessionStatus.PAUSED})


@dataclass(frozen=True)
class Retention:
    """Which versions stay: the last `keep_last`, every `keep_every`-th number, and those younger than `older_than`.

    At least one has to be given; the newest version always stays.
    """

    keep_last: int | None = None
    keep_every: int | None = None
    older_than: timedelta | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_every is None and self.older_than is None:
            raise InvalidInput("Say what to keep: keep_last, keep_every or older_than.")
        for name in ("keep_last", "keep_every"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidInput(f"{name} is {value!r}; it has to be a whole number from 1.")
        if self.older_than is not None and self.older_than < timedelta(0):
            raise InvalidInput("older_than cannot be negative.")

    def removable(self, versions: QuerySet[Checkpoint], newest: int) -> list[int]:
        """The version numbers that may go, oldest first."""
        found = versions.exclude(version=newest)
        if self.older_than is not None:
            found = found.filter(created_at__lt=Now() - self.older_than)
        numbers = list(found.order_by("version").values_list("version", flat=True))
        if self.keep_last is not None:
            last = set(versions.order_by("-version").values_list("version", flat=True)[: self.keep_last])
            numbers = [number for number in numbers if number not in last]
        if self.keep_every is not None:
            numbers = [number for number in numbers if number % self.keep_every]
        return numbers


@dataclass(frozen=True)
class Removed:
    """Numbers of what was removed, or with a dry run would be.

    Attributes:
        versions: Number of versions.
        messages: Number of messages.
        dry_run: Whether nothing was removed.
    """

    versions: int
    messages: int
    dry_run: bool = False


def prune(store: Store, session_id: str, retention: Retention, *, dry_run: bool = False) -> Removed:
    """Remove the versions of a session that `retention` does not keep. Raises `SessionNotFound`."""
    with operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                row = lookup.session(store, session_id, lock=True)
                versions = Checkpoint.objects.using(store.using).filter(session=row)
                newest = versions.order_by("-version").first()
                kept = None if newest is None else phases.snapshot_version(store, session_id, newest)
                numbers = [] if newest is None else retention.removable(versions, newest.version)
                numbers = [number for number in numbers if kept is None or number < kept]
                return _remove(store, row, numbers, dry_run=dry_run)
        except _DryRunError as dry:
            return dry.removed


def delete_version(store: Store, session_id: str, version: int) -> Removed:
    """Remove one version; its number does not come back.

    Raises `SessionNotFound`, `VersionNotFound`, and `StillNeeded` for the newest version of a session that somebody
    else drives or that waits for a decision, and for those that the newest one goes on from.
    """
    with operation(store.using), transaction.atomic(using=store.using):
        row = lookup.session(store, session_id, lock=True)
        versions = Checkpoint.objects.using(store.using).filter(session=row)
        if not versions.filter(version=version).exists():
            raise VersionNotFound(session_id, version)
        newest = versions.latest("version")
        if version == newest.version:
            _require_unused(store, row)
            _move_head_back(store, row, versions.exclude(version=version))
        else:
            kept = phases.snapshot_version(store, session_id, newest)
            if kept is not None and version >= kept:
                raise StillNeeded(session_id, f"version {newest.version} goes on from version {version}")
        return _remove(store, row, [version], dry_run=False)


def _move_head_back(store: Store, row: Session, remaining: QuerySet[Checkpoint]) -> None:
    newest = remaining.order_by("-version").first()
    if newest is None:
        raise StillNeeded(row.session_id, "this is its only version")
    row.head_segment_id, row.head_chain, row.message_count = newest.segment_id, newest.chain, newest.length
    row.save(using=store.using, update_fields=["head_segment", "head_chain", "message_count"])
    # What only removed versions have answered is not answered any more.
    calls = ToolCall.objects.using(store.using).filter(session=row, answered_version__gt=newest.version)
    calls.update(answered_version=None)
    held = store.holds(row.session_id)
    if held is not None:
        held.operations.reset()


def _require_unused(store: Store, row: Session) -> None:
    if row.status in _IN_USE:
        raise StillNeeded(row.session_id, f"it is {SessionStatus(row.status).label.lower()}")
    if pauses.holding(store, row) is not None or pauses.open_calls(store, row).exists():
        raise StillNeeded(row.session_id, "it waits for other agents, or their answers are not used yet")
    held = store.holds(row.session_id)
    if row.owner is not None and (held is None or held.run_id != row.owner_id) and liveness.is_alive(row.owner):
        raise StillNeeded(row.session_id, f"run {row.owner.number} drives it")


class _DryRunError(Exception):
    """Carries the result of a dry run out of the transaction that is rolled back."""

    def __init__(self, removed: Removed) -> None:
        self.removed = removed


def _remove(store: Store, row: Session, numbers: list[int], *, dry_run: bool) -> Removed:
    removed = Checkpoint.objects.using(store.using).filter(session=row, version__in=numbers).delete()[0]
    messages = _collect(store, row) if removed else 0
    if dry_run:
        raise _DryRunError(Removed(removed, messages, dry_run=True))
    if removed:
        Session.objects.using(store.using).filter(pk=row.pk).update(revision=F("revision") + 1, updated_at=Now())
        kind = AuditKind.VERSIONS_REMOVED
        audit.record(store, kind, session_pk=row.pk, actor="retention", versions=removed, messages=messages)
    return Removed(removed, messages)


def _collect(store: Store, row: Session) -> int:
    """Remove the messages and segments of a session that no version and no fork reaches. Returns how many messages.

    A segment is needed up to the longest version that ends in it, and up to each branch that leaves it. Segments are
    made after their parents, so going from the newest to the oldest sees every branch before its parent.
    """
    removed = 0
    segments = Segment.objects.using(store.using).filter(session=row)
    messages = Message.objects.using(store.using)
    ends = _longest_version(store, row)
    ends[row.head_segment_id] = max(row.message_count, ends.get(row.head_segment_id, 0))
    for segment in segments.order_by("-pk"):
        branches = segment.children.using(store.using).aggregate(end=Max("parent_length"))["end"]
        needed = max(ends.get(segment.pk, -1), -1 if branches is None else branches)
        removed += messages.filter(segment=segment, position__gte=max(needed, 0)).delete()[0]
        if needed < 0:
            segment.delete(using=store.using)
    return removed


def _longest_version(store: Store, row: Session) -> dict[int | None, int]:
    versions = Checkpoint.objects.using(store.using).filter(segment__session=row)
    return dict(versions.values_list("segment_id").annotate(end=Max("length")))


# whole sessions


def delete_session(store: Store, session_id: str, *, dry_run: bool = False) -> Removed:
    """Remove a session and everything of it. Messages that a fork of it reaches go over to the fork; what other agents
    have not been told yet, they are not told any more.

    Raises `SessionNotFound`, and `StillNeeded` while a run drives it or a person has to decide.
    """
    with operation(store.using):
        try:
            with transaction.atomic(using=store.using):
                row = lookup.session(store, session_id, lock=True)
                _require_unused(store, row)
                if row.owner is not None and liveness.is_alive(row.owner):
                    raise StillNeeded(session_id, f"run {row.owner.number} drives it; finish it first")
                removed = _delete(store, row)
                if dry_run:
                    raise _DryRunError(Removed(removed.versions, removed.messages, dry_run=True))
                audit.record(
                    store,
                    AuditKind.SESSION_DELETED,
                    session_pk=row.pk,
                    actor="retention",
                    session_id=session_id,
                    versions=removed.versions,
                )
        except _DryRunError as dry:
            return dry.removed
        _wipe(store)
        return removed


def _delete(store: Store, row: Session) -> Removed:
    of_session = [Decision, LateResult, ToolCall, PeerCall, Join, PausedTask]
    for model in of_session:
        model._default_manager.using(store.using).filter(session=row).delete()
    versions = Checkpoint.objects.using(store.using).filter(session=row).delete()[0]
    Session.objects.using(store.using).filter(pk=row.pk).update(head_segment=None, owner=None)
    row.head_segment_id = None
    messages = _collect(store, row)
    _hand_over(store, row)
    Session.objects.using(store.using).filter(forked_from=row).update(forked_from=None, forked_version=None)
    Run.objects.using(store.using).filter(session=row).delete()
    Session.objects.using(store.using).filter(pk=row.pk).delete()
    return Removed(versions, messages)


def _hand_over(store: Store, row: Session) -> None:
    """What is left of the segments belongs to forks: give each to the first session that branches from it."""
    for segment in Segment.objects.using(store.using).filter(session=row).order_by("-pk"):
        heir = segment.children.using(store.using).order_by("pk").values_list("session_id", flat=True)[0]
        Segment.objects.using(store.using).filter(pk=segment.pk).update(session_id=heir)
        Message.objects.using(store.using).filter(segment=segment).update(session_id=heir)


def _wipe(store: Store) -> None:
    """On SQLite, take what was deleted out of the write-ahead log too; busy readers may keep it a little longer."""
    connection = connections[store.using]
    if connection.vendor == "sqlite" and not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
