"""Characters that no database keeps in text."""

import pytest

from checkpoints.formats.storable_text import (
    is_storable_text,
    replace_unstorable_characters,
    truncate_to_storable,
)


@pytest.mark.parametrize(
    ("text", "stored"),
    [("pay", "pay"), ("Grüße 🙂", "Grüße 🙂"), ("a\0b", "ab"), ("ü\0", "ü"), ("a\ud83db", "a?b"), ("", "")],
)
def test_characters_that_no_database_stores_are_replaced(text: str, stored: str) -> None:
    assert replace_unstorable_characters(text) == stored
    assert is_storable_text(stored)
    assert is_storable_text(text) == (text == stored)


def test_truncated_text_is_storable_and_no_longer_than_its_column() -> None:
    assert truncate_to_storable("ab\ud83dcd", 3) == "ab?"
    assert truncate_to_storable("a\0bcd", 3) == "ab"
