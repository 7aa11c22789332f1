"""Search of the audit trail by words."""

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, ToolCall
from harness_site.accounts.models import Invitation
from harness_site.audit import folded_entry_pages, search_entries_by_words
from harness_site.review.models import Comment
from tests.integration.audit import audit_events
from tests.support.audit_entries import list_entries
from tests.support.factories import make_call, make_decision, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

SECRET = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


def happened(kind: AuditKind = AuditKind.ROLE_CHANGED, *, slug: str = "default", **fields: Any) -> int:
    """Record an event, and return its key."""
    return audit_events.happened(kind, workspace=make_workspace(slug=slug), **fields).pk


def find(reader: Client, words: str, **query: Any) -> list[int]:
    """Return the keys of the entries on the page."""
    page = reader.get("/audit/", {"words": words, **query}).text
    return [int(key) for key in re.findall(r'id="entry-(\d+)"', page)]


def exported(reader: Client, words: str) -> list[list[str]]:
    response: Any = reader.get("/audit/export/", {"words": words})
    return list(csv.reader(io.StringIO(b"".join(response.streaming_content).decode())))[1:]


def make_different_entries() -> dict[str, int]:
    """Record an entry of each kind of text, and return their keys by the words that only they have."""
    workspace = make_workspace()
    invitation = Invitation.objects.create(
        workspace=workspace, role="admin", note="Für die Prüfung", digest="d", invited_by="x", expires_at=clock.now()
    )
    titled = make_session(session_id="order-17", title="Refund for a broken Lamp")
    decided = make_session(session_id="order-18", title="Chair")
    call = make_call(session=decided, call_id="pay")
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob", reason="Seen in the ledger of Ärztekammer")
    return {
        "lamp": happened(AuditKind.COMMENTED, session=titled),
        "LEDGER": happened(AuditKind.DECIDED, actor="bob", session=decided, decision="approve", call_id="pay"),
        "ärztekammer": AuditEvent.objects.latest("pk").pk,
        "refund_card": happened(AuditKind.CALL_INTERRUPTED, actor="gate", tool="refund_card"),
        "Dörte": happened(member="dörte", role="admin", before="auditor"),
        "prüfung": happened(AuditKind.INVITED, invitation=invitation.pk, role="admin"),
        "10.0.0.17": happened(AuditKind.SIGNED_IN, actor="erin", address="10.0.0.17"),
        "order-17": titled.pk,
    }


def test_entries_are_found_by_each_of_their_texts(reader: Client) -> None:
    keys = make_different_entries()
    keys["order-17"] = keys["lamp"]
    assert {words: find(reader, words) for words in keys} == {words: [key] for words, key in keys.items()}


def test_all_words_have_to_occur_anywhere_in_the_entry(reader: Client) -> None:
    keys = make_different_entries()
    assert find(reader, "bob ledger chair") == [keys["LEDGER"]]
    assert find(reader, "bob ledger lamp") == []
    assert find(reader, "alice", subject="people") == [keys["prüfung"], keys["Dörte"]]


def test_names_of_details_are_not_searched(reader: Client) -> None:
    make_different_entries()
    assert find(reader, "member") == []
    assert "Each of the words has to be in the sentence of the entry" in visible_text(
        reader.get("/audit/?words=member")
    )


def test_reason_of_another_decision_is_not_found(reader: Client) -> None:
    session = make_session()
    call = make_call(session=session, call_id="pay")
    old = clock.now() - timedelta(hours=1)
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="alice", reason="ledger", created_at=old)
    happened(AuditKind.DECIDED, session=session, decision="approve", call_id="pay")
    happened(AuditKind.DECIDED, actor="bob", session=session, decision="approve", call_id="pay")
    assert find(reader, "ledger") == []


def test_other_workspace_is_not_searched(reader: Client) -> None:
    happened(member="dave", slug="elsewhere")
    assert find(reader, "dave") == []


@pytest.mark.parametrize("words", ["4eC39", SECRET])
def test_masked_text_is_not_found(reader: Client, words: str) -> None:
    session = make_session(title=f"Key {SECRET}")
    happened(AuditKind.COMMENTED, session=session)
    happened(AuditKind.DECIDED, session=session, decision="approve", call_id="pay")
    make_decision(call=make_call(session=session, call_id="pay"), kind=DecisionKind.APPROVE, reason=SECRET)
    happened(AuditKind.TOKEN_CREATED, token_name=SECRET)
    assert find(reader, words) == []
    assert [row for row in exported(reader, words) if "carol" not in row] == []
    assert len(find(reader, "key")) == 2


