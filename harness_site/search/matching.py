"""How each database looks for terms: PostgreSQL with an index of trigrams, SQLite with a full-text table of them."""

from typing import Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from harness_site.search.models import Passage
from harness_site.search.words import GAP, Query, Term, folded

#: The full-text table of SQLite, made by a migration.
_WORDS: Final = "harness_search_words"
#: A full-text table of trigrams knows no shorter ones.
_TRIGRAM: Final = 3


class _Like(Func):
    """`folded LIKE pattern`, as PostgreSQL's index of trigrams wants it; the pattern is a parameter."""

    template = "%(expressions)s"
    arg_joiner = " LIKE "
    output_field = BooleanField()


def reading(passages: QuerySet[Passage], query: Query) -> QuerySet[Passage]:
    """Those of `passages` in which every term of `query` stands, found by reading all of them: for a few thousand that
    are the newest, an index that holds all words of all times takes longer."""
    for term in query.terms:
        passages = passages.filter(GreaterThan(StrIndex("folded", Value(folded(term.text))), 0))
    return passages


def matching(passages: QuerySet[Passage], query: Query) -> QuerySet[Passage]:
    """Those of `passages` in which every term of `query` stands, found by the index where it can."""
    if _connection(passages).vendor == "sqlite":
        return _in_sqlite(passages, query)
    for term in query.terms:
        passages = passages.filter(_Like(F("folded"), Value(f"%{_escaped(folded(term.text))}%")))
        if term.pairs:
            passages = passages.exclude(dense="")
        for pair in term.pairs:
            passages = passages.filter(_Like(F("dense"), Value(f"%{GAP}{pair}%")))
    return passages


def _in_sqlite(passages: QuerySet[Passage], query: Query) -> QuerySet[Passage]:
    for term in query.terms:
        if len(words := folded(term.text)) < _TRIGRAM:
            passages = passages.filter(folded__contains=words)
    wanted = " AND ".join(part for term in query.terms for part in _phrases(term))
    if not wanted:
        return passages
    found = RawSQL(f"SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH %s", [wanted])
    return passages.filter(pk__in=found)


def _phrases(term: Term) -> list[str]:
    words = folded(term.text)
    return ([f"folded : {_quoted(words)}"] if len(words) >= _TRIGRAM else []) + [
        f"dense : {_quoted(GAP + pair)}" for pair in term.pairs
    ]


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _connection(passages: QuerySet[Passage]) -> BaseDatabaseWrapper:
    return connections[passages.db]
