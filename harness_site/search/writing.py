"""Putting texts into the index: by COPY where the database has it, statement by statement where it has not.

The newest texts have the largest keys, whenever they were read: what is older than all that is in the index already is
given keys below.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Min, Model, QuerySet

from checkpoints.saving.naming import columns, inserting, table
from harness_site.search import extracting
from harness_site.search.leaving import SOURCES
from harness_site.search.models import Fact, Kind, Passage
from harness_site.search.texts import Found
from harness_site.search.words import dense, folded

#: Passages of one era.
ERA: Final = 100_000
_PASSAGE: Final = (
    *("workspace", "session", "kind", "source", "part", "position", "revision", "open", "era"),
    *("text", "folded", "dense", "problem"),
)
_FACT: Final = ("workspace", "session", "trait", "value")
_LONGEST_FACT: Final = 255
_ADD_FACT: Final = f"{inserting(Fact, _FACT)} ON CONFLICT DO NOTHING"
_ADD_FACTS: Final = (
    f"INSERT INTO {table(Fact)} ({columns(Fact, _FACT)}) "  # noqa: S608
    "SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"
)


def held(kind: Kind, found: Iterable[Found]) -> list[Found]:
    """Those whose rows exist and cannot be deleted before this transaction ends; agents can write to them. What is
    deleted meanwhile waits for this, and its passages go with it."""
    found = list(found)
    there = _held(kind, [one.source for one in found])
    return [one for one in found if one.source in there]


def _held(kind: Kind, keys: list[int]) -> set[int]:
    model = SOURCES[kind]
    if connection.vendor == "sqlite":
        rows: QuerySet[Any] = model._default_manager.filter(pk__in=keys)
        return set(rows.values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table(model)} WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", [keys])  # noqa: S608
        return {pk for (pk,) in cursor.fetchall()}


def append(kind: Kind, found: Sequence[Found]) -> None:
    """Texts that are newer than what is in the index."""
    last = Passage.objects.aggregate(last=Max("pk"))["last"]
    rows = [row for one in found for row in _passages(kind, one, (last or 0) // ERA)]
    if last is None:
        # Before a rebuild keys were given out too, so that those which follow may be of any era: these are older.
        _insert(Passage, ("id", *_PASSAGE), [(key, *row) for key, row in enumerate(rows, 1 - len(rows))])
    else:
        _insert(Passage, _PASSAGE, rows)
    _know(found)


def prepend(kind: Kind, found: Sequence[Found]) -> None:
    """Texts that are older than all of their kind in the index. Nobody else may do so at the same time."""
    first = Passage.objects.aggregate(first=Min("pk"))["first"]
    if first is None:
        append(kind, found)
        return
    rows = [row for one in found for row in _passages(kind, one, (first - 1) // ERA)]
    keyed = [(key, *row) for key, row in enumerate(rows, first - len(rows))]
    _insert(Passage, ("id", *_PASSAGE), keyed)
    _know(found)


def _passages(kind: Kind, one: Found, era: int) -> Iterator[tuple[Any, ...]]:
    """In the order of `_PASSAGE`."""
    place = (one.workspace, one.session, kind.value, one.source)
    for part, text in enumerate(extracting.pieces(one.text)):
        state = (part, one.position, one.revision, one.open, era)
        problem = one.problem.value if one.problem and not part else None
        yield (*place, *state, text, folded(text), dense(text), problem)


def _insert(model: type[Model], fields: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.executemany(inserting(model, fields), rows)
            return
        with cursor.copy(f"COPY {table(model)} ({columns(model, fields)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _know(found: Iterable[Found]) -> None:
    """Facts that are known already stay."""
    facts = sorted(
        {
            (one.workspace, one.session, trait.value, extracting.storable(value)[:_LONGEST_FACT])
            for one in found
            for trait, value in one.facts
        }
    )
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.executemany(_ADD_FACT, facts)
        elif facts:
            cursor.execute(_ADD_FACTS, [list(column) for column in zip(*facts, strict=True)])
