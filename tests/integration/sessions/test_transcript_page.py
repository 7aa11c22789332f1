import base64
import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, RunStatus, SessionStatus
from checkpoints.models import Session
from checkpoints.serde import canonical
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
    make_user,
)
from tests.support.pages import said

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def session() -> Session:
    session = make_session(session_id="order-17")
    make_run(session=session)
    return session


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user())
    return client


def page(client: Client, session: Session, query: str = "") -> str:
    return client.get(f"/sessions/{session.pk}/{query}").content.decode()


def positions(html: str) -> list[int]:
    return [int(position) for position in re.findall(r'<article class="msg[^"]*" id="m-(\d+)"', html)]


def test_the_head_says_how_the_session_stands(reader: Client) -> None:
    session = make_session(
        session_id="order-17",
        status=SessionStatus.NEEDS_REVIEW,
        latest_version=7,
        budget_spent_usd="0.031",
        total_tokens=9412,
        labels='["vip"]',
    )
    make_run(session=session)
    make_run(session=session, status=RunStatus.WAITING, host="worker-1")
    call = make_call(session=session)
    response = reader.get(f"/sessions/{session.pk}/")
    assert (
        "Refund for a broken lamp order-17 agent refund-desk run 2 of 2, waiting on worker-1, seen just now version 7 "
        "cost $0.031 9,412 tokens"
    ) in said(response)
    assert "Paused — 1 call needs a decision Decide" in said(response)
    assert f'href="/review/calls/{call.pk}/">Decide</a>' in response.content.decode()


def test_a_conversation_reads_in_order(session: Session, reader: Client) -> None:
    make_message(session=session, role="user", text="The lamp arrived **broken**.")
    ask: list[dict[str, Any]] = [
        {"kind": "reasoning", "text": "Look first."},
        {"kind": "text", "text": "Let me look."},
        {"kind": "tool_call", "id": "c1", "name": "find_order", "args": {"order": 17}},
    ]
    make_message(session=session, role="assistant", blocks=ask)
    make_message(
        session=session,
        role="tool",
        blocks=[{"kind": "tool_result", "call_id": "c1", "content": '{"item": "Lamp", "paid": "40.00"}'}],
    )
    make_checkpoint(session=session)
    words = said(reader.get(f"/sessions/{session.pk}/"))
    assert "The lamp arrived broken." in words
    assert (
        'Reasoning Look first. Let me look. find_order Completed not logged order 17 item "Lamp" paid "40.00"'
    ) in words


def test_a_decision_stands_on_its_call(session: Session, reader: Client) -> None:
    make_message(
        session=session,
        role="assistant",
        blocks=[{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"order": 17}}],
    )
    make_checkpoint(session=session)
    call = make_call(
        session=session,
        call_id="c1",
        tool="pay",
        args={"order": 17},
        step=1,
        status=CallStatus.COMPLETED,
        result="re_1",
    )
    make_decision(call=call, evidence='{"link":"https://bank.example/1"}')
    words = said(reader.get(f"/sessions/{session.pk}/"))
    assert "It happened alice — Seen in the bank's export. Evidence: https://bank.example/1 just now re_1" in words


def test_changed_arguments_are_shown_beside_those_that_were_asked_for(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00"}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    call = make_call(
        session=session, call_id="c1", tool="pay", args={"amount": "4.00"}, step=1, status=CallStatus.COMPLETED
    )
    asked = canonical({"args_before": canonical({"amount": "40.00"})})
    make_decision(call=call, kind=DecisionKind.EDIT, evidence=asked)
    words = said(reader.get(f"/sessions/{session.pk}/"))
    assert (
        'amount "40.00" Other arguments than asked for: these are the ones that count. amount "4.00" Arguments changed '
        'alice — Seen in the bank\'s export. The model asked for: amount "40.00" just now'
    ) in words