def make_order(args: dict[str, Any] | None = None, **fields: Any) -> ToolCall:
    """Create a call of an order of goods for 1,644.00 EUR, which was one for 1,829.00 EUR."""
    return make_call(
        session=make_session(session_id="order-17", title="Goods"),
        call_id="buy",
        tool="order_goods",
        args=args or {"amount": "1644.00", "currency": "EUR", "supplier": "Nordisk Lys AS"},
        status=CallStatus.AWAITING_APPROVAL,
        **fields,
    )


def make_entries_about_order() -> dict[str, int]:
    """Record what happens to an order of goods, and return the keys of the entries."""
    template = "Order {amount} {currency} of goods from {supplier}"
    call = make_order(
        sentence="Order 1644.00 EUR of goods from Nordisk Lys AS",
        sentence_template=template,
        asked_args_digest="a" * 64,
    )
    before = {"amount": "1829.00", "currency": "EUR", "supplier": "Nordisk Lys AS"}
    evidence = to_canonical_json({"args_before": to_canonical_json(before)})
    about: dict[str, Any] = {"session": call.session, "call_id": "buy", "step": call.step}
    make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence, reason="As the bank\n statement says")
    keys = {"changed": happened(AuditKind.DECIDED, decision="edit", **about)}
    make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob", reason="The statement of the bank", revision=9)
    keys["approved"] = happened(AuditKind.DECIDED, actor="bob", decision="approve", **about)
    keys["withdrawn"] = happened(AuditKind.DECIDED, decision="withdraw", **about)
    note = Comment.objects.create(call=call, author="alice", text="Please ask the vendor")
    keys["commented"] = happened(AuditKind.COMMENTED, comment=note.pk, **about)
    keys["handed"] = happened(AuditKind.HANDED_OVER, to_member="bob", comment=note.pk, **about)
    keys["signed in"] = happened(AuditKind.SIGNED_IN, actor="erin")
    return keys


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("1,829.00", ["changed"]),
        ("1829", ["changed"]),
        ("withdrew", ["withdrawn"]),
        ("withdrew the decision Nordisk", ["withdrawn"]),
        ("approved", ["approved"]),
        ("handed", ["handed"]),
        ("vendor", ["handed", "commented"]),
        ("handed vendor", ["handed"]),
        ("Order Nordisk", ["handed", "commented", "withdrawn", "approved", "changed"]),
        ("1,644", ["handed", "commented", "withdrawn", "approved", "changed"]),
        ("1,644 changed bank", ["changed"]),
        ("bank statement", ["approved", "changed"]),
        ('"bank statement"', ["changed"]),
        ("“Bank Statement”", ["changed"]),
        ('"statement bank"', []),
        ('nordisk "withdrew the decision"', ["withdrawn"]),
        ('"arguments changed"', ["changed"]),
        ("alice changed the arguments of calls", ["changed"]),
        ("alice withdrew decisions about calls", ["withdrawn"]),
        ("alice decided calls", []),
        ("bob decided calls", ["approved"]),
        ('"It waited for a decision again."', ["withdrawn"]),
        ("It was allowed to run.", ["approved"]),
        ("still waited for an approval", ["changed"]),
        ("It does not run.", []),
        ("call_before", []),
    ],
)
def test_words_of_the_sentence_are_found(reader: Client, words: str, found: list[str]) -> None:
    keys = make_entries_about_order()
    assert find(reader, words) == [keys[name] for name in found]
    assert {row[0] for row in exported(reader, words) if "carol" not in row} == {
        str(AuditEvent.objects.get(pk=keys[name]).number or "") for name in found
    }


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("zurückgezogen", ["withdrawn"]),
        ("ÜBERGEBEN", ["handed"]),
        ("1.829,00 geändert", ["changed"]),
        ('"die entscheidung über"', ["withdrawn"]),
        ('"Argumente geändert"', ["changed"]),
        ("wartete wieder auf eine Entscheidung", ["withdrawn"]),
        ("withdrew", []),
    ],
)
def test_words_of_the_sentence_are_those_of_the_language_of_the_reader(
    reader: Client, words: str, found: list[str]
) -> None:
    keys = make_entries_about_order()
    page = reader.get("/audit/", {"words": words}, headers={"accept-language": "de"}).text
    assert re.findall(r'id="entry-(\d+)"', page) == [str(keys[name]) for name in found]


def test_what_became_of_an_approved_call_is_found(reader: Client) -> None:
    call = make_order()
    about: dict[str, Any] = {"session": call.session, "call_id": "buy", "step": call.step}
    make_decision(call=call, kind=DecisionKind.APPROVE, final=True)
    key = happened(AuditKind.DECIDED, decision="approve", **about)
    outcomes = {
        CallStatus.APPROVED: "It was allowed to run and has not run.",
        CallStatus.COMPLETED: "It ran.",
        CallStatus.INTERRUPTED: "It began to run, and its outcome is unknown.",
    }
    for status, sentence in outcomes.items():
        ToolCall.objects.update(status=status)
        assert sentence in visible_text(reader.get("/audit/"))
        assert {text for text in outcomes.values() if find(reader, f'"{text}"') == [key]} == {sentence}


