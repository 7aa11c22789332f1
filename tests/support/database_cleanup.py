"""Cleanup of the database after a test with real transactions.

Django empties every table and then recreates the rows of its own apps, which takes as long as many a test. Most tests
write to a few tables, so only those are emptied, and the rows of migrations stay.
"""

from __future__ import annotations

from functools import cache

from django.apps import apps
from django.db import IntegrityError, connection, transaction

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.models import Workspace
from harness_site.core import deferred_writes

#: Tables that no test writes to.
LASTING = {"auth_permission", "django_content_type"}


def delete_test_rows(_test: object = None) -> None:
    """Delete the rows that a test has written, and recreate the default workspace.

    The server may commit the last statement of a killed process in the middle of that, which adds a row to a table that
    is empty already. Once the session is deleted, no further one is committed.
    """
    deferred_writes.discard_all_waiting_values()  # nothing is written beside it
    try:
        _delete_rows_of_all_tables()
    except IntegrityError:
        _delete_rows_of_all_tables()


def _delete_rows_of_all_tables() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_build_nonempty_tables_query())
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own tables
        Workspace.objects.create(slug=DEFAULT_WORKSPACE, name="Default")


@cache
def _build_nonempty_tables_query() -> str:
    """Build one query for the tables that have rows."""
    models = apps.get_models(include_auto_created=True)
    tables = sorted({model._meta.db_table for model in models if model._meta.managed} - LASTING)
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables)  # noqa: S608
