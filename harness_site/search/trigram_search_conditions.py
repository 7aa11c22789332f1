"""Term conditions: a trigram index on PostgreSQL, a full-text table of trigrams on SQLite."""

from functools import reduce
from operator import or_
from typing import Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, Q, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from harness_site.search.models import Passage
from harness_site.search.query_terms import GAP, MisspeltWord, SearchQuery, SearchTerm, fold_case

#: SQLite's full-text table, created by a migration.
_WORDS: Final = "harness_search_words"
#: Minimum length of a term in the full-text table.
_TRIGRAM: Final = 3


class _Like(Func):
    """Expression `folded LIKE pattern`, as the trigram index of PostgreSQL needs it, with the pattern as a
    parameter."""

    template = "%(expressions)s"
    arg_joiner = " LIKE "
    output_field = BooleanField()


def filter_passages_by_query_without_index(passages: QuerySet[Passage], query: SearchQuery) -> QuerySet[Passage]:
    """Filter passages that contain every term of `query` by reading all of them.

    For the newest few thousand, that is faster than an index over all texts.
    """
    for term in query.terms:
        passages = passages.filter(GreaterThan(StrIndex("folded", Value(fold_case(term.text))), 0))
    return passages


def filter_passages_by_query_with_index(passages: QuerySet[Passage], query: SearchQuery) -> QuerySet[Passage]:
    """Filter passages that contain every term of `query`, by the index if possible."""
    if _get_connection_of_query(passages).vendor == "sqlite":
        return _filter_passages_by_sqlite_index(passages, query)
    for part in _list_most_selective_parts_first(query):
        passages = passages.filter(_Like(F("folded"), Value(f"%{_escape_like_pattern(fold_case(part))}%")))
    for term in query.terms:
        if term.dense_script_pairs:
            passages = passages.exclude(dense="")
        for letters in term.dense_script_pairs:
            passages = passages.filter(_Like(F("dense"), Value(f"%{GAP}{letters}%")))
    return passages


def filter_passages_by_misspelt_word_without_index(
    passages: QuerySet[Passage], word: MisspeltWord
) -> QuerySet[Passage]:
    """Filter passages with a word that has one edit by reading all of them."""
    has_part = (Q(GreaterThan(StrIndex("folded", Value(part)), 0)) for part in word.parts)
    return passages.filter(reduce(or_, has_part)).filter(folded__regex=word.regex)


def filter_passages_by_misspelt_word_with_index(passages: QuerySet[Passage], word: MisspeltWord) -> QuerySet[Passage]:
    """Filter passages with a word that has one edit, by the index."""
    if _get_connection_of_query(passages).vendor == "sqlite":
        match_expression = " OR ".join(f"folded : {_quote_fts_phrase(part)}" for part in word.parts)
        rowids = RawSQL(f"SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH %s", [match_expression])
        return passages.filter(pk__in=rowids, folded__regex=word.regex)
    has_part = (Q(_Like(F("folded"), Value(f"%{_escape_like_pattern(part)}%"))) for part in word.parts)
    return passages.filter(reduce(or_, has_part)).filter(folded__regex=word.regex)


def _list_most_selective_parts_first(query: SearchQuery) -> list[str]:
    """List the terms, and the rare parts of long ones, with those first that are likely to be in the fewest texts.

    The trigram index reads the conditions in turn, each only at the texts that the ones before it have left. Within one
    condition it reads all trigrams together, and most of those in “order-1-999839” are in nearly every text.
    """
    identifiers = {term.longest_identifier_part for term in query.terms} - {""}
    parts = identifiers | {term.text for term in query.terms}
    return sorted(parts, key=lambda part: (part not in identifiers, -len(part), part))


def _filter_passages_by_sqlite_index(passages: QuerySet[Passage], query: SearchQuery) -> QuerySet[Passage]:
    for term in query.terms:
        if len(words := fold_case(term.text)) < _TRIGRAM:
            passages = passages.filter(folded__contains=words)
    match_expression = " AND ".join(part for term in query.terms for part in _build_fts_phrases(term))
    if not match_expression:
        return passages
    rowids = RawSQL(f"SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH %s", [match_expression])
    return passages.filter(pk__in=rowids)


def _build_fts_phrases(term: SearchTerm) -> list[str]:
    words = fold_case(term.text)
    return ([f"folded : {_quote_fts_phrase(words)}"] if len(words) >= _TRIGRAM else []) + [
        f"dense : {_quote_fts_phrase(GAP + letters)}" for letters in term.dense_script_pairs
    ]


def _quote_fts_phrase(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _escape_like_pattern(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _get_connection_of_query(passages: QuerySet[Passage]) -> BaseDatabaseWrapper:
    return connections[passages.db]