def test_one_voice_of_several_is_shown_as_one(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00"}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    waiting = CallStatus.AWAITING_APPROVAL
    call = make_call(
        session=session, call_id="c1", tool="pay", args={"amount": "40.00"}, step=1, status=waiting, approvals=2
    )
    make_decision(call=call, kind=DecisionKind.APPROVE, final=False)
    page = f"/sessions/{session.pk}"
    told = "Approved · one of 2 alice (others have to agree) — Seen in the bank's export."
    assert told in said(reader.get(f"{page}/"))
    assert told in said(reader.get(f"{page}/calls/{call.pk}/"))
    assert 'pay c1 amount "40.00" Awaiting approval asked 2025-03-04 10:42:07' in said(reader.get(f"{page}/calls/"))
    assert "alice: Approved (one of 2) just now Decide" in said(reader.get(f"{page}/calls/"))
    assert "Approved: pay (one of 2 who have to agree) by alice" in said(reader.get(f"{page}/history/"))


def test_a_call_without_arguments_says_so(session: Session, reader: Client) -> None:
    make_message(
        session=session, role="assistant", blocks=[{"kind": "tool_call", "id": "c1", "name": "look", "args": {}}]
    )
    make_checkpoint(session=session)
    assert "look No result not logged No arguments." in said(reader.get(f"/sessions/{session.pk}/"))


def test_an_unknown_outcome_is_hatched_and_leads_to_its_card(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    call = make_call(session=session, step=1)
    html = page(reader, session)
    assert f'<section class="call unknown" id="call-{call.pk}">' in html
    assert f'href="/review/calls/{call.pk}/">Decide</a>' in html
    assert "Not in the transcript yet" in html


def test_a_lost_run_is_a_hatched_boundary(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    first = session.owner
    assert first is not None
    first.status, first.ended_at = RunStatus.LOST, THEN
    first.save()
    make_run(session=session, host="worker-1", started_at=THEN + timedelta(seconds=3))
    response = reader.get(f"/sessions/{session.pk}/")
    assert '<div class="boundary crash" role="separator">' in response.content.decode()
    assert "10:42:07 · run 2 took over after 3.0 s on worker-1" in said(response)


def test_the_newest_hundred_are_sent_and_earlier_ones_are_a_link_away(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    newest = page(reader, session)
    assert positions(newest) == list(range(150, 250))
    assert 'hx-get="/sessions/' in newest
    assert f'href="/sessions/{session.pk}/?v=1&amp;before=150#m-149"' in newest
    earlier = page(reader, session, "?v=1&before=150")
    assert positions(earlier) == list(range(50, 150))
    assert f'href="/sessions/{session.pk}/?v=1&amp;after=150#m-150"' in earlier
    assert positions(page(reader, session, "?v=1&before=50")) == list(range(50))
    assert positions(page(reader, session, "?v=1&after=150")) == list(range(150, 250))


def test_a_link_to_a_message_brings_it_and_what_stands_around_it(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    html = page(reader, session, "?v=1&at=20")
    assert positions(html) == list(range(100))
    assert f'href="/sessions/{session.pk}/?v=1&amp;at=20#m-20"' in html
    assert positions(page(reader, session, "?v=1&at=200")) == list(range(150, 250))


def test_an_open_page_follows_what_is_said(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(150)))
    make_checkpoint(session=session)
    html = page(reader, session)
    assert f'hx-get="/sessions/{session.pk}/?since=50"' in html
    assert f'hx-trigger="live:session-{session.pk} from:body"' in html
    make_messages(session=session, texts=["new"])
    again = page(reader, session, "?since=50")
    assert positions(again) == list(range(50, 151))
    assert 'id="newest"' in again


def test_an_older_version_is_shown_as_it_was(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["b"])
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/?v=1")
    assert positions(response.content.decode()) == [0]
    assert "1 message in version 1 of 2" in said(response)
    assert 'id="newest"' not in response.content.decode()
    assert 'href="?v=2" rel="next"' in response.content.decode()


def test_a_finished_session_shows_its_result(reader: Client) -> None:
    session = make_session(status=SessionStatus.COMPLETED, result='{"refunded":"40.00"}')
    make_run(session=session, owner=False)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    assert 'Result refunded "40.00"' in said(reader.get(f"/sessions/{session.pk}/"))


def test_a_session_nobody_drives_says_what_to_do(reader: Client) -> None:
    session = make_session()
    make_run(session=session, lease=timedelta(seconds=-1))
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    assert "Resume the session from any process to go on from version 1. Nothing is lost." in said(
        reader.get(f"/sessions/{session.pk}/")
    )


def test_an_empty_session_says_so(reader: Client) -> None:
    assert "Nothing has been said yet." in said(reader.get(f"/sessions/{make_session().pk}/"))


def test_a_long_text_is_folded_and_complete_on_its_own_page(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["word " * 4000 + "THE END"])
    make_checkpoint(session=session)
    html = page(reader, session)
    assert "THE END" not in html
    assert f'href="/sessions/{session.pk}/messages/0/?v=1"' in html
    assert "Show all · 20 KB" in said(reader.get(f"/sessions/{session.pk}/"))
    assert "THE END" in page(reader, session, "messages/0/?v=1")


def test_five_megabytes_are_folded_and_complete(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "dump", "args": {"all": "y" * 100_000}}]
    make_message(session=session, role="assistant", blocks=ask)
    big = "x" * 5_000_000 + "THE END"
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": big}])
    make_checkpoint(session=session)
    html = page(reader, session)
    assert len(html) < 40_000
    assert "Show all · 5.0 MB" in said(reader.get(f"/sessions/{session.pk}/"))
    whole = page(reader, session, "messages/0/?v=1")
    assert big in whole
    assert "y" * 100_000 in whole
    assert page(reader, session, "messages/1/?v=1").count(big) == 2


def test_a_logged_call_is_complete_on_its_own_page(session: Session, reader: Client) -> None:
    call = make_call(session=session, args={"text": "y" * 100_000}, status=CallStatus.COMPLETED, result="x" * 100_000)
    make_checkpoint(session=session)
    assert "x" * 100_000 not in page(reader, session)
    html = page(reader, session, f"calls/{call.pk}/")
    assert "x" * 100_000 in html
    assert "y" * 100_000 in html


def test_an_image_is_sent_by_itself_and_only_when_it_is_seen(session: Session, reader: Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    make_message(session=session, blocks=[{"type": "image_url", "image_url": {"url": url}}])
    make_checkpoint(session=session)
    html = page(reader, session)
    assert f'<img src="/sessions/{session.pk}/messages/0/images/1/?v=1" loading="lazy"' in html
    assert "base64" not in html
    response = reader.get(f"/sessions/{session.pk}/messages/0/images/1/?v=1")
    assert response.content == PIXEL
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"


def test_an_image_in_a_result_is_found_where_it_is_stored(session: Session, reader: Client) -> None:
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    ask = [{"kind": "tool_call", "id": "c1", "name": "draw", "args": {}}]
    make_message(session=session, role="assistant", blocks=ask)
    picture = [{"kind": "image", "url": url}]
    make_message(session=session, role="tool", blocks=[{"kind": "tool_result", "call_id": "c1", "content": picture}])
    make_checkpoint(session=session)
    assert f'src="/sessions/{session.pk}/messages/1/images/1/?v=1"' in page(reader, session)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/pixel.png",
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:text/html;base64,PHN2Zz4=",
        "data:image/png;base64,AAA",
        "data:image/png,AAAA",
        "javascript:alert(1)",
    ],
)
def test_nothing_else_is_sent_as_an_image(session: Session, reader: Client, url: str) -> None:
    make_message(session=session, blocks=[{"kind": "image", "url": url}])
    make_checkpoint(session=session)
    for index in (0, 1, 2, 10**30):
        assert reader.get(f"/sessions/{session.pk}/messages/0/images/{index}/").status_code == 404


def test_what_is_copied_is_complete_and_masked(session: Session, reader: Client) -> None:
    args = {"order": 17, "password": "hunter22", "note": "y" * 20_000}
    ask = {"kind": "tool_call", "id": "c&1", "name": "pay", "args": args}
    prose = {"kind": "text", "text": "I *pay* " + "now " * 5_000}
    make_message(session=session, role="assistant", blocks=[prose, ask])
    told = {"kind": "tool_result", "call_id": "c&1", "content": "paid <b>"}
    make_message(session=session, role="tool", blocks=[told])
    make_checkpoint(session=session)
    addresses = re.findall(r'data-copy-url="([^"]+)"', page(reader, session))
    message, call, arguments = (reader.get(address.replace("&amp;", "&")) for address in addresses)
    shown = {"order": 17, "password": "‹masked›", "note": "y" * 20_000}
    assert json.loads(arguments.content) == shown
    assert json.loads(call.content) == {"call_id": "c&1", "tool": "pay", "arguments": shown, "result": "paid <b>"}
    assert message.content.decode() == f"{prose['text']}\n\n{call.content.decode()}"
    assert message.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert message.headers["X-Content-Type-Options"] == "nosniff"
    logged = make_call(
        session=session, call_id="c&1", tool="pay", args={"order": 18}, step=1, status=CallStatus.COMPLETED
    )
    address = f"/sessions/{session.pk}/calls/{logged.pk}/?as=arguments"
    assert f'data-copy-url="{address}"' in page(reader, session)
    assert json.loads(reader.get(address).content) == {"order": 18}


@pytest.mark.parametrize("messages", [1, 3])
def test_the_number_of_queries_does_not_depend_on_what_was_said(
    session: Session, reader: Client, messages: int, django_assert_num_queries: Queries
) -> None:
    for number in range(messages):
        ask = [{"kind": "tool_call", "id": str(number), "name": "pay", "args": {}}]
        make_message(session=session, role="assistant", blocks=ask)
        make_checkpoint(session=session)
        make_decision(call=make_call(session=session, call_id=str(number), tool="pay", args={}, step=number + 1))
    with django_assert_num_queries(21):
        page(reader, session)