def test_first_of_two_decisions_is_found_by_its_consequence(reader: Client) -> None:
    call = make_order()
    make_decision(call=call, kind=DecisionKind.APPROVE, final=False)
    key = happened(AuditKind.DECIDED, session=call.session, call_id="buy", step=call.step, decision="approve")
    assert find(reader, '"another person had to decide the same"') == [key]


def make_numbered_entries(first: int, count: int) -> list[int]:
    keys = [happened(member="dave", step=-number) for number in range(count)]
    for number, key in enumerate(keys, first):
        AuditEvent.objects.filter(pk=key).update(number=number)
    return keys


@pytest.mark.parametrize("words", ["#1203", "1203", "#1,203", "1,203", "1.203", "“#1203”", "dave #1203"])
def test_entry_is_found_by_its_number(reader: Client, words: str) -> None:
    keys = make_numbered_entries(1202, 3)
    assert find(reader, words) == [keys[1]]


@pytest.mark.parametrize("words", ["#120", "#12", "203", "12031", "erin #1203", "#", "1.2.0.3", "#9" + "9" * 60])
def test_entry_is_not_found_by_a_part_of_its_number(reader: Client, words: str) -> None:
    make_numbered_entries(1202, 3)
    assert find(reader, words) == []


def test_entry_of_a_number_is_found_below_what_a_page_searches(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "SEARCHED_ENTRIES", 10)
    session = make_session(title="Order #1203")
    old = make_numbered_entries(1200, 40)
    titled = happened(AuditKind.COMMENTED, session=session)
    assert find(reader, "#1203") == [titled, old[3]]
    assert find(reader, "dave #1203") == [old[3]]
    assert find(reader, "erin #1203") == []
    assert find(reader, "#1203", actor="erin") == []
    page = reader.get("/audit/?words=%231203").text
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following
    assert 'id="entry-' not in reader.get(following[1].replace("&amp;", "&")).text


def test_words_of_a_sentence_about_arguments_are_found(reader: Client) -> None:
    call = make_order({"amount": "26523.0", "express": True, "due": "2026-03-04T10:42:00+00:00"})
    key = happened(AuditKind.CLAIMED, session=call.session, call_id="buy")
    page = visible_text(reader.get("/audit/"))
    for words in ("26,523.00", '"express yes"', '"order goods"', "10:42", "2026-03-04", "claimed"):
        assert words.strip('"').casefold() in page.casefold()
        assert find(reader, words) == [key], words
    assert find(reader, "26,524") == []


@pytest.mark.parametrize("words", ["4eC39", SECRET, "hunter2", "77321"])
def test_masked_text_of_a_sentence_or_a_note_is_not_found(reader: Client, words: str) -> None:
    call = make_order(
        {"password": "hunter2", "api_key": "key-77321-x", "note": SECRET},
        sentence=f"Order with hunter2, key-77321-x and {SECRET}",
        sentence_template="Order with {password}, {api_key} and {note}",
    )
    comment = Comment.objects.create(call=call, author="alice", text=f"It is hunter2, key-77321-x or {SECRET}")
    key = happened(AuditKind.COMMENTED, session=call.session, call_id="buy", step=call.step, comment=comment.pk)
    assert find(reader, words) == []
    assert find(reader, '"it is" order') == [key]


def test_comment_before_a_handover_is_not_taken_for_its_note(reader: Client) -> None:
    call = make_order()
    about: dict[str, Any] = {"session": call.session, "call_id": "buy", "step": call.step}
    keys = []
    for text in ("Please ask the vendor", "The vendor agrees"):
        comment = Comment.objects.create(call=call, author="alice", text=text)
        keys.append(happened(AuditKind.COMMENTED, comment=comment.pk, **about))
    happened(AuditKind.HANDED_OVER, to_member="bob", **about)
    assert find(reader, "vendor") == keys[::-1]
    assert find(reader, "please") == keys[:1]


def test_secret_of_another_call_is_not_found_by_a_sentence_that_has_it(reader: Client) -> None:
    call = make_order({"supplier": "hunter2-lamps"}, sentence="Order from hunter2-lamps")
    make_call(session=call.session, call_id="sign-in", tool="sign_in", args={"password": "hunter2-lamps"})
    key = happened(AuditKind.CLAIMED, session=call.session, call_id="buy", step=call.step)
    assert "Order from" in visible_text(reader.get("/audit/"))
    assert find(reader, "hunter2-lamps") == []
    assert find(reader, '"order from"') == [key]


