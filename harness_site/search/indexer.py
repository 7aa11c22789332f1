"""Incremental indexing in small batches, by any process.

Indexing does not interfere with agents: it reads committed rows by primary key. Rows that existed before the index are
read newest first, so that recent texts can be found soon; later rows in their order. An assigned key may not be
committed yet: on PostgreSQL, a transaction may end after younger ones. A batch therefore reads all keys above
`settled`. `settled` advances to a key only when every transaction that was open when the key was read has ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from checkpoints.db import clock
from checkpoints.models import ToolCall
from harness_site.search import hourly_call_and_decision_sums, index_writer, texts_to_index
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import DecisionSums, Fact, Kind, Passage, Progress, ToolSums
from harness_site.search.reopen_indexed_calls_of_withdrawn_decisions import reopen_indexed_calls_of_withdrawn_decisions
from harness_site.search.texts_to_index import IndexedText

#: Texts of one batch, few enough for a short transaction.
STEP: Final = 1_000
#: Time that a process may take for a batch before another one may start.
_LEASE: Final = timedelta(seconds=60)
#: Interval in which an idle process records that nothing is left.
_IDLE_RECORD_INTERVAL: Final = timedelta(seconds=10)
#: Number of keys below `reached` that are always read again, for a key assigned just before its transaction got its id.
_REREAD_KEYS: Final = 1_000


def index_next_batch_of_each_kind() -> int:
    """Index the next texts of each kind.

    Returns their number; 0 if the index is complete.
    """
    return sum(_index_batch_of_kind(kind) for kind in reversed(Kind))


def is_any_process_indexing() -> bool:
    """Return whether a process is indexing, or was and its lease has not expired."""
    return Progress.objects.filter(leased_until__gt=Now()).exists()


@dataclass(frozen=True, slots=True)
class _IndexBatch:
    """The keys of one batch: new ones above `settled`, changed calls, and the backlog from before the index.

    `more` is True if more new keys follow; `older` is the largest key of the remaining backlog.
    """

    new: list[int]
    changed: list[int]
    backlog: list[int]
    more: bool
    older: int

    @property
    def keys(self) -> list[int]:
        return [*self.new, *self.changed, *self.backlog]


def _index_batch_of_kind(kind: Kind) -> int:
    progress, oldest_open_xid = _get_or_create_progress(kind), _fetch_oldest_open_transaction_id()
    if not progress.older and not _has_new_or_changed_rows(progress):
        _record_complete_index_at_intervals(progress, oldest_open_xid)
        return 0
    lease = _acquire_index_lease(kind)
    if lease is None:
        return 0
    progress, oldest_open_xid = Progress.objects.get(kind=kind), _fetch_oldest_open_transaction_id()
    batch = _choose_keys_of_batch(progress)
    texts = texts_to_index.load_texts_to_index(kind, batch.keys)
    with _use_non_durable_transaction():
        # Lock all kinds, as keys may be assigned by one process at a time only.
        leases = {row.kind: row.leased_until for row in Progress.objects.select_for_update().order_by("kind")}
        if leases.get(kind) != lease:
            return 0  # The lease expired and another process may have taken over.
        _write_batch_to_index_and_sums(kind, batch, texts)
        _save_progress_and_release_lease(progress, batch, oldest_open_xid)
    if not batch.keys:
        _record_complete_index_at_intervals(progress, oldest_open_xid)
    return len(batch.keys)


def _get_or_create_progress(kind: Kind) -> Progress:
    progress = Progress.objects.filter(kind=kind).first()
    if progress is None:
        last = SOURCES[kind]._default_manager.aggregate(last=Max("pk"))["last"] or 0
        first = {"reached": last, "older": last, "horizon": _fetch_next_database_transaction_id()}
        progress, _ = Progress.objects.get_or_create(kind=kind, defaults=first)
    return progress


def _acquire_index_lease(kind: Kind) -> datetime | None:
    """Take the lease for a kind; return its end, or None if another process holds it."""
    is_free = Q(leased_until=None) | Q(leased_until__lt=Now())
    with _use_non_durable_transaction():
        if not Progress.objects.filter(is_free, kind=kind).update(leased_until=clock.build_database_time_after(_LEASE)):
            return None
        return Progress.objects.values_list("leased_until", flat=True).get(kind=kind)


@contextmanager
def _use_non_durable_transaction() -> Iterator[None]:
    """Commit without waiting for the disk.

    A power failure loses the index entries together with `Progress`, so they stay consistent.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        yield


def _choose_keys_of_batch(progress: Progress) -> _IndexBatch:
    """Choose the rows of the next batch, limited by their size in memory."""
    kind = Kind(progress.kind)
    new = texts_to_index.list_keys_and_text_sizes(kind, _query_new_rows(progress).order_by("pk")[:STEP])
    room = STEP - len(new)
    changed_calls = (
        texts_to_index.list_keys_and_text_sizes(kind, _query_open_calls_changed_since_indexed().order_by("pk")[:room])
        if kind == Kind.CALL
        else []
    )
    room -= len(changed_calls)
    backlog = (
        texts_to_index.list_keys_and_text_sizes(kind, _query_backlog_rows(progress)[:room]) if progress.older else []
    )
    keys = texts_to_index.list_keys_that_fit_in_memory([*new, *changed_calls, *backlog])
    backlog_keys = keys[len(new) + len(changed_calls) :]
    older = backlog_keys[-1] - 1 if backlog_keys else progress.older
    return _IndexBatch(
        new=keys[: len(new)],
        changed=keys[len(new) : len(new) + len(changed_calls)],
        backlog=backlog_keys,
        more=len(new) == STEP or len(keys) < len(new),
        older=0 if len(backlog_keys) == len(backlog) < room else older,
    )


