"""Suggestions of similar words, and results spread over several sessions."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from harness_site.accounts.models import MaskingSettings
from harness_site.search import passage_search
from harness_site.search.passage_search import SearchPage
from harness_site.search.query_terms import SearchQuery
from tests.integration.search.conftest import Search, complete
from tests.support.factories import make_message, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("refnud_card", "refund_card"),
        ("modles.py", "models.py"),
        ("src/ap/models.py", "src/app/models.py"),
        ("laamp", "lamp"),
        ("optimisticaly lamp", "optimistically lamp"),
    ],
)
def test_typo_is_corrected_to_the_nearest_word_with_a_note(reader: Client, typed: str, near: str) -> None:
    make_message(session=make_session(), text="The lamp: refund_card optimistically changed src/app/models.py.")
    make_message(session=make_session(workspace=make_workspace(slug="other")), text="laamps refnud_cards")
    complete()
    response = reader.get("/sessions/", {"q": typed}, follow=True)
    text = visible_text(response)
    assert f"Nothing contains “{typed}”. These are the results for “{near}”." in text
    assert "1 session" in text
    assert response.context["instead"] == typed
    assert f'id="q" name="q" data-key="/" value="{typed}"' in response.content.decode()


@pytest.mark.parametrize("typed", ["refnud", "reufnd", "erfund", "refudn", "refuund"])
def test_word_is_corrected_although_many_newer_texts_have_other_words_with_its_parts(
    reader: Client, typed: str
) -> None:
    make_message(session=make_session(), text="Please refund order 17.")
    for number in range(passage_search.PAGE + 5):
        make_message(session=make_session(), text=f"Refer to {number}: reuse prefixes, nudge")
    complete()
    response = reader.get("/sessions/", {"q": typed}, follow=True)
    assert str(response.context["query"]) == "refund"


def test_equally_near_words_are_offered_the_most_frequent_one_first(reader: Client) -> None:
    for text in ("invoice", "invoke", "invoice 2", "invoke it, invoke it", "invoice 3", "voice", "invoked"):
        make_message(session=make_session(), text=text)
    complete()
    response = reader.get("/sessions/", {"q": "invoce", "status": ""}, follow=True)
    text = visible_text(response)
    assert "Nothing contains “invoce”. These are the results for “invoice”. Just as near: invoke" in text
    assert '<a href="?q=invoke">invoke</a>' in response.content.decode()
    assert "Just as near" not in visible_text(reader.get("/sessions/", {"q": "invoke", "instead": "gone"}))


def test_word_with_one_edit_is_taken_before_a_word_with_more_common_letters_elsewhere(reader: Client) -> None:
    make_message(session=make_session(), text="The chandelier is broken.")
    for _ in range(passage_search.PAGE + 5):
        make_message(session=make_session(), text="The handler got a chance in his career.")
    complete()
    response = reader.get("/sessions/", {"q": "chandeleer"}, follow=True)
    assert str(response.context["query"]) == "chandelier"


def test_word_with_several_edits_is_found_by_its_parts(reader: Client) -> None:
    make_message(session=make_session(), text="The authentication failed.")
    complete()
    response = reader.get("/sessions/", {"q": "authentificatoin"}, follow=True)
    assert str(response.context["query"]) == "authentication"


def test_older_word_is_found_by_the_index(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    make_message(session=make_session(), text="Please refund order 17.")
    for _ in range(5):
        make_message(session=make_session(), text="The lamp is broken.")
    complete()
    monkeypatch.setattr(passage_search, "READ_FOR_PARTS", 2)
    response = reader.get("/sessions/", {"q": "reufnd"}, follow=True)
    assert str(response.context["query"]) == "refund"


def test_word_that_is_only_a_part_of_longer_ones_has_the_nearest_word_beside_its_results(reader: Client) -> None:
    make_message(session=make_session(), text="A modernist building, moderately high.")
    make_message(session=make_session(), text="Please refund order 17.")
    complete()
    response = reader.get("/sessions/", {"q": "oder", "status": ""})
    assert "“oder” is only a part of longer words or of ids here. Did you mean: order" in visible_text(response)
    assert '<a href="?q=order">order</a>' in response.content.decode()
    assert len(response.context["groups"]) == 1
    rows = response.context["rows"]
    assert "Did you mean: order" in visible_text(reader.get("/sessions/", {"q": "oder", "rows": rows}))
    assert "Did you mean" not in visible_text(reader.get("/sessions/", {"q": "refu"}))
    make_message(session=make_session(), text="Heute oder morgen")
    complete()
    assert "Did you mean" not in visible_text(reader.get("/sessions/", {"q": "oder"}))


@pytest.mark.parametrize(("typed", "near"), [("brass lmap", "brass lamp"), ("oder 17", "order 17")])
def test_one_of_several_words_that_is_only_a_part_of_longer_ones_is_corrected(
    reader: Client, typed: str, near: str
) -> None:
    """The same rule as for one word: a part of a longer word is no known word."""
    for text in ("A brass lamp for order 17", "The helmlmaps and coders of 2017"):
        make_message(session=make_session(), text=text)
    complete()
    text = visible_text(reader.get("/sessions/", {"q": typed}, follow=True))
    assert f"“{near}”" in text or f"Did you mean: {near}" in text
    # A part of words that nothing is near to stays, and so does a word that begins one.
    assert "Did you mean" not in visible_text(reader.get("/sessions/", {"q": "lamp orde"}, follow=True))
    assert "elml" in visible_text(reader.get("/sessions/", {"q": "elml coders"}, follow=True))


def test_part_of_words_without_a_similar_word_has_no_other_query(reader: Client) -> None:
    make_message(session=make_session(), text="A modernist building, moderately high.")
    complete()
    assert "Did you mean" not in visible_text(reader.get("/sessions/", {"q": "rnis"}))


def test_corrected_words_in_different_texts_of_a_session_are_found(reader: Client) -> None:
    session = make_session()
    make_message(session=session, text="The shade is cracked.")
    make_message(session=session, text="The pliers are sharp.")
    complete()
    response = reader.get("/sessions/", {"q": "cracked pliesr"}, follow=True)
    text = visible_text(response)
    assert [group.row.pk for group in response.context["groups"]] == [session.pk]
    assert "Nothing contains “cracked pliesr”. These are the results for “cracked pliers”." in text
    assert "No message or call contains all words." in text


def test_correction_that_finds_nothing_is_not_announced(reader: Client) -> None:
    session, other = make_session(), make_session()
    make_message(session=session, text="The shade is cracked.")
    make_message(session=other, text="The pliers are sharp.")
    complete()
    response = reader.get("/sessions/", {"q": "cracked pliesr"})
    text = visible_text(response)
    assert response.status_code == 200
    assert "No session contains all words. Search for one of them: cracked 1 session pliesr in no session" in text
    assert "These are the results" not in text
    # a link of an earlier result, whose texts are gone
    assert "These are the results" not in visible_text(reader.get("/sessions/", {"q": "gone", "instead": "gnoe"}))


def test_word_after_a_minus_is_searched_and_left_out_only_with_a_note(reader: Client) -> None:
    session = make_session()
    make_message(session=session, text="The shade is cracked: a refund. $ git push --force")
    complete()
    note = "A minus is searched like any other character: it leaves out no word."
    text = visible_text(reader.get("/sessions/", {"q": "cracked -refund"}, follow=True))
    assert f"Nothing contains “cracked -refund”. These are the results for “cracked”. {note}" in text
    text = visible_text(reader.get("/sessions/", {"q": "pliers -refund"}))
    assert "No results" in text
    assert note in text
    text = visible_text(reader.get("/sessions/", {"q": "git push --force"}))
    assert "1 session" in text
    assert note not in text


@pytest.mark.parametrize("typed", ["zzzzqqqq", "lap", '"lamp brokn"', "the pliers", "Secret-val", "invoice-4199"])
def test_search_without_a_similar_word_finds_nothing(reader: Client, typed: str) -> None:
    session = make_session()
    MaskingSettings.objects.create(workspace=session.workspace, words="Secret-value")
    make_message(session=session, text="The lamp is broken. Secret-value invoice-4105")
    complete()
    response = reader.get("/sessions/", {"q": typed})
    assert response.status_code == 200
    assert "No results" in visible_text(response)


def test_the_searches_for_near_words_read_the_limits_of_the_index_once(reader: Client) -> None:
    make_message(session=make_session(), text="The lamp is broken.")
    complete()
    with CaptureQueriesContext(connection) as statements:
        reader.get("/sessions/", {"q": "zzzzqqqq"})
    for number in (passage_search.READ, passage_search.READ_FOR_PARTS):  # of the search, of all for near words
        assert sum(f"OFFSET {number}" in query["sql"] for query in statements.captured_queries) == 1


def test_words_in_different_texts_of_a_session_are_found_with_a_note(reader: Client) -> None:
    apart, half = make_session(), make_session()
    amount = make_message(session=apart, text="The amount is high.")
    cracked = make_message(session=apart, text="The shade is cracked.")
    make_message(session=half, text="Another amount.")
    make_message(session=make_session(workspace=make_workspace(slug="other")), text="amount cracked")
    complete()
    response = reader.get("/sessions/", {"q": "amount cracked"})
    text = visible_text(response)
    assert "1 session No message or call contains all words. These sessions contain them in different places." in text
    assert [group.row.pk for group in response.context["groups"]] == [apart.pk]
    html = response.content.decode()
    # Each hit opens with the word that it was found by.
    for message, word in ((amount, "amount"), (cracked, "cracked")):
        assert f"at={message.position}&amp;find={word}#m-{message.position}" in html
    assert "rows=" not in html.partition('id="found"')[2].partition(">")[0]
    assert "different places" not in visible_text(reader.get("/sessions/", {"q": "shade cracked"}))


def test_words_of_which_no_session_has_all_are_offered_one_by_one(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("The amount.", "Amounts.", "Amount!", "A cracked shade."):
        make_message(session=make_session(), text=text)
    complete()
    text = visible_text(reader.get("/sessions/", {"q": "amount cracked pliers"}))
    offered = "amount 3 sessions cracked 1 session pliers in no session"
    assert f"No session contains all words. Search for one of them: {offered}" in text
    monkeypatch.setattr(passage_search, "PAGE", 1)
    html = reader.get("/sessions/", {"q": "amount shade"}).content.decode()
    assert (
        '<a class="btn" href="?q=amount"><bdi>amount</bdi> <span class="muted">more than 1 session</span></a>' in html
    )


def test_words_that_no_session_has_are_named_before_the_rules_of_searching(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_message(session=make_session(), text="The amount.")
    complete()
    rules = "All words have to occur in the same message or call"
    text = visible_text(reader.get("/sessions/", {"q": "zzqqxx"}))
    assert f"Nothing contains “zzqqxx”. {rules}" in text
    assert "Nothing contains" not in visible_text(reader.get("/sessions/", {"q": "amount", "agent": "desk"}))
    text = visible_text(reader.get("/sessions/", {"q": "zzqqxx qqzzxx"}))
    assert f"No session contains any of these words: zzqqxx in no session qqzzxx in no session {rules}" in text
    search_sessions = passage_search.search_sessions

    def search_amount_too_slowly(workspace: int, query: SearchQuery, **options: Any) -> SearchPage:
        page = search_sessions(workspace, query, **options)
        return SearchPage((), slow=True) if str(query) == "amount" else page

    monkeypatch.setattr(passage_search, "search_sessions", search_amount_too_slowly)
    text = visible_text(reader.get("/sessions/", {"q": "amount zzqqxx"}))
    assert f"No session contains any of these words: zzqqxx in no session {rules}" in text


@pytest.mark.parametrize("typed", ["src/app/models.py", "app/models.py", "git status --short", '"status --short"'])
def test_paths_commands_and_phrases_are_found(search: Search, typed: str) -> None:
    make_message(session=make_session(), text="$ git status --short\n M src/app/models.py")
    complete()
    assert len(search(typed)) == 1


def test_session_with_many_results_does_not_hide_others(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "_MATCHES", ((6, 1), (6, 6)))
    quiet = make_session(title="Quiet")
    make_message(session=quiet, text="lamps")
    make_message(session=quiet, text="The lamp.")
    chatty = make_session(title="Chatty")
    for _ in range(20):
        make_message(session=chatty, text="lamp")
    complete()
    text = visible_text(reader.get("/sessions/?q=lamp"))
    assert "2 sessions" in text
    assert "Show all passages of this session" in text
    assert text.index("The lamp") < text.index("lamps")  # the whole word before a part of one
    assert "More results" not in text
    assert "20 passages of this session" in visible_text(reader.get(f"/sessions/?q=lamp&within={chatty.pk}"))
