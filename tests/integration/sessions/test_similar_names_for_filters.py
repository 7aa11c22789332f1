"""Names that a filter nearly matches."""

import pytest

from harness_site.sessions.selectors.similar_names_for_filters import load_similar_names_of_session_filters

#: Whether the name of the agent is known is asked of the database.
pytestmark = pytest.mark.django_db

KNOWN = {"project": ["password: hunter22", "refunds", "refund-desk"]}


def suggest(typed: str) -> list[tuple[str, ...]]:
    return [near.names for near in load_similar_names_of_session_filters(0, {"project": typed}, KNOWN)]


def test_masked_part_of_a_name_is_not_found() -> None:
    assert suggest("hunter22") == []
    assert suggest("password") == [("password: hunter22",)]


def test_names_that_begin_with_the_text_are_suggested_and_none_beside_an_exact_one() -> None:
    assert suggest("REFUND") == [("refunds", "refund-desk")]
    assert suggest("refnuds") == [("refunds",)]
    assert suggest("refunds") == []