def _save_progress_and_release_lease(progress: Progress, batch: _IndexBatch, oldest_open_xid: int) -> None:
    if progress.horizon <= oldest_open_xid:
        # If more follow, there may be unread keys below `reached`.
        last_read = batch.new[-1] if batch.more else progress.reached
        progress.settled = max(progress.settled, min(progress.reached, last_read) - _REREAD_KEYS)
    if batch.new and batch.new[-1] > progress.reached:
        progress.reached, progress.horizon = batch.new[-1], _fetch_next_database_transaction_id()
    progress.older, progress.leased_until = batch.older, None
    progress.save(update_fields=["settled", "reached", "horizon", "older", "leased_until"])


def _record_complete_index_at_intervals(progress: Progress, oldest_open_xid: int) -> None:
    """Record that no row was found.

    All keys up to `reached` are settled if no transaction from that time is still open.
    """
    now = clock.now()
    if progress.complete_at is None or now - progress.complete_at > _IDLE_RECORD_INTERVAL:
        settled_key = (
            max(progress.settled, progress.reached - _REREAD_KEYS)
            if progress.horizon <= oldest_open_xid
            else progress.settled
        )
        Progress.objects.filter(pk=progress.pk).update(complete_at=now, settled=settled_key)


def _fetch_oldest_open_transaction_id() -> int:
    """Return the oldest open transaction id.

    SQLite has a single writer, whose keys are committed in order.
    """
    return (
        0
        if connection.vendor == "sqlite"
        else _fetch_single_integer("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    )


def _fetch_next_database_transaction_id() -> int:
    """Return the next transaction id; every later transaction has this id or a larger one."""
    return (
        0
        if connection.vendor == "sqlite"
        else _fetch_single_integer("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    )


def _fetch_single_integer(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def _query_unindexed_rows(kind: str) -> QuerySet[Any]:
    """Query rows that are not indexed."""
    passages = Passage.objects.filter(kind=kind, source=OuterRef("pk"), part=0)
    return SOURCES[Kind(kind)]._default_manager.filter(~Exists(passages))


def _query_new_rows(progress: Progress) -> QuerySet[Any]:
    return _query_unindexed_rows(progress.kind).filter(pk__gt=max(progress.settled, progress.older))


def _query_backlog_rows(progress: Progress) -> QuerySet[Any]:
    return _query_unindexed_rows(progress.kind).filter(pk__lte=progress.older).order_by("-pk")


def _query_open_calls_changed_since_indexed() -> QuerySet[ToolCall]:
    """Query calls that have changed since they were indexed while not settled."""
    open_passages = Passage.objects.filter(open=True, part=0, kind=Kind.CALL, source=OuterRef("pk"))
    open_sources = Passage.objects.filter(open=True, part=0, kind=Kind.CALL).values("source")
    return ToolCall.objects.filter(Exists(open_passages.exclude(revision=OuterRef("revision"))), pk__in=open_sources)


def _has_new_or_changed_rows(progress: Progress) -> bool:
    return _query_new_rows(progress).exists() or (
        progress.kind == Kind.CALL and _query_open_calls_changed_since_indexed().exists()
    )


def _write_batch_to_index_and_sums(kind: Kind, batch: _IndexBatch, texts: list[IndexedText]) -> None:
    Passage.objects.filter(kind=kind, source__in=batch.changed).delete()
    texts = index_writer.lock_sources_and_keep_existing_texts(kind, texts)
    if kind == Kind.CALL:
        texts = _mark_texts_of_changed_calls_open(texts)
    elif kind == Kind.DECISION:
        hourly_call_and_decision_sums.add_tallies_to_hour_and_day_sums(
            reopen_indexed_calls_of_withdrawn_decisions(batch.keys)
        )
    index_writer.index_texts(kind, texts)
    hourly_call_and_decision_sums.add_tallies_to_hour_and_day_sums(text.tally for text in texts if text.tally)


def _mark_texts_of_changed_calls_open(texts: list[IndexedText]) -> list[IndexedText]:
    """Return the texts of calls; one that has changed since it was loaded is open, so that it is indexed again."""
    revisions = dict(ToolCall.objects.filter(pk__in=[text.source for text in texts]).values_list("pk", "revision"))
    return [text if revisions[text.source] == text.revision else replace(text, open=True, tally=None) for text in texts]


def clear_index_with_call_and_decision_sums() -> None:
    """Empty the index, to be rebuilt under the current masking rules."""
    with transaction.atomic():
        ToolSums.objects.all().delete()
        DecisionSums.objects.all().delete()
        Progress.objects.all().delete()
        Passage.objects.all().delete()
        Fact.objects.all().delete()
