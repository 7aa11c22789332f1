"""How each database looks for terms: PostgreSQL with an index of trigrams, SQLite with a full-text table of them."""

from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from harness_site.search.models import Passage
from harness_site.search.words import GAP, Query, Term, folded

_WORDS: Final = "search_words"
#: A full-text table of trigrams knows no shorter ones.
_TRIGRAM: Final = 3

_POSTGRESQL: Final = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE EXTENSION IF NOT EXISTS btree_gin",
    "CREATE INDEX passage_words ON search_passage USING gin (era, text gin_trgm_ops)",
    "CREATE INDEX passage_dense ON search_passage USING gin (era, dense gin_trgm_ops) WHERE dense <> ''",
)


def _sqlite(text: str) -> tuple[str, ...]:
    """The full-text table of a column of the passages and of their pairs."""
    return (
        f"CREATE VIRTUAL TABLE {_WORDS} USING fts5("
        f"{text}, dense, content='search_passage', content_rowid='id', tokenize='trigram')",
        f"CREATE TRIGGER passage_arrives AFTER INSERT ON search_passage BEGIN "
        f"INSERT INTO {_WORDS} (rowid, {text}, dense) VALUES (new.id, new.{text}, new.dense); END",
        f"CREATE TRIGGER passage_leaves AFTER DELETE ON search_passage BEGIN "
        f"INSERT INTO {_WORDS} ({_WORDS}, rowid, {text}, dense) VALUES ('delete', old.id, old.{text}, old.dense); END",
    )


def create(_: Any, schema_editor: Any) -> None:
    """For the migration."""
    statements = _sqlite("text") if schema_editor.connection.vendor == "sqlite" else _POSTGRESQL
    for statement in statements:
        schema_editor.execute(statement)


def drop(_: Any, schema_editor: Any) -> None:
    """For the migration backwards; what belongs to the table of passages goes with it."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(f"DROP TABLE {_WORDS}")


def fold(_: Any, schema_editor: Any) -> None:
    """For the migration: the index of words is one of lower case. What was in it is read again."""
    for table in ("passage", "fact", "toolday", "progress"):
        schema_editor.execute(f"DELETE FROM search_{table}")
    if schema_editor.connection.vendor == "sqlite":
        # The triggers have gone with the table that had one column less.
        for statement in (f"DROP TABLE {_WORDS}", *_sqlite("folded")):
            schema_editor.execute(statement)
        return
    schema_editor.execute("DROP INDEX passage_words")
    schema_editor.execute("CREATE INDEX passage_words ON search_passage USING gin (era, folded gin_trgm_ops)")


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
