"""Search of the decisions by their visible text and that of their calls."""

from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models import Decision, ToolCall
from harness_site.core.masking.masker import use_masking_rules
from harness_site.review import find_decisions_with_visible_words, find_rows_with_visible_words
from harness_site.review.find_decisions_with_visible_words import find_decisions_with_words
from harness_site.review.find_rows_with_visible_words import FoundRows
from harness_site.review.selectors.decided_calls import DecisionFilters
from harness_site.review.selectors.pending_calls import CallFilters
from tests.support.factories import make_call, make_decision, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def decide(session_id: str, *, reason: str = "", actor: str = "bob", **args: object) -> Decision:
    session = make_session(session_id=session_id, agent="billing-desk")
    call = make_call(session=session, tool="pay_invoice", status=CallStatus.FAILED, args=args)
    return make_decision(call=call, kind=DecisionKind.MARK_FAILED, actor=actor, reason=reason)


def find(text: str, **wanted: Any) -> FoundRows:
    return find_decisions_with_words(make_workspace(), text, CallFilters(), DecisionFilters(**wanted))


@pytest.mark.parametrize("text", ["PAY", "order-7", "billing", "hetzner", "duplicate", "bob", "hetzner duplicate bob"])
def test_words_are_found_in_the_call_and_in_the_decision(text: str) -> None:
    wanted = decide("order-7", beneficiary="Hetzner Online", reason="A duplicate of 4100")
    decide("other-8", actor="ana")
    assert wanted.pk in find(text).pks
    assert find(f"{text} absent") == FoundRows()
    assert not find(text, person="carol").pks


def test_masked_texts_are_found_only_by_readers_who_see_them() -> None:
    decision = decide("order-7", api_key="k-4711-zz", reason="The key k-4711-zz is right")
    assert not find("k-4711").pks
    with use_masking_rules(None):
        assert find("k-4711").pks == {decision.pk}


def test_search_says_when_it_has_not_read_all_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = [decide(f"order-{number}") for number in range(3)]
    monkeypatch.setattr(find_decisions_with_visible_words, "SEARCHED_DECISIONS", 2)
    newest = frozenset(decision.pk for decision in decisions[1:])
    assert find("order") == FoundRows(newest, is_complete=False)
    monkeypatch.undo()
    monkeypatch.setattr(find_rows_with_visible_words, "MOST_FOUND", 1)
    assert find("order") == FoundRows(frozenset([decisions[-1].pk]), is_complete=False)


def test_empty_search_of_the_queue_leads_to_the_decisions_that_match(people: dict[str, Client]) -> None:
    decide("order-7")
    page = people["alice"].get("/review/?q=order")
    assert "Show 1 decided call that matches" in visible_text(page)
    assert page.content.decode().count("?q=order&amp;tab=decided") == 2  # the tab and the button
    assert "decided call that matches" not in visible_text(people["alice"].get("/review/?q=absent"))


@pytest.mark.parametrize("query", ["claimed=for-me", "claimed=nobody", "age=1d", "deadline=hour", "q=order&claimed=me"])
def test_empty_queue_does_not_lead_to_decisions_that_ignore_its_filter(people: dict[str, Client], query: str) -> None:
    decide("order-7")
    page = visible_text(people["alice"].get(f"/review/?{query}"))
    assert "No waiting calls match these filters." in page
    assert "decided call that matches" not in page


def test_list_has_the_decisions_with_the_words_and_the_tab_counts_them(people: dict[str, Client]) -> None:
    wanted = decide("order-7", beneficiary="Hetzner Online", reason="Paid twice")
    decide("order-8")
    page = people["alice"].get("/review/?tab=decided&q=hetzner")
    assert [row.call_pk for row in page.context["decisions"]] == [wanted.tool_call_id]
    text = visible_text(page)
    assert "Decisions 1" in text
    assert "Filtered by: text “hetzner”" in text
    assert 'aria-label="Search decisions"' in page.content.decode()
    assert "Decisions 0" in visible_text(people["alice"].get("/review/?q=zzzz"))
    assert "No decisions match these filters." in visible_text(people["alice"].get("/review/?tab=decided&q=zzzz"))


def test_list_shows_the_decision_whose_reason_has_the_words(people: dict[str, Client]) -> None:
    first = decide("order-7", reason="Paid twice")
    make_decision(call=ToolCall.objects.get(), kind=DecisionKind.WITHDRAW, actor="ana", revision=2)
    page = people["alice"].get("/review/?tab=decided&q=twice")
    assert [row.pk for row in page.context["decisions"]] == [first.pk]
    assert "Then: ana withdrew the decision" in visible_text(page)


def test_list_says_that_a_search_has_left_out_decisions(
    people: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_decisions_with_visible_words, "SEARCHED_DECISIONS", 1)
    for number in range(2):
        decide(f"order-{number}")
    page = visible_text(people["alice"].get("/review/?tab=decided&q=order"))
    assert "The search reads the 1 newest decisions that match the other filters" in page
