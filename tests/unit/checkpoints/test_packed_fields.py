"""Columns with packed values: what a database holds that this library did not write."""

from typing import Any

import pytest
from django.db import connection

from checkpoints.models.packed_fields import PACKED_FIELDS


@pytest.mark.parametrize("kind", PACKED_FIELDS)
@pytest.mark.parametrize("stored", ["text", "", 3, 1.5])
def test_value_of_another_type_is_read_as_it_is(kind: Any, stored: object) -> None:
    """SQLite stores any type in any column. A seal, or what parses the value, says that it was altered."""
    assert kind().from_db_value(stored, None, connection) == stored
