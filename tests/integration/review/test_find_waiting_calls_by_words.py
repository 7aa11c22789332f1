"""Search of the waiting calls by their visible text."""

import pytest
from django.test import Client

from checkpoints.enums import CallStatus
from checkpoints.models import ToolCall
from harness_site.core.masking.masker import use_masking_rules
from harness_site.review import find_rows_with_visible_words, find_waiting_calls_by_words
from harness_site.review.find_rows_with_visible_words import FoundRows
from harness_site.review.find_waiting_calls_by_words import find_waiting_calls_with_words
from tests.support.factories import make_call, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def make_waiting_call(
    session_id: str, *, status: CallStatus = CallStatus.AWAITING_APPROVAL, **args: object
) -> ToolCall:
    session = make_session(session_id=session_id, agent="billing-desk")
    return make_call(session=session, tool="pay_invoice", status=status, args=args)


@pytest.mark.parametrize(
    "text", ["Pay", "SHOP", "order-7", "billing", "1249", "1,249.00", "nordlicht  lamp", "beneficiary", "pay_inv lamp"]
)
def test_words_are_found_in_each_text_that_the_reader_sees_of_a_call(text: str) -> None:
    call = make_waiting_call("order-7", amount="1249.00", beneficiary=["Nordlicht AG"], lines=[{"name": "Lamp (shop)"}])
    make_waiting_call("other-8", amount="9.00")
    found = find_waiting_calls_with_words(call.workspace, text)
    assert call.pk in found.pks
    assert found.is_complete
    assert find_waiting_calls_with_words(call.workspace, f"{text} absent") == FoundRows()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5.00", ["5.00"]),
        ("25", ["25.00"]),
        ("5", ["5.00"]),
        ("148500", ["148500.00"]),
        ("148,500.00", ["148500.00"]),
        ("148", []),
        ("1485", []),
        ("5.00 25.00", []),
        ("5.0 credit", ["5.00"]),
        ("cc-1", ["5.00", "25.00", "148500.00"]),
    ],
)
def test_number_is_found_as_a_whole_number(text: str, found: list[str]) -> None:
    session = make_session(session_id="desk")
    calls = {
        amount: make_call(
            session=session,
            step=step,
            sentence="Give a credit",
            args={"amount": amount, "account": f"acc-17{step}"},
            status=CallStatus.AWAITING_APPROVAL,
        )
        for step, amount in enumerate(("5.00", "25.00", "148500.00"), start=1)
    }
    assert find_waiting_calls_with_words(session.workspace, text).pks == {calls[amount].pk for amount in found}


def test_names_of_arguments_are_found_only_where_the_sentence_says_them() -> None:
    session = make_session(session_id="order-7")
    args = {"recipient": "ann", "lines": [{"quantity": 3, "options": {"colour": "red"}}]}
    call = make_call(session=session, sentence="Sell lamps", status=CallStatus.AWAITING_APPROVAL, args=args)
    without_sentence = make_call(session=session, step=2, status=CallStatus.AWAITING_APPROVAL, args=args)
    assert find_waiting_calls_with_words(call.workspace, "recipient").pks == {without_sentence.pk}
    assert not find_waiting_calls_with_words(call.workspace, "quantity").pks
    assert not find_waiting_calls_with_words(call.workspace, "colour").pks
    assert find_waiting_calls_with_words(call.workspace, "ann 3 red").pks == {call.pk, without_sentence.pk}


def test_masked_texts_are_found_only_by_readers_who_see_them() -> None:
    session = make_session(session_id="order-7")
    make_call(session=session, step=1, args={"password": "hunter2-secret"}, status=CallStatus.COMPLETED)
    call = make_call(
        session=session,
        step=2,
        status=CallStatus.INTERRUPTED,
        args={"api_key": "k-4711-zz", "note": "login with hunter2-secret"},
    )
    for secret in ("k-4711", "hunter2", "login secret", "masked"):
        assert not find_waiting_calls_with_words(call.workspace, secret).pks, secret
    assert find_waiting_calls_with_words(call.workspace, "api login").pks == {call.pk}
    with use_masking_rules(None):
        assert find_waiting_calls_with_words(call.workspace, "k-4711 hunter2").pks == {call.pk}


def test_search_says_when_it_has_not_read_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [make_waiting_call(f"order-{number}", note="lamp") for number in range(3)]
    monkeypatch.setattr(find_waiting_calls_by_words, "SEARCHED_CALLS", 2)
    found = find_waiting_calls_with_words(make_workspace(), "lamp")
    assert found == FoundRows(frozenset(call.pk for call in calls[:2]), is_complete=False)
    monkeypatch.undo()
    monkeypatch.setattr(find_rows_with_visible_words, "MOST_FOUND", 1)
    assert find_waiting_calls_with_words(make_workspace(), "lamp") == FoundRows(frozenset([calls[0].pk]), False)


def test_arguments_that_are_very_long_are_not_read() -> None:
    call = make_waiting_call("order-7", note="lamp", body="x" * 30_000)
    assert not find_waiting_calls_with_words(call.workspace, "lamp").pks
    assert find_waiting_calls_with_words(call.workspace, "order-7").pks == {call.pk}


def test_queue_lists_the_calls_with_the_words_and_names_the_filter(people: dict[str, Client]) -> None:
    wanted, other = make_waiting_call("order-7", note="lamp"), make_waiting_call("order-8", note="chair")
    interrupted = make_waiting_call("order-9", status=CallStatus.INTERRUPTED, note="lamp")
    page = people["alice"].get("/review/?tab=awaiting&q=LAMP")
    assert [row.pk for row in page.context["rows"]] == [wanted.pk]
    assert [row.pk for row in people["alice"].get("/review/?tab=interrupted&q=lamp").context["rows"]] == [
        interrupted.pk
    ]
    assert "1 of 2 waiting calls matches the filters" in visible_text(page)
    assert "Filtered by: text “LAMP”" in visible_text(page)
    assert 'name="q" value="LAMP"' in page.content.decode()
    assert f"/review/calls/{other.pk}/" not in page.content.decode()
    assert "There may be others." not in visible_text(page)


def test_queue_says_that_a_search_has_left_out_calls(
    people: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find_waiting_calls_by_words, "SEARCHED_CALLS", 1)
    for number in range(2):
        make_waiting_call(f"order-{number}")
    page = visible_text(people["alice"].get("/review/?tab=awaiting&q=order"))
    assert "The search reads the 1 longest waiting calls of each tab and finds 100 of them at most." in page


def test_part_of_the_name_of_a_tool_leads_to_the_search(people: dict[str, Client]) -> None:
    call = make_waiting_call("order-7")
    page = people["alice"].get("/review/?tab=awaiting&tool=pay")
    assert "Search all waiting calls for “pay”" in visible_text(page)
    assert 'href="?tab=awaiting&amp;q=pay"' in page.content.decode()
    assert [row.pk for row in people["alice"].get("/review/?tab=awaiting&q=pay").context["rows"]] == [call.pk]
