"""Base of models whose inserts the database has to answer.

A trigger, a rule or a policy of a table may drop what is inserted, without an error. Django then reads the columns of a
row that is not there. A view in the place of a table may return a row without its key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.db import connections, models

from checkpoints.exceptions import RowNotStored

SomeModel = TypeVar("SomeModel", bound=models.Model)


def insert_and_require_rows_stored(
    using: str, model: type[models.Model], count: int, insert: Callable[[], Sequence[Any]]
) -> Sequence[Any]:
    """Insert rows whose columns the statement returns, and require that it returns as many rows.

    Args:
        using: Connection alias.
        model: Model of the rows.
        count: Number of rows.
        insert: What inserts them by the ORM. It returns the columns of each, as Django reads them.

    Returns:
        What `insert` returns.

    Raises:
        RowNotStored: The database has dropped a row.
    """
    is_executed = False

    def execute_and_note_success(execute: Callable[..., Any], *args: Any) -> Any:
        nonlocal is_executed
        result = execute(*args)
        is_executed = True
        return result

    try:
        with connections[using].execute_wrapper(execute_and_note_success):
            rows = insert()
    except TypeError as error:  # Django converts the columns of a row that is not there
        if not is_executed:
            raise
        raise RowNotStored(str(model._meta.db_table)) from error
    is_key_missing = any(value is None for row in rows if row for value in row)
    if len(rows) != count or None in rows or is_key_missing:
        raise RowNotStored(str(model._meta.db_table))
    return rows


class CheckedInsertQuerySet(models.QuerySet[SomeModel]):
    """Query set whose `bulk_create` raises `RowNotStored` if the database drops a row."""

    def _insert(self, objs: Sequence[SomeModel], *args: Any, returning_fields: Any = None, **kwargs: Any) -> Any:
        insert = super()._insert  # type: ignore[misc]  # of Django, without a type
        if not returning_fields or kwargs.get("on_conflict") is not None:
            return insert(objs, *args, returning_fields=returning_fields, **kwargs)
        return insert_and_require_rows_stored(
            self.db, self.model, len(objs), lambda: insert(objs, *args, returning_fields=returning_fields, **kwargs)
        )

    _insert.alters_data = True  # type: ignore[attr-defined]
    _insert.queryset_only = False  # type: ignore[attr-defined]


class CheckedInsertModel(models.Model):
    """Model whose inserts raise `RowNotStored` if the database drops the row."""

    class Meta:
        abstract = True

    def _do_insert(self, manager: Any, using: str, fields: Any, returning_fields: Any, raw: bool) -> Any:
        def insert() -> Any:
            return super(CheckedInsertModel, self)._do_insert(manager, using, fields, returning_fields, raw)  # type: ignore[misc]

        return insert_and_require_rows_stored(using, type(self), 1, insert) if returning_fields else insert()
