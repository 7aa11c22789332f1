"""How each database looks for terms: PostgreSQL with an index of trigrams, SQLite with a full-text table of them."""

from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, F, Func, QuerySet, Value
from django.db.models.expressions import RawSQL

from harness_site.search.models import Passage
from harness_site.search.words import GAP, Query, Term

_WORDS: Final = "search_words"
#: A full-text table of trigrams knows no shorter ones.
_TRIGRAM: Final = 3

_POSTGRESQL: Final = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE EXTENSION IF NOT EXISTS btree_gin",
    "CREATE INDEX passage_words ON search_passage USING gin (era, text gin_trgm_ops)",
    "CREATE INDEX passage_dense ON search_passage USING gin (era, dense gin_trgm_ops) WHERE dense <> ''",
)
_SQLITE: Final = (
    f"CREATE VIRTUAL TABLE {_WORDS} USING fts5("
    "text, dense, content='search_passage', content_rowid='id', tokenize='trigram')",
    f"CREATE TRIGGER passage_arrives AFTER INSERT ON search_passage BEGIN "
    f"INSERT INTO {_WORDS} (rowid, text, dense) VALUES (new.id, new.text, new.dense); END",
    f"CREATE TRIGGER passage_leaves AFTER DELETE ON search_passage BEGIN "
    f"INSERT INTO {_WORDS} ({_WORDS}, rowid, text, dense) VALUES ('delete', old.id, old.text, old.dense); END",
)


def create(_: Any, schema_editor: Any) -> None:
    """For the migration."""
    statements = _SQLITE if schema_editor.connection.vendor == "sqlite" else _POSTGRESQL
    for statement in statements:
        schema_editor.execute(statement)


def drop(_: Any, schema_editor: Any) -> None:
    """For the migration backwards; what belongs to the table of passages goes with it."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(f"DROP TABLE {_WORDS}")


class _Like(Func):
    """`text ILIKE pattern`, as PostgreSQL's index of trigrams wants it; the pattern is a parameter."""

    template = "%(expressions)s"
    arg_joiner = " ILIKE "
    output_field = BooleanField()


def matching(passages: QuerySet[Passage], query: Query) -> QuerySet[Passage]:
    """Those of `passages` in which every term of `query` stands."""
    if _connection(passages).vendor == "sqlite":
        return _in_sqlite(passages, query)
    for term in query.terms:
        passages = passages.filter(_Like(F("text"), Value(f"%{_escaped(term.text)}%")))
        if term.pairs:
            passages = passages.exclude(dense="")
        for pair in term.pairs:
            passages = passages.filter(_Like(F("dense"), Value(f"%{GAP}{pair}%")))
    return passages


def _in_sqlite(passages: QuerySet[Passage], query: Query) -> QuerySet[Passage]:
    for term in query.terms:
        if len(term.text) < _TRIGRAM:
            passages = passages.filter(text__icontains=term.text)
    wanted = " AND ".join(part for term in query.terms for part in _phrases(term))
    if not wanted:
        return passages
    found = RawSQL(f"SELECT rowid FROM {_WORDS} WHERE {_WORDS} MATCH %s", [wanted])
    return passages.filter(pk__in=found)


def _phrases(term: Term) -> list[str]:
    text = [f"text : {_quoted(term.text)}"] if len(term.text) >= _TRIGRAM else []
    return text + [f"dense : {_quoted(GAP + pair)}" for pair in term.pairs]


def _quoted(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _connection(passages: QuerySet[Passage]) -> BaseDatabaseWrapper:
    return connections[passages.db]
