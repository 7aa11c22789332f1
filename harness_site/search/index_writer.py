"""Writes to the index: by COPY on PostgreSQL, by single statements on SQLite.

Newer texts have larger keys regardless of when they are indexed: texts older than the whole index get smaller keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Min, Model, QuerySet

from checkpoints.db.sql_names_and_values import build_insert_sql, quote_columns, quote_table
from harness_site.search import text_extraction
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import Fact, Kind, Passage
from harness_site.search.query_terms import build_dense_column_text, fold_case
from harness_site.search.texts_to_index import IndexedText

#: Number of passages of one era.
ERA: Final = 100_000
_PASSAGE: Final = (
    *("workspace", "session", "kind", "source", "part", "position", "revision", "open", "era"),
    *("text", "folded", "dense", "problem"),
)
_FACT: Final = ("workspace", "session", "trait", "value")
_LONGEST_FACT: Final = 255
_ADD_FACT: Final = f"{build_insert_sql(Fact, _FACT)} ON CONFLICT DO NOTHING"
_ADD_FACTS: Final = (
    f"INSERT INTO {quote_table(Fact)} ({quote_columns(Fact, _FACT)}) "  # noqa: S608
    "SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[]) ON CONFLICT DO NOTHING"
)


def lock_sources_and_keep_existing_texts(kind: Kind, found: Iterable[IndexedText]) -> list[IndexedText]:
    """Lock the source rows against deletion until the end of the transaction, and return the texts whose rows exist.

    Agents can still update the rows. A concurrent delete waits for this transaction and then deletes the passages too.
    """
    found = list(found)
    existing_keys = lock_and_list_existing_sources(kind, [text.source for text in found])
    return [text for text in found if text.source in existing_keys]


def lock_and_list_existing_sources(kind: Kind, keys: list[int]) -> set[int]:
    """Lock source rows against deletion until the end of the transaction, and return the keys of those that exist."""
    model = SOURCES[kind]
    if connection.vendor == "sqlite":
        rows: QuerySet[Any] = model._default_manager.filter(pk__in=keys)
        return set(rows.values_list("pk", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {quote_table(model)} WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", [keys])  # noqa: S608
        return {pk for (pk,) in cursor.fetchall()}


def index_newer_texts(kind: Kind, found: Sequence[IndexedText]) -> None:
    """Add texts that are newer than the index."""
    last = Passage.objects.aggregate(last=Max("pk"))["last"]
    rows = [row for text in found for row in _generate_passage_rows(kind, text, (last or 0) // ERA)]
    if last is None:
        # Keys may have been used before the index was rebuilt, so that later passages can belong to any era: these are
        # older.
        _insert_rows(Passage, ("id", *_PASSAGE), [(key, *row) for key, row in enumerate(rows, 1 - len(rows))])
    else:
        _insert_rows(Passage, _PASSAGE, rows)
    _insert_new_facts(found)


def index_older_texts(kind: Kind, found: Sequence[IndexedText]) -> None:
    """Add texts that are older than all indexed ones of their kind.

    Must not run concurrently.
    """
    first = Passage.objects.aggregate(first=Min("pk"))["first"]
    if first is None:
        index_newer_texts(kind, found)
        return
    rows = [row for text in found for row in _generate_passage_rows(kind, text, (first - 1) // ERA)]
    keyed = [(key, *row) for key, row in enumerate(rows, first - len(rows))]
    _insert_rows(Passage, ("id", *_PASSAGE), keyed)
    _insert_new_facts(found)


def _generate_passage_rows(kind: Kind, indexed_text: IndexedText, era: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows with the columns of `_PASSAGE`."""
    source_columns = (indexed_text.workspace, indexed_text.session, kind.value, indexed_text.source)
    for part, text in enumerate(text_extraction.split_into_overlapping_pieces(indexed_text.text)):
        state = (part, indexed_text.position, indexed_text.revision, indexed_text.open, era)
        problem = indexed_text.problem.value if indexed_text.problem and not part else None
        yield (*source_columns, *state, text, fold_case(text), build_dense_column_text(text), problem)


def _insert_rows(model: type[Model], fields: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.executemany(build_insert_sql(model, fields), rows)
            return
        with cursor.copy(f"COPY {quote_table(model)} ({quote_columns(model, fields)}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)


def _insert_new_facts(texts: Iterable[IndexedText]) -> None:
    """Insert facts that do not exist yet."""
    facts = sorted(
        {
            (
                text.workspace,
                text.session,
                trait.value,
                text_extraction.replace_unstorable_characters(value)[:_LONGEST_FACT],
            )
            for text in texts
            for trait, value in text.facts
        }
    )
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.executemany(_ADD_FACT, facts)
        elif facts:
            cursor.execute(_ADD_FACTS, [list(column) for column in zip(*facts, strict=True)])
