"""Leases begin and end by the clock of the database. Here that clock is an hour ahead of this process's, or behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from checkpoints.exceptions import SessionBusy
from checkpoints.models import Run
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import start_session

#: PostgreSQL looks for functions in the schemas of the search path, so that one of ours can come first.
AHEAD = """
CREATE SCHEMA skewed;
CREATE FUNCTION skewed.statement_timestamp() RETURNS timestamptz LANGUAGE sql
AS $$ SELECT pg_catalog.statement_timestamp() + interval '{hours} hours' $$;
SET search_path = skewed, pg_catalog, public;
"""


@contextmanager
def database_clock(hours: int) -> Iterator[None]:
    """The database on this connection is some hours ahead."""
    connection.ensure_connection()
    if connection.vendor == "sqlite":
        connection.connection.create_function("strftime", 2, lambda *_: _sqlite_time(hours))
        yield
        connection.close()
        return
    with connection.cursor() as cursor:
        cursor.execute(AHEAD.format(hours=hours))
        yield
        cursor.execute("RESET search_path; DROP SCHEMA skewed CASCADE")


def _sqlite_time(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def test_lease_that_has_ended_there_has_ended(open_checkpointer: Open) -> None:
    start_session(open_checkpointer(lease_seconds=600))
    with database_clock(hours=1):
        assert open_checkpointer().start_session("s").number == 2


def test_lease_that_goes_on_there_goes_on(open_checkpointer: Open) -> None:
    with database_clock(hours=-1):
        start_session(open_checkpointer(lease_seconds=600))
        assert Run.objects.get().lease_expires_at < datetime.now(UTC)
        with pytest.raises(SessionBusy):
            open_checkpointer().start_session("s")