def test_words_of_many_sentences_are_found_from_page_to_page(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "_MAX_COMPARED", 100)
    call = make_order()
    keys = [
        happened(AuditKind.CLAIMED, session=call.session, call_id="buy" if number % 100 == 0 else "other", n=number)
        for number in range(250)
    ]
    address, found, pages = "/audit/?words=claimed+1,644", list[int](), 0
    while address:
        with CaptureQueriesContext(connection) as queries:
            page = reader.get(address).text
        assert len(queries) < 50
        pages += 1
        found += map(int, re.findall(r'id="entry-(\d+)"', page))
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    assert found == [keys[200], keys[100], keys[0]]
    assert pages > 1


@pytest.mark.parametrize("words", ["%", "_", '"', "\\", "100%", "\0", "''; --", "x" * 400, " ".join("abcdefghijkl")])
def test_characters_of_patterns_have_no_meaning(reader: Client, words: str) -> None:
    happened(member="dave")
    response = reader.get("/audit/", {"words": words})
    assert response.status_code == 200
    assert "dave" not in visible_text(response) or not words.strip("\0")


def test_word_with_quotes_is_found(reader: Client) -> None:
    key = happened(AuditKind.WEBHOOK_CREATED, webhook='the "new" \\ one')
    assert find(reader, '"new"') == [key]
    assert find(reader, "\\") == [key]


def test_page_views_and_events_of_runs_are_searched_on_request(reader: Client) -> None:
    session = make_session(session_id="order-17")
    view = happened(AuditKind.VIEWED, session=session)
    run = happened(AuditKind.RUN_STARTED, actor="run 1", actor_kind=ActorKind.MACHINE, session=session)
    page = reader.get("/audit/?words=order-17")
    assert "Page views are not searched." in visible_text(page)
    assert "Events of runs are not searched." in visible_text(page)
    assert find(reader, "order-17") == []
    assert find(reader, "order-17", views=1) == [view]
    assert find(reader, "order-17", runs=1) == [run]


def test_search_goes_on_from_page_to_page(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "SEARCHED_ENTRIES", 10)
    keys = [happened(member="dave" if number % 7 == 0 else "erin", number=number) for number in range(35)]
    address, found, pages = "/audit/?words=dave", list[int](), list[str]()
    while address:
        page = reader.get(address).text
        pages.append(page)
        found += map(int, re.findall(r'id="entry-(\d+)"', page))
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    assert found == [keys[number] for number in (28, 21, 14, 7, 0)]
    assert ["One page searches at most" in page for page in pages] == [True, True, True, False]


def test_search_of_an_old_period_begins_there(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "SEARCHED_ENTRIES", 5)
    noon = clock.now().replace(hour=12)  # hours from the border of a day, near which entries may be in disorder
    keys = [happened(member="dave", number=number) for number in range(30)]
    for number, key in enumerate(keys):
        AuditEvent.objects.filter(pk=key).update(created_at=noon - timedelta(days=30 - number))
    day = f"{noon - timedelta(days=25):%Y-%m-%d}"
    assert find(reader, "dave", first=day, last=day) == [keys[5]]
    assert find(reader, "dave", last=day) == keys[1:6][::-1]


def test_search_of_one_session_is_not_limited_to_the_newest_of_the_trail(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_entries_by_words, "SEARCHED_ENTRIES", 5)
    key = happened(AuditKind.COMMENTED, session=make_session(session_id="order-17"))
    for number in range(20):
        happened(member="dave", number=number)
    assert find(reader, "alice", session="order-17") == [key]


def test_full_page_continues_below_its_last_entry(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [happened(member="dave", number=number) for number in range(folded_entry_pages.ROWS_PER_PAGE + 5)]
    page = reader.get("/audit/?words=dave").text
    following = re.search(r'rel="next" href="([^"]+)"', page)
    assert following
    second = reader.get(following[1].replace("&amp;", "&")).text
    shown = [int(key) for text in (page, second) for key in re.findall(r'id="entry-(\d+)"', text)]
    assert shown == keys[::-1]


def test_compared_entries_of_a_page_are_bounded(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "_MAX_COMPARED", 100)
    for number in range(300):
        happened(member="dave", number=number)
    with CaptureQueriesContext(connection) as queries:
        page = reader.get("/audit/?words=member").text
    assert 'rel="next"' in page
    assert len(queries) < 30


def test_export_has_all_matching_entries_and_records_no_words(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_entries_by_words, "SEARCHED_ENTRIES", 10)
    for number in range(35):
        happened(member="dave" if number % 7 == 0 else "erin", number=number)
    rows = exported(reader, "dave alice")
    assert sum("dave" in row[7] for row in rows) == 5
    assert not any("erin" in row[7] for row in rows)
    assert list_entries("exported") == [("exported", "carol", {"what": "audit trail", "words": "2"})]
