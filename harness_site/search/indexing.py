"""Bringing the index up to the store, in small steps, by whoever has the time.

Nothing here is on the agents' way: it reads what they have committed, by primary key. What was there when the index was
begun is read from the newest on, so that what people look for is found soon; what comes since, in its order. A key that
is given out is not yet a key that is committed: on PostgreSQL a transaction may end after younger ones. Therefore a
step looks at all that stands behind `settled`, and `settled` follows when every transaction that was open at the time
has ended.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.models import ToolCall
from harness_site.search import texts, tool_days, writing
from harness_site.search.leaving import SOURCES
from harness_site.search.models import Fact, Kind, Passage, Progress, ToolDay
from harness_site.search.texts import Found

#: Texts of one step: little enough that a step's transaction is over in a moment.
STEP: Final = 1_000
#: How long a process may take for a step before another one may try.
_LEASE: Final = timedelta(seconds=60)
#: How often a process that finds nothing to do says so.
_QUIET: Final = timedelta(seconds=10)
#: So many keys behind `reached` are looked at again and again: one that was given out a moment before its transaction
#: got its number is among them.
_MARGIN: Final = 1_000


def step() -> int:
    """Take the next texts of each kind into the index. Returns how many; 0 says that it is complete."""
    return sum(_step(kind) for kind in reversed(Kind))


def elsewhere() -> bool:
    """Whether another process is at a step, or was and has not been given up yet."""
    return Progress.objects.filter(leased_until__gt=Now()).exists()


@dataclass(frozen=True, slots=True)
class _Batch:
    """The keys of one step: those behind `settled`, of calls that have changed, and of what waits since the beginning.
    `more` says that more of the first follow, `older` up to which key something waits after this step."""

    new: list[int]
    changed: list[int]
    backlog: list[int]
    more: bool
    older: int

    @property
    def keys(self) -> list[int]:
        return [*self.new, *self.changed, *self.backlog]


def _step(kind: Kind) -> int:
    progress, oldest = _progress(kind), _oldest_open()
    if not progress.older and not _anything(progress):
        _quiet(progress, oldest)
        return 0
    lease = _lease(kind)
    if lease is None:
        return 0
    progress, oldest = Progress.objects.get(kind=kind), _oldest_open()
    batch = _batch(progress)
    found = texts.read(kind, batch.keys)
    with _transaction():
        # All of them: keys below all others are given by one process at a time.
        leases = {one.kind: one.leased_until for one in Progress.objects.select_for_update().order_by("kind")}
        if leases.get(kind) != lease:
            return 0  # It took so long that somebody else may be at it.
        _write(kind, batch, found)
        _move(progress, batch, oldest)
    if not batch.keys:
        _quiet(progress, oldest)
    return len(batch.keys)


def _progress(kind: Kind) -> Progress:
    found = Progress.objects.filter(kind=kind).first()
    if found is None:
        last = SOURCES[kind]._default_manager.aggregate(last=Max("pk"))["last"] or 0
        first = {"reached": last, "older": last, "horizon": _next_transaction()}
        found, _ = Progress.objects.get_or_create(kind=kind, defaults=first)
    return found


def _lease(kind: Kind) -> datetime | None:
    """Until when this process is the one at work, None while another is."""
    free = Q(leased_until=None) | Q(leased_until__lt=Now())
    with _transaction():
        if not Progress.objects.filter(free, kind=kind).update(leased_until=clock.from_now(_LEASE)):
            return None
        return Progress.objects.values_list("leased_until", flat=True).get(kind=kind)


@contextmanager
def _transaction() -> Iterator[None]:
    """Its end does not wait for the disk: what a power cut takes from the index, it takes from `Progress` too."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL synchronous_commit = off")
        yield


