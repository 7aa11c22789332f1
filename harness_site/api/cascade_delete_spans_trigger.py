"""Trigger that deletes the spans of a session with the session, whoever deletes it."""

from typing import Any, Final

from django.db import connections

from checkpoints.models import Session
from harness_site.api.models import ObservedSpan
from harness_site.search.index_delete_triggers import build_delete_trigger_sql

_TABLE: Final = ObservedSpan._meta.db_table


def create_span_delete_trigger(using: str, **_: Any) -> None:
    """Create the trigger if it is missing."""
    connection = connections[using]
    with connection.cursor() as cursor:
        if _TABLE not in connection.introspection.table_names(cursor):
            return
        body = f"DELETE FROM {_TABLE} WHERE workspace_id = OLD.workspace_id AND session_id = OLD.session_id;"
        cursor.execute(build_delete_trigger_sql(connection.vendor, f"{_TABLE}_leaves", Session, body))
