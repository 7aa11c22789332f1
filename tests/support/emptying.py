"""Emptying the database after a test with real transactions.

Django empties every table and then makes anew what belongs to its own apps, which takes as long as many a test. Most
tests write to a few tables, so here only those are emptied, and what migrations leave for good stays where it is.
"""

from __future__ import annotations

from functools import cache

from django.apps import apps
from django.db import connection, transaction

from checkpoints.models import DEFAULT_WORKSPACE, Workspace

#: No test writes to these.
LASTING = {"auth_permission", "django_content_type"}


def empty(_test: object = None) -> None:
    """Remove what a test has written; the default workspace is there again, as migrations made it."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_question())
        for (table,) in cursor.fetchall():
            cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - names of our own tables
        Workspace.objects.create(slug=DEFAULT_WORKSPACE, name="Default")


@cache
def _question() -> str:
    """Which tables have rows. One statement, because most answers are no."""
    models = apps.get_models(include_auto_created=True)
    tables = sorted({model._meta.db_table for model in models if model._meta.managed} - LASTING)
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in tables)  # noqa: S608
