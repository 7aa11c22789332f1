"""Triggers that remove deleted texts from the index in the same transaction.

They run on deletes only, so saving costs nothing more.
"""

from typing import Any, Final

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

from checkpoints.models import Decision, Message, Session, ToolCall
from harness_site.search.models import Fact, Kind, Passage

#: Tables whose texts are indexed.
SOURCES: Final[dict[Kind, type[Message] | type[ToolCall] | type[Decision] | type[Session]]] = {
    Kind.MESSAGE: Message,
    Kind.CALL: ToolCall,
    Kind.DECISION: Decision,
    Kind.SESSION: Session,
}
_TABLE: Final = Passage._meta.db_table
_FACTS: Final = Fact._meta.db_table


def create_delete_triggers(using: str, **_: Any) -> None:
    """Create missing triggers."""
    connection = connections[using]
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        if not {_TABLE, _FACTS} <= set(tables):
            return
        for statement in _build_trigger_statements(connection):
            cursor.execute(statement)


def _build_trigger_statements(connection: BaseDatabaseWrapper) -> list[str]:
    vendor = connection.vendor
    passages = [
        build_delete_trigger_sql(
            vendor,
            f"{_TABLE}_{kind}_leaves",
            model,
            f"DELETE FROM {_TABLE} WHERE kind = '{kind.value}' AND source = OLD.id;",
        )
        for kind, model in SOURCES.items()
    ]
    facts = f"DELETE FROM {_FACTS} WHERE session_id = OLD.id;"
    return [*passages, build_delete_trigger_sql(vendor, f"{_FACTS}_leaves", Session, facts)]


def build_delete_trigger_sql(vendor: str, name: str, model: type[Model], body: str) -> str:
    """Build the SQL that creates a trigger, unless it exists, for each row of a model that is deleted.

    Args:
        vendor: Kind of the database.
        name: Name of the trigger.
        model: Model of the deleted rows.
        body: Statements of the trigger, with the deleted row as `OLD`.
    """
    build = _build_sqlite_trigger_sql if vendor == "sqlite" else _build_postgresql_trigger_sql
    return build(name, model, body)


def _build_sqlite_trigger_sql(name: str, model: type[Model], body: str) -> str:
    return f"CREATE TRIGGER IF NOT EXISTS {name} AFTER DELETE ON {model._meta.db_table} BEGIN {body} END"


def _build_postgresql_trigger_sql(name: str, model: type[Model], body: str) -> str:
    table = model._meta.db_table
    return f"""
        DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgname = '{name}' AND tgrelid = '{table}'::regclass) THEN
                CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS
                    $body$ BEGIN {body} RETURN NULL; END $body$;
                CREATE TRIGGER {name} AFTER DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}();
            END IF;
        END $$"""
