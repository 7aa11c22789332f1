"""Search finds matching texts in any language, and nothing else."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints.enums import UNANSWERED_RESULT, CallStatus, CostBasis, DecisionKind, Role, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from checkpoints.models.decision import ARGS_BEFORE_EDIT
from harness_site.accounts.models import MaskingSettings, TokenRole
from harness_site.search import indexer, passage_search
from harness_site.search.models import Passage, Progress
from harness_site.search.query_terms import SearchQuery
from harness_site.sessions.selectors import ordered_search_results
from harness_site.sessions.views import full_text_search
from tests.integration.search.conftest import Search, complete
from tests.support.api_client import make_token
from tests.support.client_login import record_reauthentication
from tests.support.exhaustive_mode import only_exhaustive
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("The lamp arrived broken.", "LAMP"),
        ("The lamp arrived broken.", "amp arr"),
        ("The lamp arrived broken.", '"lamp arrived"'),
        ("Возврат за лампу", "лампу"),
        ("לא קיבלתי החזר", "החזר"),
        ("台灯坏了,我要退款。", "退款"),
        ("台灯坏了,我要退款。", "坏"),
        ("台灯坏了,我要退款。", "我要退款"),
        ("ランプが壊れた", "ンプ"),
        ("환불해 주세요", "환불"),
        ("ไฟไม่ติด ขอคืนเงิน", "คืนเงิน"),
        ("see refund_card() in re_81f3-x", "re_81f3"),
        ("100% of it\\n", "100%"),
        ('say "no" to O\'Brien', "O'Brien"),
        ("a short id x7", "x7"),
        ("ВОЗВРАТ за лампу", "возврат"),
        ("Überweisung storniert", "ÜBERWEISUNG"),
        ("А ТЫ кто", "ты"),
        ("Ο ΔΡΟΜΟΣ ΜΟΥ", "δρόμος".replace("ό", "ο")),
        ("İstanbul'da", "istanbul"),
    ],
)
def test_messages_are_found_in_any_language(search: Search, text: str, typed: str) -> None:
    session = make_session(title="other")
    make_message(session=session, text="Something else")
    make_message(session=session, text=text)
    complete()
    (place,) = search(typed)
    assert place.startswith(f"/sessions/{session.pk}/?at=1&find=")
    assert place.endswith("#m-1")


@pytest.mark.parametrize("typed", ["lam%", "l_mp", '"arrived lamp"', "退狂", "字", "NOT lamp", "lamp*", '"'])
def test_other_texts_are_not_found(search: Search, typed: str) -> None:
    session = make_session(title="other")
    make_message(session=session, text="The lamp arrived. 台灯坏了,我要退款。")
    make_message(session=session, text="A refund.")
    complete()
    assert search(typed) == []


def test_arguments_and_results_are_found_without_json_escapes(search: Search) -> None:
    session = make_session()
    call = make_call(
        session=session,
        args={"note": 'first\n"二番目" €'},
        status=CallStatus.COMPLETED,
        result="done: ✓ ünï",
        error_message="refused by the bank",
    )
    complete()
    for typed in ('二番目" €', "ünï", "by the bank", "refund_card", call.call_id, "note: first"):
        assert [place.split("?")[0] for place in search(typed)] == [f"/sessions/{session.pk}/calls/{call.pk}/"], typed


def test_explanation_of_an_unanswered_imported_call_is_not_indexed(search: Search, reader: Client) -> None:
    make_call(
        session=make_session(),
        tool="send_reply",
        args={"ticket": 7809, "text": "Dear customer"},
        status=CallStatus.DISCARDED,
        sentence=UNANSWERED_RESULT,
    )
    complete()
    assert search("no run of this store") == []
    assert "Call of send_reply text: Dear customer · ticket: 7809" in visible_text(reader.get("/sessions/?q=customer"))


def _make_call_with_messages(text: str, *, said: str = "", other_step: bool = False) -> tuple[Session, int]:
    """Create a session whose call has `text` in its arguments and its result, in messages of the agent and the tool."""
    session = make_session()
    spoken = [{"type": "text", "text": said}] if said else []
    use = {"type": "tool_use", "id": "toolu_7", "name": "look_up", "input": {"item": text}}
    make_message(session=session, body={"role": "assistant", "content": [*spoken, use]})
    answer = {"type": "tool_result", "tool_use_id": "toolu_7", "content": f"{text} is there"}
    make_message(session=session, body={"role": "user", "content": [answer]})
    status, result = CallStatus.COMPLETED, f"{text} is there"
    fields: dict[str, Any] = {
        "call_id": "toolu_7",
        "tool": "look_up",
        "args": {"item": text},
        "status": status,
        "result": result,
    }
    call = make_call(session=session, **fields)
    if other_step:
        make_call(session=session, **{**fields, "args": {"item": "another"}, "result": "none"}, step=9)
    complete()
    return session, call.pk


def test_call_and_the_messages_that_hold_it_are_one_passage(search: Search, reader: Client) -> None:
    session, call = _make_call_with_messages("lamp", said="I look.")
    expected = [f"/sessions/{session.pk}/calls/{call}/"]
    assert [place.split("?")[0] for place in search("lamp")] == expected
    assert [place.split("?")[0] for place in search("lamp", within=str(session.pk))] == expected


def test_message_that_says_the_words_itself_is_a_passage_beside_its_call(search: Search) -> None:
    _make_call_with_messages("lamp", said="I look for a lamp.")
    places = {place.split("#")[-1] if "/calls/" not in place else "call" for place in search("lamp")}
    assert places == {"m-0", "call"}


def test_message_stays_if_its_call_id_names_several_calls(search: Search) -> None:
    _make_call_with_messages("lamp", other_step=True)
    assert len(search("lamp")) == 3


def test_later_result_is_found_after_indexing(search: Search) -> None:
    call = make_call(session=make_session(), status=CallStatus.ISSUED)
    complete()
    assert search("settled") == []
    type(call).objects.filter(pk=call.pk).update(result='"settled at last"', status="completed", revision=2)
    complete()
    assert len(search("settled")) == 1


def test_titles_ids_and_agents_are_found(search: Search) -> None:
    session = make_session(session_id="LAMP/17", title="Возврат", agent="desk-7")
    complete()
    for typed in ("lamp/1", "возвр", "desk-7"):
        assert search(typed) == [f"/sessions/{session.pk}/"]


def test_result_says_that_its_session_is_a_fork(reader: Client) -> None:
    origin = make_session(title="Broken lamp")
    make_session(session_id="again", title="Broken lamp", forked_from=origin, forked_version=3)
    complete()
    page = reader.get("/sessions/?q=lamp").content.decode()
    assert page.count('<span class="fork-mark">fork of v3</span>') == 1
    assert page.index(">again<") < page.index("fork of v3")


def test_match_in_a_title_is_marked_there_and_not_repeated(reader: Client) -> None:
    session = make_session(title="A <b>lamp</b> is broken", agent="lamp-desk")
    make_message(session=session, text="A <b>lamp</b> is broken")
    complete()
    html = reader.get("/sessions/?q=lamp").content.decode()
    assert "A &lt;b&gt;<mark>lamp</mark>&lt;/b&gt; is broken</a></h3>" in html
    assert "<span><mark>lamp</mark>-desk</span>" in html
    assert "match-list" not in html
    assert "1 session" in html
    assert "passage" not in visible_text(reader.get("/sessions/?q=lamp")).partition("1 session")[2]


def test_sessions_with_the_newest_hits_come_first_whatever_was_indexed_last(reader: Client) -> None:
    moment = datetime(2026, 5, 4, tzinfo=UTC)
    newest, oldest, found_by_id = (make_session(), make_session(), make_session(session_id="lamp"))
    make_message(session=newest, text="A lamp", created_at=moment)
    make_message(session=oldest, text="A lamp", created_at=moment - timedelta(days=2))
    Session.objects.update(created_at=moment - timedelta(days=9))
    complete()
    html = reader.get("/sessions/?q=lamp").content.decode()
    shown = re.findall(r'<li id="session-(\d+)"', html)
    assert shown == [str(session.pk) for session in (found_by_id, newest, oldest)]

    # An open page is fetched again in its order.
    [refreshed] = re.findall(r'hx-get="([^"]*rows=[^"]*)"', html)
    make_message(session=oldest, text="The lamp is indexed last.", created_at=moment + timedelta(days=1))
    complete()
    again = reader.get("/sessions/" + unescape(refreshed)).content.decode()
    assert re.findall(r'<li id="session-(\d+)"', again) == shown
    assert "is indexed last" not in again


def test_titles_come_first_and_sessions_without_times_and_parts_of_hashes_last(reader: Client) -> None:
    moment = datetime(2026, 5, 4, tzinfo=UTC)
    # No id has the term, as one with the number of a session might.
    titled = make_session(title="Order 0104", session_id="lamp")
    newer, older = (make_session(title=title, session_id=title) for title in ("Newer", "Older"))
    timeless, hashed = make_session(has_times=False, session_id="timeless"), make_session(session_id="hashed")
    for days, session in enumerate((titled, older, newer, timeless)):
        make_message(session=session, text="About 0104", created_at=moment + timedelta(days=days))
    make_message(session=hashed, text="toolu_0104abcd", created_at=moment + timedelta(days=9))
    make_message(session=newer, text="toolu_0104abcd", created_at=moment + timedelta(days=10))
    complete()
    html = reader.get("/sessions/?q=0104").content.decode()
    shown = [int(pk) for pk in re.findall(r'<li id="session-(\d+)"', html)]
    assert shown == [session.pk for session in (titled, newer, older, timeless, hashed)]
    of_newer = html.partition(f'<li id="session-{newer.pk}"')[2].partition('<li id="session-')[0]
    assert "toolu_" not in of_newer
    assert "Show all passages of this session" in of_newer


def test_all_pages_of_the_results_have_the_order_of_the_times_of_the_matches(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    monkeypatch.setattr(indexer, "STEP", 1)
    moment = datetime(2026, 5, 4, tzinfo=UTC)
    # The days are not in the order in which the texts are stored, as after an import.
    sessions = [make_session(title="Parcel") for _ in range(4)]
    for session, day in zip(sessions, (9, 8, 1, 2), strict=True):
        make_message(session=session, text="A lamp", created_at=moment + timedelta(days=day))
    Session.objects.update(created_at=moment)
    complete()
    pages = list(_follow_pages(reader, "?q=lamp"))
    assert [_list_shown_sessions(html) for html in pages] == [
        [sessions[first].pk, sessions[second].pk] for first, second in ((0, 1), (3, 2))
    ]
    assert all("The sessions with the newest matches come first" in html for html in pages)


def test_texts_of_the_same_moment_and_of_impossible_times_are_found(search: Search) -> None:
    moments = (datetime(2026, 5, 4, tzinfo=UTC), datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    for moment in moments:
        session = make_session(title="Parcel")
        for step in range(3):
            make_message(session=session, text="A lamp", created_at=moment)
            make_call(session=session, args={"item": "lamp"}, issued_at=moment, step=step)
            complete()
    assert len(search("lamp")) == len(moments) * 3
    assert Passage.objects.filter(text__contains="lamp").count() == len(moments) * 6


def test_session_id_is_found_before_indexing(reader: Client) -> None:
    session = make_session(session_id="x 1")
    page = reader.get("/sessions/", {"q": "x 1"})
    assert f'id="session-{session.pk}"' in page.content.decode()
    assert "The search index is being built" in visible_text(page)


def test_state_of_the_index_is_shown_only_if_something_cannot_be_found(reader: Client) -> None:
    make_message(session=make_session(), text="A lamp.")
    complete()
    assert 'id="index"' not in reader.get("/sessions/?q=lamp").content.decode()
    make_message(session=make_session(), text="Another lamp.")
    assert "About 2 of the newest texts are not indexed yet." in visible_text(reader.get("/sessions/?q=shade"))
    complete()
    Progress.objects.update(complete_at=F("complete_at") - timedelta(minutes=5))
    assert "Texts up to 5 min ago were searched." in visible_text(reader.get("/sessions/?q=lamp"))


def test_excerpt_of_a_result_begins_without_the_ids_that_nobody_searched(reader: Client) -> None:
    session = make_session()
    result = {"kind": "tool_result", "tool_use_id": "toolu_93e29f", "content": [{"kind": "text", "text": "A lamp."}]}
    make_message(session=session, role="tool", blocks=[result])
    complete()
    html = reader.get("/sessions/?q=lamp").content.decode()
    assert '<span class="excerpt" dir="auto">A <mark>lamp</mark>.</span>' in html
    html = reader.get("/sessions/?q=toolu_93e29f").content.decode()
    assert "<mark>toolu_93e29f</mark>" in html


def test_excerpt_of_a_message_has_the_ids_of_its_calls_only_if_somebody_searched_one(reader: Client) -> None:
    use = {"type": "tool_use", "id": "call_8524320ee826", "name": "find_payment", "input": {"order": 8764}}
    said = {"type": "text", "text": "I look how the lamp was paid."}
    make_message(session=make_session(), body={"role": "assistant", "content": [said, use]})
    complete()
    text = visible_text(reader.get("/sessions/?q=lamp+paid"))
    assert "I look how the lamp was paid. · find_payment · order: 8764" in text
    assert "<mark>call_8524320ee826</mark>" in reader.get("/sessions/?q=call_8524320ee826").content.decode()


def test_results_are_grouped_by_session_newest_first_and_marked(reader: Client) -> None:
    older, newer = (make_session(title=title) for title in ("Older", "Newer"))
    for _ in range(5):
        make_message(session=older, text="My <b>lamp</b>.")
    make_message(session=newer, text="A Lamp.")
    complete()
    html = reader.get("/sessions/?q=lamp").content.decode()
    assert re.findall(r'<li id="session-(\d+)"', html) == [str(newer.pk), str(older.pk)]
    # Its id, which nobody looked for, does not stand before it.
    assert '<span class="excerpt" dir="auto">A <mark>Lamp</mark>.' in html
    assert "&lt;b&gt;<mark>lamp</mark>&lt;/b&gt;" in html
    page = visible_text(reader.get("/sessions/?q=lamp"))
    assert "2 sessions" in page
    assert "Show all passages of this session" in page
    assert "5 passages of this session" in visible_text(reader.get(f"/sessions/?q=lamp&within={older.pk}"))


def test_end_of_a_long_text_is_found_and_shown_once(search: Search, reader: Client) -> None:
    session = make_session()
    make_message(session=session, text="needle " + "hay " * 10_000 + "needle")
    complete()
    assert len(search("needle")) == 1
    assert len(search("needle hay")) == 1


def test_result_in_a_rewritten_part_opens_in_its_version(search: Search) -> None:
    session = make_session()
    make_run(session=session)
    make_message(session=session, text="an old lamp")
    make_checkpoint(session=session)
    first = session.head_segment
    session.head_segment = type(first).objects.create(session=session, parent=first, parent_length=0)  # type: ignore[union-attr]
    session.save()
    make_message(session=session, text="a summary")
    make_checkpoint(session=session)
    complete()
    assert search('lamp "an old"') == [f"/sessions/{session.pk}/?v=1&at=0&find=lamp+%22an+old%22#m-0"]


def test_filters_apply_to_results(search: Search) -> None:
    done, failed = make_session(status=SessionStatus.COMPLETED), make_session(status=SessionStatus.FAILED)
    for session in (done, failed):
        make_message(session=session)
    complete()
    assert len(search("lamp arrived")) == 2
    assert [place.split("?")[0] for place in search("lamp arrived", status="failed")] == [f"/sessions/{failed.pk}/"]


def test_date_filter_applies_to_messages(search: Search) -> None:
    session = make_session(title="refund")
    for day in (3, 4, 5):
        make_message(session=session, text=f"refund {day}", created_at=datetime(2025, 3, day, 23, 59, tzinfo=UTC))
    call = make_call(session=session, args={"of": "refund"}, issued_at=datetime(2025, 3, 4, tzinfo=UTC))
    complete()
    place = f"/sessions/{session.pk}/"
    assert search("refund", first="2025-03-04", last="2025-03-04") == [
        f"{place}?at=1&find=refund#m-1",
        f"{place}calls/{call.pk}/?find=refund#found",
    ]
    assert search("refund", first="2025-03-05") == [f"{place}?at=2&find=refund#m-2"]
    assert len(search("refund", last="2025-03-03", sort="started")) == 0
    assert search("refund", first="2025-03-06") == [place]


def _follow_pages(reader: Client, address: str) -> Iterator[str]:
    """Yield the HTML of a page of results and of all pages after it."""
    following: str | None = f"/sessions/{address}"
    while following:
        html = reader.get(unescape(following)).content.decode()
        yield html
        link = re.search(r'rel="next" href="([^"]+)"', html)
        following = link and link[1]


def _list_shown_sessions(html: str) -> list[int]:
    return list(map(int, re.findall(r'<li id="session-(\d+)"', html)))


def test_each_session_is_on_one_page_of_the_results(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    monkeypatch.setattr(passage_search, "_MATCHES", ((3, 1), (5, 5), (50, 50)))
    sessions = [make_session() for _ in range(5)]
    for _ in range(4):
        for session in sessions:
            make_message(session=session, text="common word")
    complete()
    pages = list(_follow_pages(reader, "?q=common"))
    assert [_list_shown_sessions(html) for html in pages] == [
        [session.pk for session in reversed(sessions[first : first + 2])] for first in (3, 1)
    ] + [[sessions[0].pk]]
    counts = [re.search(r'id="found-title">([^<]*)', html) for html in pages]
    assert [count and count[1].strip() for count in counts] == [
        "Sessions 1–2 of 5",
        "Sessions 3–4 of 5",
        "Session 5 of 5",
    ]


def test_page_before_has_the_same_sessions_as_when_it_was_left(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    for _ in range(6):
        make_message(session=make_session(), text="common word")
    complete()
    pages = list(_follow_pages(reader, "?q=common"))
    assert [_find_link(html, "prev") is None for html in pages] == [True, False, False]
    back = _find_link(pages[2], "prev")
    assert back is not None
    again = reader.get(back)
    assert _list_shown_sessions(again.content.decode()) == _list_shown_sessions(pages[1])
    assert "Sessions 3–4 of 6" in visible_text(again)
    first = _find_link(again.content.decode(), "prev")
    assert first == "/sessions/?q=common"
    # A page that is loaded again keeps its way back.
    [refreshed] = re.findall(r'hx-get="([^"]*rows=[^"]*)"', pages[2])
    assert _find_link(reader.get("/sessions/" + unescape(refreshed)).content.decode(), "prev") == back


def _find_link(html: str, rel: str) -> str | None:
    link = re.search(rf'rel="{rel}" href="([^"]+)"', html)
    return link and unescape(link[1])


def test_total_counts_only_sessions_whose_matches_are_not_masked_by_now(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    for number in range(5):
        session = make_session()
        make_message(session=session, text="the code hunter22")
        complete()
        if number == 0:
            make_call(session=session, args={"password": "hunter22"})
    assert "Sessions 1–2 of 4" in visible_text(reader.get("/sessions/?q=hunter22"))


def test_total_of_very_many_sessions_is_unknown(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    monkeypatch.setattr(passage_search, "COUNTED", 4)
    for _ in range(5):
        make_message(session=make_session(), text="common word")
    complete()
    assert "Sessions 1–2 of more than 2" in visible_text(reader.get("/sessions/?q=common"))


def test_session_that_goes_on_while_pages_are_turned_is_neither_repeated_nor_left_out(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    sessions = [make_session(title="Parcel") for _ in range(4)]
    for session in sessions:
        make_message(session=session, text="common word")
    complete()
    pages = _follow_pages(reader, "?q=common")
    shown = _list_shown_sessions(next(pages))
    for session in (sessions[0], sessions[3]):
        make_message(session=session, text="another common word")
    complete()
    shown += [pk for html in pages for pk in _list_shown_sessions(html)]
    assert sorted(shown) == [session.pk for session in sessions]
    assert set(_list_shown_sessions(next(_follow_pages(reader, "?q=common")))) == {sessions[0].pk, sessions[3].pk}


def test_session_found_by_its_id_is_on_the_first_page_only(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    named = make_session(session_id="common")
    for session in [named, *(make_session() for _ in range(4))]:
        make_message(session=session, text="common word")
    complete()
    pages = [_list_shown_sessions(html) for html in _follow_pages(reader, "?q=common")]
    assert pages[0][0] == named.pk
    assert named.pk not in {pk for page in pages[1:] for pk in page}


def test_passages_of_one_session_have_pages(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    session = make_session(title="other")
    for number in range(5):
        make_message(session=session, text=f"lamp {number}")
    complete()
    pages = list(_follow_pages(reader, f"?q=lamp&within={session.pk}"))
    assert [re.findall(r"</mark> (\d)", html) for html in pages] == [["4", "3"], ["2", "1"], ["0"]]
    assert "The newest passages of one session come first." in pages[0]
    assert "Passages 3–4 of more than 4 of this session" in pages[1]
    assert "Passage 5 of 5 of this session" in pages[2]


def test_api_has_each_session_on_one_page(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "PAGE", 2)
    token = {"Authorization": f"Bearer {make_token(TokenRole.AUDITOR)}"}
    for number in range(3):
        session = make_session(session_id=f"s-{number}")
        for _ in range(6):
            make_message(session=session, text="common word")
    complete()

    pages = []
    following: str | None = ""
    while following is not None:
        answer = Client().get(
            "/api/v1/search", {"q": "common", **({"before": following} if following else {})}, headers=token
        )
        pages.append([passage["session_id"] for passage in answer.json()["passages"]])
        following = answer.json()["next"]
    assert pages == [["s-2"] * 4 + ["s-1"] * 4, ["s-0"] * 4]
    assert Client().get("/api/v1/search?q=common&before=9", headers=token).status_code == 422


def test_title_is_marked_only_if_it_has_all_words(reader: Client) -> None:
    make_message(session=make_session(title="Answer the ticket"), text="We corrected the invoice.")
    complete()
    html = reader.get("/sessions/?q=corrected the").content.decode()
    assert "Answer the ticket</a></h3>" in html
    assert "<mark>corrected the</mark>" in html


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("rows", [1, 3])
def test_query_count_is_independent_of_the_results(
    reader: Client, rows: int, django_assert_num_queries: Queries
) -> None:
    for _ in range(rows):
        session = make_session()
        make_message(session=session, text="needle")
        make_call(session=session, args={"at": "needle"})
    complete()
    # PostgreSQL is told twice how to plan, in a savepoint.
    with django_assert_num_queries(28 if connection.vendor == "postgresql" else 24):
        html = reader.get("/sessions/?q=needle").content.decode()
    assert html.count('<span class="source-line">') == 2 * rows


def test_newest_matches_of_sessions_that_are_found_one_after_the_other_are_loaded_together(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "_MATCHES", ((1, 1), (2, 1), (8, 8)))
    sessions = [make_session() for _ in range(3)]
    for session in sessions:
        for _ in range(2):
            make_message(session=session, text="needle")
    complete()
    with CaptureQueriesContext(connection) as statements:
        html = reader.get("/sessions/?q=needle").content.decode()
    assert _list_shown_sessions(html) == [session.pk for session in reversed(sessions)]
    assert sum("match_0" in query["sql"] for query in statements.captured_queries) == 1


def test_rare_words_in_old_passages_are_found(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_search, "READ", 1)
    session = make_session()
    for text in ("rare 退 one", "two", "three"):
        make_message(session=session, text=text)
    complete()
    assert len(search("rare")) == len(search("退")) == 1


@pytest.mark.parametrize(
    "eras", [((0, 1), (1, 3)), pytest.param(((0, 5), (5, 6)), marks=only_exhaustive), ((0, 50), (50, 60))]
)
def test_old_text_is_found_once(
    search: Search, monkeypatch: pytest.MonkeyPatch, eras: tuple[tuple[int, int], ...]
) -> None:
    monkeypatch.setattr(passage_search, "READ", 1)
    monkeypatch.setattr(passage_search, "_ERAS", eras)
    monkeypatch.setattr(indexer, "STEP", 2)
    session, moment = make_session(title="other"), datetime(2026, 5, 4, tzinfo=UTC)
    for number in range(12):
        at = moment + timedelta(days=number)
        make_message(session=session, text=f"number-1-2345{number:02}, common", created_at=at)
    complete()
    assert len({passage.era for passage in Passage.objects.all()}) > 5
    for number in range(12):
        assert len(search(f"number-1-2345{number:02}")) == 1
    found = passage_search.search_passages_of_session(session.workspace_id, SearchQuery.parse("common"), session.pk)
    assert len(found.passages) == 12


def test_short_words_are_searched_in_the_newest_texts_with_a_note(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "READ", 1)
    session = make_session()
    for text in ("x7 here", "two"):
        make_message(session=session, text=text)
    complete()
    page = visible_text(reader.get("/sessions/?q=x7"))
    assert "No results" in page
    assert "searched only in the newest texts" in page


def test_results_have_an_export(reader: Client) -> None:
    make_message(session=make_session(), text="needle")
    complete()
    assert 'href="/sessions/export/?' in reader.get("/sessions/?q=needle&sort=cost").content.decode()
    assert "/sessions/export/" not in reader.get("/sessions/?q=haystack").content.decode()


def list_found_sessions(reader: Client, address: str) -> list[int]:
    """List the keys of the sessions of a page of results in their order."""
    return [int(pk) for pk in re.findall(r'<li id="session-(\d+)"', reader.get(address).content.decode())]


def make_sessions_of_two_costs() -> tuple[Session, Session]:
    """Create a cheap session with the newest match and an expensive one, which started and was active later."""
    expensive = make_session(budget_spent_usd=9, cost_basis=CostBasis.STATED)
    make_message(session=expensive, text="needle")
    cheap = make_session(budget_spent_usd=1, cost_basis=CostBasis.STATED)
    make_message(session=cheap, text="needle")
    later = datetime(2030, 1, 1, tzinfo=UTC)
    Session.objects.filter(pk=expensive.pk).update(created_at=later, updated_at=later)
    complete()
    return expensive, cheap


def test_results_have_the_orders_of_the_list(reader: Client) -> None:
    expensive, cheap = make_sessions_of_two_costs()
    assert list_found_sessions(reader, "/sessions/?q=needle") == [cheap.pk, expensive.pk]
    for order in ("cost", "started", "updated"):
        assert list_found_sessions(reader, f"/sessions/?q=needle&sort={order}") == [expensive.pk, cheap.pk], order
        assert list_found_sessions(reader, f"/sessions/?q=needle&sort={order}-asc") == [cheap.pk, expensive.pk], order
    page = reader.get("/sessions/?q=needle&sort=cost")
    assert "Sessions that contain the text, in the order “Highest cost”." in visible_text(page)
    assert '<option value="cost" selected>' in page.content.decode()
    assert "Too many sessions match" not in visible_text(page)


def test_pages_of_results_in_an_order_have_each_session_once(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_search_results, "PAGE", 2)
    costs = {}
    for cost in (3, 1, 5, 2, 4):
        session = make_session(budget_spent_usd=cost, cost_basis=CostBasis.STATED)
        make_message(session=session, text="needle")
        costs[session.pk] = cost
    unknown = make_session(cost_basis=CostBasis.UNKNOWN)
    make_message(session=unknown, text="needle")
    complete()
    by_cost = [*sorted(costs, key=costs.__getitem__, reverse=True), unknown.pk]
    pages = list(_follow_pages(reader, "?q=needle&sort=cost"))
    assert [int(pk) for page in pages for pk in re.findall(r'<li id="session-(\d+)"', page)] == by_cost
    assert "Sessions 3–4 of 6" in pages[1]
    best = list(_follow_pages(reader, "?q=needle&sort=match"))
    assert [len(re.findall(r'<li id="session-', page)) for page in best] == [2, 2, 2]
    reload = re.findall(r'hx-get="([^"]+)" hx-trigger="live:any from:body" hx-select="#found"', pages[0])[0]
    assert list_found_sessions(reader, f"/sessions/{unescape(reload)}") == by_cost[:2]


def test_best_matches_have_the_words_in_their_title_or_the_most_passages(reader: Client) -> None:
    titled = make_session(title="The needle")
    often, once = make_session(title="other"), make_session(title="other")
    for session in (often, often, once):
        make_message(session=session, text="a needle here")
    complete()
    assert list_found_sessions(reader, "/sessions/?q=needle&sort=match") == [titled.pk, often.pk, once.pk]
    assert "Sessions with all words in their title come first" in visible_text(
        reader.get("/sessions/?q=needle&sort=match")
    )


@pytest.mark.parametrize(
    ("order", "limit"),
    [("cost", "_MAX_SORTED_MATCHES"), ("match", "_MAX_RANKED_MATCHES"), ("match", "_MAX_RANKED_SESSIONS")],
)
def test_results_that_are_too_many_to_order_say_so_and_the_newest_match_comes_first(
    reader: Client, monkeypatch: pytest.MonkeyPatch, order: str, limit: str
) -> None:
    expensive, cheap = make_sessions_of_two_costs()
    monkeypatch.setattr(ordered_search_results, limit, 1)
    found = reader.get(f"/sessions/?q=needle&sort={order}")
    if order == "cost":  # sessions are read in the order instead
        assert list_found_sessions(reader, "/sessions/?q=needle&sort=cost") == [expensive.pk, cheap.pk]
        return
    assert "Too many sessions match to put them into the order “Best match”." in visible_text(found)
    assert list_found_sessions(reader, "/sessions/?q=needle&sort=match") == [cheap.pk, expensive.pk]
    assert "unordered=1" in found.content.decode()


def test_call_that_a_fork_has_copied_is_told_apart_and_comes_after_its_own(reader: Client) -> None:
    session = make_session()
    make_call(session=session, step=-1, args={"of": "needle"}, issued_at=datetime(2025, 3, 5, tzinfo=UTC))
    make_call(session=session, step=1, args={"of": "needle"}, issued_at=datetime(2025, 3, 4, tzinfo=UTC))
    complete()
    text = visible_text(reader.get("/sessions/?q=needle"))
    assert text.count("copied from the original") == 1
    assert text.index("2025-03-04") < text.index("copied from the original") < text.index("2025-03-05")


def test_another_workspace_finds_nothing(search: Search) -> None:
    other = make_session(workspace=make_workspace(slug="other"))
    make_message(session=other, text="needle")
    complete()
    assert search("needle") == []
    assert search("needle", within=str(other.pk)) == []
    assert search("needle", rows=str(other.pk)) == []


def test_open_page_reloads_its_results(reader: Client) -> None:
    session = make_session()
    make_message(session=session, text="needle")
    complete()
    again = re.search(r'hx-get="([^"]+)"', reader.get("/sessions/?q=needle").content.decode().split('id="found"')[1])
    assert again is not None
    make_message(session=session, text="another needle")
    complete()
    assert "another" not in visible_text(reader.get("/sessions/" + unescape(again[1])))
    assert "another" in visible_text(reader.get("/sessions/?q=needle"))


@pytest.mark.parametrize(
    "query",
    [
        "q=needle&before=x",
        "q=needle&before=0~0~0~0",
        "q=%00",
        "q=%22%22",
        "q=needle&within=-1",
        "q=needle&rows=a,,9&newest=x",
        "q=" + "x" * 5000,
    ],
)
def test_unusual_queries_are_handled(reader: Client, query: str) -> None:
    assert reader.get(f"/sessions/?{query}").status_code == 200


SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


@pytest.mark.parametrize("message", [f"my key is {SECRET}", f"password: {SECRET}"])
def test_masked_text_cannot_be_found(search: Search, reader: Client, message: str) -> None:
    session = make_session()
    make_message(session=session, text=message)
    make_call(session=session, args={"api_key": "hunter2222", "order": 17})
    complete()
    assert search(SECRET) == search("hunter2222") == search("4eC39Hq") == []
    admin = Client()
    admin.force_login(make_user(name="carol", role=Role.ADMIN))
    record_reauthentication(admin).post("/accounts/secrets/")
    assert "No results" in visible_text(admin.get("/sessions/", {"q": SECRET}))


def test_text_that_becomes_secret_cannot_be_found_by_guessing(search: Search) -> None:
    session = make_session()
    make_message(session=session, text="project bluebird starts")
    complete()
    assert len(search("bluebird")) == 1
    MaskingSettings.objects.create(workspace=session.workspace, words="bluebird")
    assert search("bluebird") == []
    assert len(search("project")) == 1


@pytest.mark.parametrize("few", [200, 1])
def test_filtered_search_finds_sessions_behind_many_newer_passages_of_others(
    reader: Client, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(passage_search, "_MATCHES", ((1, 1), (4, 1), (8, 8)))
    monkeypatch.setattr(full_text_search, "_MAX_FILTERED_SESSIONS", few)
    wanted = [make_session(agent="billing", title=f"bill {number}") for number in range(2)]
    for session in wanted:
        make_message(session=session, text="the invoice of November")
    for number in range(8):
        other = make_session(agent="archive", title=f"old {number}")
        make_message(session=other, text="an invoice of another year")
    complete()
    page = reader.get("/sessions/?q=invoice&agent=billing")
    assert {group.row.pk for group in page.context["groups"]} == {session.pk for session in wanted}
    assert "No results" not in visible_text(page)
    nothing = visible_text(reader.get("/sessions/?q=invoice&agent=nobody"))
    assert "No results" in nothing
    assert "No results yet" not in nothing


def test_search_that_reads_its_share_without_a_match_says_that_there_may_be_more(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_search, "_MATCHES", ((1, 1), (1, 1), (2, 2)))
    monkeypatch.setattr(full_text_search, "_MAX_FILTERED_SESSIONS", 0)
    wanted = make_session(agent="billing")
    make_message(session=wanted, text="the invoice of November")
    for _ in range(4):
        make_message(session=make_session(agent="archive"), text="an invoice of another year")
    complete()
    first, second = _follow_pages(reader, "?q=invoice&agent=billing")
    assert "No results yet" in first
    assert "Session 1 of 1" in second
    assert _list_shown_sessions(second) == [wanted.pk]


def test_open_page_keeps_a_session_that_no_longer_matches_the_filters(reader: Client) -> None:
    session = make_session(status=SessionStatus.FAILED)
    make_message(session=session, text="an invoice")
    complete()
    html = reader.get("/sessions/?q=invoice&status=failed").content.decode()
    [refreshed] = re.findall(r'hx-get="([^"]*rows=[^"]*)"', html)
    Session.objects.update(status=SessionStatus.COMPLETED)
    again = reader.get("/sessions/" + unescape(refreshed)).content.decode()
    assert _list_shown_sessions(again) == [session.pk]


def test_hit_of_a_decision_names_the_person_once_and_the_arguments_before_an_edit_by_their_fields(
    reader: Client,
) -> None:
    before = to_canonical_json({"amount": "12300.00", "iban": "DE02 1203"})
    evidence = to_canonical_json({ARGS_BEFORE_EDIT: before, "text": "Scan."})
    call = make_call(session=make_session(), tool="pay")
    make_decision(call=call, kind=DecisionKind.EDIT, actor="alice", reason="Typo.", evidence=evidence)
    complete()
    text = visible_text(reader.get("/sessions/?q=DE02"))
    assert "Decision of alice Typo. · text: Scan. · amount: 12300.00 · iban: DE02 1203" in text
    assert "1 session" in visible_text(reader.get("/sessions/?q=alice"))
    assert "No results" in visible_text(reader.get(f"/sessions/?q={ARGS_BEFORE_EDIT}"))
