"""Rebuilding an index whose keys were used before."""

from datetime import UTC, datetime, timedelta

import pytest

from harness_site.search import indexer, passage_search
from harness_site.search.models import Passage
from harness_site.search.query_terms import SearchQuery
from tests.integration.search.conftest import complete
from tests.support.exhaustive_mode import mark_all_but_each
from tests.support.factories import make_message, make_session

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("given_out", mark_all_but_each(2, [40, 120]))
def test_everything_is_found_after_a_rebuild(given_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "READ", 5)
    monkeypatch.setattr(passage_search, "PAGE", 30)
    session, moment = make_session(title="other"), datetime(2026, 5, 4, tzinfo=UTC)
    for day in range(given_out // 10):
        for _ in range(10):
            make_message(session=session, text="filler", created_at=moment + timedelta(days=day))
        complete()
    for number in range(30):
        make_message(session=make_session(title="other"), text=f"lamp number {number}")
    for _ in range(5):
        make_session(title="other")
    complete()
    monkeypatch.setattr(indexer, "STEP", 3)
    indexer.clear_index_with_call_and_decision_sums()
    complete()

    for _ in range(14):
        eras = list(Passage.objects.order_by("pk").values_list("era", flat=True))
        assert eras == sorted(eras)
        found = passage_search.search_sessions(session.workspace_id, SearchQuery.parse("lamp"))
        assert (len(found.passages), found.partly) == (30, False)
        make_message(session=session, text="something new")
        complete()
