"""Fast parser of PostgreSQL timestamps."""

from datetime import UTC

import psycopg
import pytest
from django.db.backends.postgresql.psycopg_any import BaseTzLoader

from harness_site.core.fast_postgres_timestamp_loader import TimestampLoader

_OID = psycopg.postgres.types["timestamptz"].oid


class DriverLoader(BaseTzLoader):  # type: ignore[misc]
    timezone = UTC


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-22 01:45:46+00",
        "2026-11-22 01:45:46.09+00",
        "2026-11-22 01:45:46.123456+00",
        "1969-12-31 23:59:59.999999+00",
        "0001-01-01 00:00:00+00",
    ],
)
def test_timestamp_is_parsed_like_the_driver(text: str) -> None:
    found = TimestampLoader(_OID).load(memoryview(text.encode()))
    assert found == DriverLoader(_OID).load(text.encode())
    assert found.tzinfo is UTC


def test_timestamp_of_another_zone_is_the_same_moment() -> None:
    assert str(TimestampLoader(_OID).load(b"2026-11-22 01:45:46.5+02:30")) == "2026-11-21 23:15:46.500000+00:00"


@pytest.mark.parametrize("text", ["infinity", "0044-03-15 12:00:00+00 BC", "20261-01-01 00:00:00+00"])
def test_timestamp_beyond_python_is_refused_like_the_driver(text: str) -> None:
    with pytest.raises(psycopg.DataError):
        TimestampLoader(_OID).load(text.encode())
