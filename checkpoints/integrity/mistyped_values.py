"""Find values in the tables of sessions that have another type than their column.

SQLite stores any type in any column, and such a value may not even be readable: a text that is no time, or a number
where bytes are. The database compares the types itself, so that no such value is read. PostgreSQL has typed columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from django.apps import apps
from django.db import connections, models

from checkpoints.db.sql_names_and_values import make_placeholders, quote_column, quote_table
from checkpoints.exceptions import CheckpointCorrupted, IntegrityError
from checkpoints.models import Blob, Message, Session
from checkpoints.models.packed_fields import CompressibleTextField
from checkpoints.seals.seal_keys import get_seal_keys

#: Number of sessions whose rows one statement compares.
_SESSIONS_PER_STATEMENT = 500
#: Large tables, which nothing reads that is about several sessions.
_MODELS_OF_CONTENT = frozenset({Message, Blob})
#: Name of a storage class of SQLite in a sentence.
_NOTHING = "nothing"
_HELD = {"integer": "a whole number", "real": "a fraction", "text": "a text", "blob": "bytes", "null": _NOTHING}
#: Conditions on a column that hold where its value cannot be one of the column, by the type of the column.
_INTEGER = "typeof({0}) NOT IN ('integer', 'null')"
_TEXT = "typeof({0}) NOT IN ('text', 'null')"
#: A stream of zlib begins with this byte.
_COMPRESSIBLE_TEXT = f"{_TEXT} AND (typeof({{0}}) <> 'blob' OR substr({{0}}, 1, 1) <> x'78')"
_CONDITIONS = {
    "bool": "{0} NOT IN (0, 1)",
    "integer": _INTEGER,
    "bigint": _INTEGER,
    "smallint": _INTEGER,
    "varchar": _TEXT,
    "text": _TEXT,
    "BLOB": "typeof({0}) NOT IN ('blob', 'null')",
    # `datetime` gives NULL for what is no time, and with a modifier another day for one that a month does not have.
    # It gets whole seconds, because it rounds a fraction, which may lead to the next second.
    "datetime": (
        f"{_TEXT} OR {{0}} IS NOT NULL AND (substr({{0}}, 1, 4) < '0001' "
        "OR datetime(substr({0}, 1, 19), '+0 days') IS NOT substr({0}, 1, 19) OR substr({0}, 20) GLOB '*[^.0-9]*')"
    ),
    "char": f"{_TEXT} OR length({{0}}) <> 32 OR {{0}} GLOB '*[^0-9a-f]*'",
}


class MistypedValue(NamedTuple):
    """Row of a session with a value of another type than its column."""

    session_pk: int
    table: str
    row: str
    column: str
    held: str

    @property
    def why(self) -> str:
        if self.held == _NOTHING:
            return f"its column {self.column} is empty, and has to have a value"
        return f"its column {self.column} holds {self.held} that cannot be a value of it"

    def to_error(self, session_id: str) -> IntegrityError | CheckpointCorrupted:
        """Return the error of a session that has the row: without seals, nothing says that a row was altered."""
        if get_seal_keys() is None:
            return CheckpointCorrupted(session_id, f"row {self.row} of {self.table}", self.why)
        return IntegrityError(self.table, self.row, self.why)


def iterate_mistyped_values_of_sessions(using: str, session_pks: Sequence[int]) -> Iterator[MistypedValue]:
    """Find the rows of sessions that have a value of another type than its column, each with the first such column.

    Args:
        using: Connection alias.
        session_pks: Keys of the sessions.

    Yields:
        The values, in the order of the tables. None on PostgreSQL.
    """
    for start in range(0, len(session_pks), _SESSIONS_PER_STATEMENT):
        part = session_pks[start : start + _SESSIONS_PER_STATEMENT]
        for model in _list_session_models():
            yield from _iterate_mistyped_values_of_rows(using, model, make_placeholders(len(part)), part)


def iterate_mistyped_noncontent_values_of_workspace(using: str, workspace_pk: int) -> Iterator[MistypedValue]:
    """Find such values among all sessions of a workspace, except in the tables of messages and of contents.

    Args:
        using: Connection alias.
        workspace_pk: Key of the workspace.

    Yields:
        The values, as `iterate_mistyped_values_of_sessions` does.
    """
    sessions = f"SELECT {quote_column(Session, 'id')} FROM {quote_table(Session)} "  # noqa: S608 - names of a model
    sessions += f"WHERE {quote_column(Session, 'workspace')} = %s"
    for model in _list_session_models():
        if model not in _MODELS_OF_CONTENT:
            yield from _iterate_mistyped_values_of_rows(using, model, sessions, [workspace_pk])


def _iterate_mistyped_values_of_rows(
    using: str, model: type[models.Model], sessions: str, params: Sequence[int]
) -> Iterator[MistypedValue]:
    """Find such values in one table; `sessions` is the SQL of the keys of sessions, with its parameters."""
    if connections[using].vendor != "sqlite":
        return
    with connections[using].cursor() as cursor:
        cursor.execute(_build_mistyped_rows_sql(using, model).replace("SESSIONS", sessions), params)
        rows = cursor.fetchall()
    columns = [field.column for field in model._meta.concrete_fields]
    for session_pk, pk, place, storage in rows:
        yield MistypedValue(session_pk, model._meta.db_table, str(pk), columns[place], _HELD[storage])


@cache
def _list_session_models() -> tuple[type[models.Model], ...]:
    """List the tables whose rows are or belong to sessions."""
    tables = apps.get_app_config("checkpoints").get_models()
    of_sessions = [model for model in tables if any(field.name == "session" for field in model._meta.concrete_fields)]
    return (Session, *of_sessions)


@cache
def _build_mistyped_rows_sql(using: str, model: type[models.Model]) -> str:
    """Build the statement that reads which rows have a value of another type: session, key, column and storage class.

    `SESSIONS` stands for the placeholders of the keys of sessions.
    """
    fields = list(model._meta.concrete_fields)
    conditions = [f"({_build_mistyped_or_null_condition(using, field)})" for field in fields]
    places = " ".join(f"WHEN {condition} THEN {place}" for place, condition in enumerate(conditions))
    storage = " ".join(
        f"WHEN {condition} THEN typeof({quote_column(model, field.name)})"
        for field, condition in zip(fields, conditions, strict=True)
    )
    session = quote_column(model, "id" if model is Session else "session")
    return (
        f"SELECT {session}, {quote_column(model, model._meta.pk.name)}, CASE {places} END, CASE {storage} END "  # noqa: S608 - names of models
        f"FROM {quote_table(model)} WHERE {session} IN (SESSIONS) AND ({' OR '.join(conditions)})"
    )


def _build_mistyped_or_null_condition(using: str, field: models.Field[Any, Any]) -> str:
    """Build the condition on a field; SQLite can be made to forget that a column may not be empty."""
    condition = _build_type_mismatch_condition(using, field)
    return condition if field.null else f"{quote_column(field.model, field.name)} IS NULL OR {condition}"


def _build_type_mismatch_condition(using: str, field: models.Field[Any, Any]) -> str:
    column = quote_column(field.model, field.name)
    if isinstance(field, CompressibleTextField):
        return _COMPRESSIBLE_TEXT.format(column)
    target: Any = field
    while isinstance(target, models.ForeignKey):
        target = target.target_field
    if isinstance(target, models.DecimalField):
        limit = 10 ** (target.max_digits - target.decimal_places)
        return f"typeof({column}) NOT IN ('integer', 'real', 'null') OR abs({column}) >= {limit}"
    kind = (target.rel_db_type(connections[using]) or "").split("(")[0].split(" ")[0]
    return _CONDITIONS[kind].format(column)


def find_first_mistyped_value_of_session(using: str, session_pk: int) -> MistypedValue | None:
    """Find the first row of a session with a value of another type than its column."""
    return next(iterate_mistyped_values_of_sessions(using, [session_pk]), None)
