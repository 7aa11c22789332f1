"""Bringing the index up to the store, in small steps, by whoever has the time.

Nothing here is on the agents' way: it reads what they have committed, by primary key. A key that is given out is not
yet a key that is committed: on PostgreSQL a transaction may end after younger ones. Therefore a step looks at all that
stands behind `settled`, and `settled` follows when every transaction that was open at the time has ended.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final, TypeAlias

from django.db import connection, transaction
from django.db.models import Exists, Max, Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from checkpoints import clock
from checkpoints.models import Decision, Message, Session, ToolCall
from checkpoints.saving.naming import inserting
from harness_site.search import extracting, texts, tool_days
from harness_site.search.leaving import SOURCES
from harness_site.search.models import Fact, Kind, Passage, Progress, ToolDay
from harness_site.search.texts import Found
from harness_site.search.words import dense, folded

#: Texts of one step: little enough that a step's transaction is over in a moment.
STEP: Final = 1_000
#: How long a process may take for a step before another one may try.
_LEASE: Final = timedelta(seconds=60)
#: How often a process that finds nothing to do says so.
_QUIET: Final = timedelta(seconds=10)
#: So many keys behind `reached` are looked at again and again: one that was given out a moment before its transaction
#: got its number is among them.
_MARGIN: Final = 1_000
#: Passages of one era.
_ERA: Final = 100_000
_PASSAGE: Final = (
    "workspace",
    "session",
    "kind",
    "source",
    "part",
    "position",
    "revision",
    "open",
    "era",
    "text",
    "folded",
    "dense",
)
_FACT: Final = ("workspace", "session", "trait", "value")
Source: TypeAlias = Message | ToolCall | Decision | Session


def step() -> int:
    """Take the next texts of each kind into the index. Returns how many; 0 says that it is complete."""
    return sum(_step(kind) for kind in Kind)


def _step(kind: Kind) -> int:
    progress = Progress.objects.get_or_create(kind=kind)[0]
    oldest = _oldest_open()
    new = _new(kind, progress.settled)
    changed = _changed() if kind == Kind.CALL and len(new) < STEP else []
    if not new and not changed:
        _quiet(progress, oldest)
        return 0
    if not _lease(kind):
        return 0
    found, taken = texts.read(kind, [*new, *changed])
    more = len(new) == STEP or taken < len(new)
    new, changed = new[:taken], changed[: max(0, taken - len(new))]
    with transaction.atomic():
        Progress.objects.select_for_update().get(kind=kind)
        if kind == Kind.CALL:
            tool_days.count([one.source for one in found if not one.open])
        Passage.objects.filter(kind=kind, source__in=changed).delete()
        _write(kind, found)
        _move(progress, new, oldest, more=more)
    return len(found)


def _lease(kind: Kind) -> bool:
    free = Q(leased_until=None) | Q(leased_until__lt=Now())
    return bool(Progress.objects.filter(free, kind=kind).update(leased_until=clock.from_now(_LEASE)))


def _move(progress: Progress, new: list[int], oldest: int, *, more: bool) -> None:
    if progress.horizon <= oldest:
        # Where more follow, some may lie before `reached`.
        seen = new[-1] if more else progress.reached
        progress.settled = max(progress.settled, min(progress.reached, seen) - _MARGIN)
    if new and new[-1] > progress.reached:
        progress.reached, progress.horizon = new[-1], _next_transaction()
    progress.leased_until = None
    progress.save(update_fields=["settled", "reached", "horizon", "leased_until"])


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


def _model(kind: Kind) -> type[Source]:
    found: type[Source] = SOURCES[kind]
    return found


def _new(kind: Kind, settled: int) -> list[int]:
    there = Passage.objects.filter(kind=kind, source=OuterRef("pk"), part=0)
    found: QuerySet[Any] = _model(kind)._default_manager.filter(~Exists(there), pk__gt=settled)
    return list(found.order_by("pk").values_list("pk", flat=True)[:STEP])


def _changed() -> list[int]:
    """Calls that have changed since they were read and could still do so."""
    read = Passage.objects.filter(open=True, part=0, kind=Kind.CALL, source=OuterRef("pk"))
    known = Passage.objects.filter(open=True, part=0, kind=Kind.CALL).values("source")
    calls = ToolCall.objects.filter(Exists(read.exclude(revision=OuterRef("revision"))), pk__in=known)
    return list(calls.order_by("pk").values_list("pk", flat=True)[:STEP])


def _write(kind: Kind, found: list[Found]) -> None:
    """Only what is still there: what is deleted meanwhile waits for this, and its passages go with it."""
    there = _held(kind, [one.source for one in found])
    found = sorted((one for one in found if one.source in there), key=lambda one: one.source)
    era = (Passage.objects.aggregate(last=Max("pk"))["last"] or 0) // _ERA
    _insert(Passage, _PASSAGE, [row for one in found for row in _passages(kind, one, era)])
    facts = {(one.workspace, one.session, trait.value, value) for one in found for trait, value in one.facts}
    _insert(Fact, _FACT, sorted(facts))


def _passages(kind: Kind, one: Found, era: int) -> Iterator[tuple[Any, ...]]:
    """In the order of `_PASSAGE`."""
    place = (one.workspace, one.session, kind.value, one.source)
    for part, text in enumerate(extracting.pieces(one.text)):
        state = (part, one.position, one.revision, one.open, era)
        yield (*place, *state, text, folded(text), dense(text))


def _insert(model: type[Model], fields: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """What is there already stays. By hand: most of the time went into Django's statements for it."""
    with connection.cursor() as cursor:
        cursor.executemany(f"{inserting(model, fields)} ON CONFLICT DO NOTHING", rows)


def _held(kind: Kind, keys: list[int]) -> set[int]:
    """Those of the rows that exist and cannot be deleted before this transaction ends; they can be written to."""
    rows: QuerySet[Any] = _model(kind)._default_manager.filter(pk__in=keys).order_by("pk")
    if connection.vendor == "sqlite":
        return set(rows.values_list("pk", flat=True))
    table = connection.ops.quote_name(_model(kind)._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", [keys])  # noqa: S608
        return {pk for (pk,) in cursor.fetchall()}


def forget() -> None:
    """Empty the index. What is in the store goes in again, under the present rules of masking."""
    with transaction.atomic():
        ToolDay.objects.all().delete()
        Progress.objects.all().delete()
        Passage.objects.all().delete()
        Fact.objects.all().delete()
