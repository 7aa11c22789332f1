"""Plans of statements on PostgreSQL: which connections reuse them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from checkpoints.db import clock
from checkpoints.models import Session
from harness_site.accounts.models import ApiToken, TokenRole
from harness_site.api.postgres_query_plan_reuse import reuse_query_plans_in_context
from tests.support.api_client import ApiClient, make_token

pytestmark = pytest.mark.django_db(transaction=True)

REUSED, CUSTOM, UNCHANGED = ("auto", "off"), ("force_custom_plan", "on"), ("auto", "on")


@pytest.fixture(autouse=True)
def pool() -> Any:
    """Pool without connections; None on SQLite, which has neither a pool nor plans that are kept."""
    connection.close()
    if connection.vendor == "sqlite":
        return None
    connection.close_pool()  # type: ignore[attr-defined]
    return connection.pool  # type: ignore[attr-defined]


def read_modes_of_idle_connections(pool: Any) -> list[tuple[str, str]]:
    """Read the modes of the connections in the pool, as their last use has left them."""
    connection.close()
    taken = [pool.getconn() for _ in range(pool.get_stats()["pool_size"])]
    try:
        return [(_read_setting(one, "plan_cache_mode"), _read_setting(one, "enable_seqscan")) for one in taken]
    finally:
        for one in taken:
            pool.putconn(one)


def _read_setting(driver_connection: Any, name: str) -> str:
    value: str = driver_connection.execute("SELECT current_setting(%s)", [name]).fetchone()[0]
    return value


def open_session(client: ApiClient) -> int:
    ApiToken.objects.update(last_used_at=clock.now())
    fence: int = client.post("/sessions", {"session_id": "s"}).json()["run"]["fence"]
    return fence


def save(client: ApiClient, fence: int, version: int) -> None:
    body = {"fence": fence, "messages": [{"role": "user"}], "expected_version": version}
    assert client.post("/sessions/s/versions", body, **{"Idempotency-Key": f"save {version}"}).status_code == 201


def test_write_of_an_agent_reuses_plans_and_what_follows_does_not(pool: Any) -> None:
    client = ApiClient(make_token(TokenRole.AGENT), client="a process")
    fence = open_session(client)
    save(client, fence, 0)
    for version in (1, 2):
        connection.close()
        save(client, fence, version)
        # A thread of another test may have a connection in the pool, too.
        assert pool is None or REUSED in read_modes_of_idle_connections(pool)
        assert Session.objects.get().latest_version == version + 1
        if pool:
            with connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('plan_cache_mode'), current_setting('enable_seqscan')")
                assert cursor.fetchone() == CUSTOM


def test_connection_that_does_not_plan_for_values_is_not_changed(pool: Any) -> None:
    """A pooler between this process and the server ignores the option, and gives the connection to others."""
    assert Session.objects.count() == 0
    connection.close()
    if pool:
        driver_connection = pool.getconn()
        driver_connection.execute("SET plan_cache_mode = auto")
        pool.putconn(driver_connection)
    with reuse_query_plans_in_context():
        assert Session.objects.count() == 0
    assert (read_modes_of_idle_connections(pool) if pool else [UNCHANGED]) == [UNCHANGED]


def test_write_on_a_connection_that_was_lost_is_done(pool: Any) -> None:
    """The mode is no statement of the write, and its failure no failure of the write."""
    client = ApiClient(make_token(TokenRole.AGENT), client="a process")
    fence = open_session(client)
    save(client, fence, 0)
    connection.close()
    if pool:
        lost, other = pool.getconn(), pool.getconn()
        pool.putconn(lost)
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [lost.info.backend_pid])
        other.close()
        pool.putconn(other)
    save(client, fence, 1)
    assert Session.objects.get().latest_version == 2