def _batch(progress: Progress) -> _Batch:
    """No more than may be held at once."""
    kind = Kind(progress.kind)
    new = texts.sized(kind, _new(progress).order_by("pk")[:STEP])
    room = STEP - len(new)
    changed = texts.sized(kind, _changed().order_by("pk")[:room]) if kind == Kind.CALL else []
    room -= len(changed)
    backlog = texts.sized(kind, _backlog(progress)[:room]) if progress.older else []
    keys = texts.fitting([*new, *changed, *backlog])
    taken = keys[len(new) + len(changed) :]
    older = taken[-1] - 1 if taken else progress.older
    return _Batch(
        new=keys[: len(new)],
        changed=keys[len(new) : len(new) + len(changed)],
        backlog=taken,
        more=len(new) == STEP or len(keys) < len(new),
        older=0 if len(taken) == len(backlog) < room else older,
    )


def _move(progress: Progress, batch: _Batch, oldest: int) -> None:
    if progress.horizon <= oldest:
        # Where more follow, some may lie before `reached`.
        seen = batch.new[-1] if batch.more else progress.reached
        progress.settled = max(progress.settled, min(progress.reached, seen) - _MARGIN)
    if batch.new and batch.new[-1] > progress.reached:
        progress.reached, progress.horizon = batch.new[-1], _next_transaction()
    progress.older, progress.leased_until = batch.older, None
    progress.save(update_fields=["settled", "reached", "horizon", "older", "leased_until"])


def _quiet(progress: Progress, oldest: int) -> None:
    """Nothing was found: everything before `reached` is settled, if nothing was open then that could still come."""
    now = clock.now()
    if progress.complete_at is None or now - progress.complete_at > _QUIET:
        settled = max(progress.settled, progress.reached - _MARGIN) if progress.horizon <= oldest else progress.settled
        Progress.objects.filter(pk=progress.pk).update(complete_at=now, settled=settled)


def _oldest_open() -> int:
    """Every transaction before this one has ended. SQLite has one writer: its keys are committed in their order."""
    return (
        0 if connection.vendor == "sqlite" else _number("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
    )


def _next_transaction() -> int:
    """None before this one begins from now on."""
    return (
        0 if connection.vendor == "sqlite" else _number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    )


def _number(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def _rows(kind: str) -> QuerySet[Any]:
    """Those that are not in the index."""
    there = Passage.objects.filter(kind=kind, source=OuterRef("pk"), part=0)
    return SOURCES[Kind(kind)]._default_manager.filter(~Exists(there))


def _new(progress: Progress) -> QuerySet[Any]:
    return _rows(progress.kind).filter(pk__gt=max(progress.settled, progress.older))


def _backlog(progress: Progress) -> QuerySet[Any]:
    return _rows(progress.kind).filter(pk__lte=progress.older).order_by("-pk")


def _changed() -> QuerySet[ToolCall]:
    """Calls that have changed since they were read and could still do so."""
    read = Passage.objects.filter(open=True, part=0, kind=Kind.CALL, source=OuterRef("pk"))
    known = Passage.objects.filter(open=True, part=0, kind=Kind.CALL).values("source")
    return ToolCall.objects.filter(Exists(read.exclude(revision=OuterRef("revision"))), pk__in=known)


def _anything(progress: Progress) -> bool:
    return _new(progress).exists() or (progress.kind == Kind.CALL and _changed().exists())


def _write(kind: Kind, batch: _Batch, found: list[Found]) -> None:
    Passage.objects.filter(kind=kind, source__in=batch.changed).delete()
    found = writing.held(kind, found)
    waited = set(batch.backlog)
    writing.append(kind, [one for one in found if one.source not in waited])
    writing.prepend(kind, [one for one in found if one.source in waited])
    tool_days.add(one.tally for one in found if one.tally)


def forget() -> None:
    """Empty the index. What is in the store goes in again, under the present rules of masking."""
    with transaction.atomic():
        ToolDay.objects.all().delete()
        Progress.objects.all().delete()
        Passage.objects.all().delete()
        Fact.objects.all().delete()
