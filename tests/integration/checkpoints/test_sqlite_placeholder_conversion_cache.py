"""The SQL of hot statements is converted to the style of SQLite's driver once."""

from __future__ import annotations

import pytest
from django.db import connection

from checkpoints.db import sqlite_placeholder_conversion_cache
from checkpoints.db.authenticated_idempotent_write_guard import open_write_transaction_with_optional_guard
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session

pytestmark = pytest.mark.django_db(transaction=True)


def test_placeholders_and_percent_signs_are_converted() -> None:
    for value in (1, "%s"):
        with open_write_transaction_with_optional_guard(connection, None) as cursor:
            cursor.execute("SELECT %s, '%%'", [value] if connection.vendor == "sqlite" else [str(value)])
            assert [str(column) for column in cursor.fetchone()] == [str(value), "%"]


def test_a_second_save_converts_no_sql(open_checkpointer: Open) -> None:
    cp = start_session(open_checkpointer())
    cp.save_checkpoint("s", conversation("ab"), {}, 0)
    cp.save_checkpoint("s", conversation("abc"), {}, 0)
    before = sqlite_placeholder_conversion_cache._convert_placeholders.cache_info()
    cp.save_checkpoint("s", conversation("abcd"), {}, 0)
    after = sqlite_placeholder_conversion_cache._convert_placeholders.cache_info()
    assert after.misses == before.misses
    # PostgreSQL's driver takes Django's placeholders.
    assert (after.hits > before.hits) == (connection.vendor == "sqlite")
