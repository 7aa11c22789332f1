"""Writes to the index: by COPY on PostgreSQL, by single statements on SQLite.

The key of a passage is the time of its text, so newer texts have larger keys regardless of when they are stored and
indexed: an import of old transcripts stands behind the texts of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Model, QuerySet

from checkpoints.db.sql_names_and_values import build_insert_sql, quote_columns, quote_table
from harness_site.core.epoch_microseconds import convert_to_microseconds
from harness_site.core.hidden_characters import make_text_for_column
from harness_site.search import text_extraction
from harness_site.search.index_delete_triggers import SOURCES
from harness_site.search.models import Fact, Kind, Passage
from harness_site.search.query_terms import build_letter_pair_text_of_dense_scripts, fold_case
from harness_site.search.texts_to_index import IndexedText

#: Keys of one microsecond, divided between the kinds. Texts that need more get keys of the next microseconds.
_KEYS: Final = 256
_FIRST_KEYS: Final = {Kind.SESSION: 0, Kind.MESSAGE: 64, Kind.CALL: 128, Kind.DECISION: 192}
#: Number of keys of one era: a day.
ERA: Final = 86_400_000_000 * _KEYS
#: Texts that claim a time outside of these count as the first or last of it; keys have at most 18 digits.
_TIMES: Final = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC))
_PASSAGE: Final = (
    *("id", "workspace", "session", "kind", "source", "part", "position", "revision", "open", "era"),
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


def index_texts(kind: Kind, found: Sequence[IndexedText]) -> None:
    """Add texts to the index. Must not run concurrently."""
    pieces = sorted(_iterate_numbered_text_pieces(found), key=lambda piece: (piece[0].at, piece[0].source, piece[1]))
    keys = _find_free_keys([_compute_lowest_passage_key_at_time(kind, text.at) for text, _, _ in pieces])
    rows = [_build_passage_row(kind, key, *piece) for key, piece in zip(keys, pieces, strict=True)]
    _insert_rows(Passage, _PASSAGE, rows)
    _insert_new_facts(found)


def _iterate_numbered_text_pieces(found: Iterable[IndexedText]) -> Iterator[tuple[IndexedText, int, str]]:
    """Yield the pieces of texts with their numbers."""
    for indexed_text in found:
        for part, text in enumerate(text_extraction.split_into_overlapping_pieces(indexed_text.text)):
            yield indexed_text, part, text


def _compute_lowest_passage_key_at_time(kind: Kind, at: datetime) -> int:
    first, last = _TIMES
    return convert_to_microseconds(min(max(at, first), last)) * _KEYS + _FIRST_KEYS[kind]


def _find_free_keys(wanted: Sequence[int]) -> list[int]:
    """Return a free key for each of the ascending keys `wanted`: this one or one soon after it, also ascending."""
    starts = dict(zip(wanted, wanted, strict=True))
    width = _KEYS
    while True:
        keys = _assign_ascending_keys(starts[first] for first in wanted)
        taken = set(Passage.objects.filter(pk__in=keys).values_list("pk", flat=True))
        if not taken:
            return keys
        for first in {first for first, key in zip(wanted, keys, strict=True) if key in taken}:
            near = Passage.objects.filter(pk__gte=first, pk__lt=first + width).aggregate(last=Max("pk"))
            starts[first] = first if near["last"] is None else near["last"] + 1
        width *= 2


def _assign_ascending_keys(starts: Iterable[int]) -> list[int]:
    keys: list[int] = []
    for start in starts:
        keys.append(max(start, keys[-1] + 1) if keys else start)
    return keys


def _build_passage_row(kind: Kind, key: int, indexed_text: IndexedText, part: int, text: str) -> tuple[Any, ...]:
    """Build a row with the columns of `_PASSAGE`."""
    source_columns = (indexed_text.workspace, indexed_text.session, kind.value, indexed_text.source)
    state = (part, indexed_text.position, indexed_text.revision, indexed_text.open, key // ERA)
    problem = indexed_text.problem.value if indexed_text.problem and not part else None
    return (key, *source_columns, *state, text, fold_case(text), build_letter_pair_text_of_dense_scripts(text), problem)


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
                make_text_for_column(value, _LONGEST_FACT),
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
