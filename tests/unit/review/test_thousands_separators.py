"""Separators of thousands in the numbers of calls that people read."""

from datetime import UTC, datetime

import pytest
from django.utils import translation

from harness_site.review.outage_group_rows import format_outage_title
from harness_site.review.selectors.outage_groups import Outage
from harness_site.review.selectors.pending_calls import BoundedCount


@pytest.mark.parametrize(("language", "number"), [("en", "1,000"), ("de", "1.000")])
def test_numbers_of_calls_have_the_separators_of_the_language(language: str, number: str) -> None:
    then = datetime(2026, 11, 30, tzinfo=UTC)
    with translation.override(language):
        assert str(BoundedCount(1000, more=True)) == f"{number}+"
        assert str(BoundedCount(999)) == "999"
        assert format_outage_title(Outage("refund", "", then, then, 1000)).startswith(f"{number} ")
