"""Leases use the clock of the database, which is an hour ahead of or behind this process in these tests."""

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
    """Shift the clock of the database on this connection by some hours."""
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


def test_lease_expired_by_the_database_clock_is_expired(open_checkpointer: Open) -> None:
    start_session(open_checkpointer(lease_seconds=600))
    with database_clock(hours=1):
        assert open_checkpointer().start_session("s").number == 2


def test_lease_valid_by_the_database_clock_is_valid(open_checkpointer: Open) -> None:
    with database_clock(hours=-1):
        start_session(open_checkpointer(lease_seconds=600))
        assert Run.objects.get().lease_expires_at < datetime.now(UTC)
        with pytest.raises(SessionBusy):
            open_checkpointer().start_session("s")
