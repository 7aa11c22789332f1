"""Arrays that are encoded here reach PostgreSQL as the same values as those of the driver."""

from typing import Any

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer
from checkpoints.db import postgresql_binary_arrays
from checkpoints.db.postgresql_binary_arrays import BinaryArray

pytestmark = [pytest.mark.django_db(transaction=True)]


def _select_array(type_: str, array: Any) -> Any:
    with connection.cursor() as cursor:
        sql = f"SELECT ARRAY(SELECT value FROM UNNEST(%s::{type_}[]) AS value)"  # noqa: S608 - a type of this module
        cursor.execute(sql, [array])
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("bytea", [b"", b"\x00\xff", None]),
        ("text", ["", "ünïcode \N{SLICE OF PIZZA}", None, '{"a",\\}', "NULL"]),
        ("boolean", [True, False, None]),
        ("int", [0, -1, 2**31 - 1, -(2**31), None]),
        ("bigint", [2**63 - 1, -(2**63)]),
        ("bigint", [None, None]),
    ],
)
def test_encoded_array_has_the_same_values(cp: SyncCheckpointer, type_: str, values: list[Any]) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no arrays")
    array = postgresql_binary_arrays.encode_array_if_possible(type_, values)
    assert isinstance(array, BinaryArray)
    for _ in range(2):
        postgresql_binary_arrays.register_binary_array_dumper(connection)
        assert _select_array(type_, array) == _select_array(type_, values) == values
        connection.close()


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("int", 2**31),
        ("bigint", "1"),
        ("bytea", 5),
        ("bytea", "text"),
        ("text", 5),
        ("text", "\ud800"),
    ],
)
def test_values_of_another_type_are_left_to_the_driver(type_: str, value: object) -> None:
    values = [None, value]
    assert postgresql_binary_arrays.encode_array_if_possible(type_, values) is values
