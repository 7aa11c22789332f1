"""What leaves the store leaves the index in the same transaction: triggers that run when something is deleted, and
only then. Saving costs nothing more."""

from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.models import Message, Session, ToolCall
from harness_site.search.models import Kind, Passage

_SOURCES: Final = {Kind.MESSAGE: Message, Kind.CALL: ToolCall, Kind.SESSION: Session}
_TABLE: Final = Passage._meta.db_table


def install(using: str, **_: Any) -> None:
    """Make the triggers that are missing."""
    connection = connections[using]
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        if _TABLE not in tables:
            return
        for statement in _statements(connection):
            cursor.execute(statement)


def _statements(connection: BaseDatabaseWrapper) -> list[str]:
    if connection.vendor == "sqlite":
        return [_sqlite(kind, model._meta.db_table) for kind, model in _SOURCES.items()]
    return [_postgresql(kind, model._meta.db_table) for kind, model in _SOURCES.items()]


def _sqlite(kind: Kind, table: str) -> str:
    return f"CREATE TRIGGER IF NOT EXISTS {_name(kind)} AFTER DELETE ON {table} BEGIN {_delete(kind)} END"


def _postgresql(kind: Kind, table: str) -> str:
    name = _name(kind)
    return f"""
        DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = '{name}' AND tgrelid = '{table}'::regclass) THEN
                CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS
                    $body$ BEGIN {_delete(kind)} RETURN NULL; END $body$;
                CREATE TRIGGER {name} AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}();
            END IF;
        END $$"""


def _name(kind: Kind) -> str:
    return f"{_TABLE}_{kind}_leaves"


def _delete(kind: Kind) -> str:
    return f"DELETE FROM {_TABLE} WHERE kind = '{kind.value}' AND source = OLD.id;"
