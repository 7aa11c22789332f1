import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind, Role, RunStatus, SessionStatus
from checkpoints.formats import to_canonical_json
from checkpoints.models import Session
from harness_site.accounts.models import Membership
from tests.support.factories import (
    THEN,
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_messages,
    make_run,
    make_session,
)
from tests.support.page_text import get_session_page, visible_text

pytestmark = pytest.mark.django_db

Queries = Callable[[int], AbstractContextManager[object]]


def positions(html: str) -> list[int]:
    return [int(position) for position in re.findall(r'<article class="msg[^"]*" id="m-(\d+)"', html)]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ('{"harness.framework":"LangGraph"}', "Framework LangGraph"),
        ('{"harness.framework":17}', ""),
        ('{"adapter":{"framework":"LangGraph"}}', ""),
        ("{}", ""),
    ],
)
def test_details_name_the_framework_whose_adapter_has_begun_the_session(
    reader: Client, metadata: str, words: str
) -> None:
    text = visible_text(reader.get(f"/sessions/{make_session(metadata=metadata).pk}/"))
    assert words in text
    assert bool(words) is ("Framework" in text)


def test_head_shows_the_session_status(reader: Client) -> None:
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
        "Paused — 1 call needs a decision Agent refund-desk Cost $0.03 Details order-17 "
        "Run 2 of 2 is waiting on worker-1, last sign of life "
    ) in visible_text(response)
    assert "Tokens 9,412" in visible_text(response)
    assert "Refund for a broken lamp Decide" in visible_text(response)
    assert f'href="/review/calls/{call.pk}/">Decide</a>' in response.content.decode()
    Membership.objects.update(role=Role.AUDITOR)
    assert "Refund for a broken lamp Open decision page" in visible_text(reader.get(f"/sessions/{session.pk}/"))


def test_conversation_is_shown_in_order(session: Session, reader: Client) -> None:
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
    words = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert "The lamp arrived broken." in words
    assert "Reasoning Look first. Let me look. find_order Completed Copy call" in words
    # That calls which only read are not logged is on the page of the logged calls.
    assert "not logged" not in words.partition("The lamp arrived")[2].partition("Not logged")[0]
    assert "Copy call Copy arguments Arguments order 17 Result item Lamp paid 40.00" in words


def test_date_is_shown_where_a_day_begins(session: Session, reader: Client) -> None:
    days = ("2025-03-04T10:00", "2025-03-04T11:00", "2025-03-05T12:00", "2025-03-05T13:00")
    for number, moment in enumerate(days):
        make_message(session=session, text=f"Message {number}", created_at=datetime.fromisoformat(f"{moment}:00+00:00"))
    make_checkpoint(session=session)
    html = reader.get(f"/sessions/{session.pk}/").content.decode()
    shown = re.findall(r'<time [^>]*data-time="at">([^<]*)</time>', html.partition('id="transcript-title"')[2])
    assert shown[:4] == ["2025-03-04 10:00:00", "11:00:00", "2025-03-05 12:00:00", "13:00:00"]


def test_links_between_decisions_are_shown_if_there_is_a_decision(session: Session, reader: Client) -> None:
    make_message(session=session, text="Pay")
    make_checkpoint(session=session)
    assert "Next decision" not in reader.get(f"/sessions/{session.pk}/").content.decode()
    make_decision(call=make_call(session=session))
    assert "Next decision" in reader.get(f"/sessions/{session.pk}/").content.decode()


def test_decision_is_shown_at_its_call(session: Session, reader: Client) -> None:
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
    words = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert (
        "It happened alice — Seen in the bank's export. Evidence: https://bank.example/1 just now Result re_1" in words
    )


def test_edited_arguments_are_shown_with_what_was_changed(session: Session, reader: Client) -> None:
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00"}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    call = make_call(
        session=session, call_id="c1", tool="pay", args={"amount": "4.00"}, step=1, status=CallStatus.COMPLETED
    )
    asked = to_canonical_json({"args_before": to_canonical_json({"amount": "40.00"})})
    make_decision(call=call, kind=DecisionKind.EDIT, evidence=asked)
    words = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert (
        "amount 4.00 The arguments were changed. Compared with what the model asked for: "
        "amount before 40.00 → now 4.00 "
        "Arguments changed alice — Seen in the bank's export."
    ) in words


def test_single_vote_of_several_is_shown(session: Session, reader: Client) -> None:
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
    assert told in visible_text(reader.get(f"{page}/"))
    assert told in visible_text(reader.get(f"{page}/calls/{call.pk}/"))
    assert "Pay: amount 40.00 pay c1 Awaiting approval Decide requested 2025-03-04 10:42:07" in visible_text(
        reader.get(f"{page}/calls/")
    )
    assert "alice: Approved (one of 2 approvals)" in visible_text(reader.get(f"{page}/calls/"))
    assert "Approved: pay (2 people have to agree) by alice" in visible_text(reader.get(f"{page}/history/"))


def test_definitions_of_tools_are_no_answers_of_tools(session: Session, reader: Client) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("search", "refund_card")]
    make_message(session=session, body={"role": "tool", "blocks": tools})
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert re.search(r"<summary>Tools offered to the model \(2\) <span[^>]*>search, refund_card</span>", html)
    assert 'class="msg system"' in html


def test_call_without_arguments_is_labelled(session: Session, reader: Client) -> None:
    make_message(
        session=session, role="assistant", blocks=[{"kind": "tool_call", "id": "c1", "name": "look", "args": {}}]
    )
    make_checkpoint(session=session)
    address = f"/sessions/{session.pk}/"
    assert "look No result yet not logged Copy call No arguments." in visible_text(reader.get(address))
    Session.objects.filter(pk=session.pk).update(metadata='{"import":{}}')
    assert "look No result yet Copy call No arguments." in visible_text(reader.get(address))


def test_call_of_the_last_turn_has_no_result_yet_while_the_session_runs(session: Session, reader: Client) -> None:
    for number in (1, 2):
        call = {"kind": "tool_call", "id": f"c{number}", "name": "look", "args": {}}
        make_message(session=session, role="user", text="Go on.")
        make_message(session=session, role="assistant", blocks=[call])
    make_checkpoint(session=session)
    address = f"/sessions/{session.pk}/"
    assert re.findall(r"No result(?: yet)?", visible_text(reader.get(address))) == ["No result", "No result yet"]
    Session.objects.update(status=SessionStatus.COMPLETED)
    assert re.findall(r"No result(?: yet)?", visible_text(reader.get(address))) == ["No result", "No result"]


def test_unknown_outcome_is_hatched_and_links_to_its_card(session: Session, reader: Client) -> None:
    make_checkpoint(session=session)
    call = make_call(session=session, step=1)
    html = get_session_page(reader, session)
    assert f'<section class="call unknown" id="call-{call.pk}">' in html
    assert f'href="/review/calls/{call.pk}/">Decide</a>' in html
    assert "Not in the transcript yet" in html


def test_lost_run_is_a_hatched_boundary(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    first = session.owner
    assert first is not None
    first.status, first.ended_at = RunStatus.LOST, THEN
    first.save()
    make_run(session=session, host="worker-1", started_at=THEN + timedelta(seconds=3))
    response = reader.get(f"/sessions/{session.pk}/")
    assert '<div class="boundary crash">' in response.content.decode()
    assert "10:42:07) · run 2 took over after 3.0 s on worker-1" in visible_text(response)


def test_newest_messages_are_shown_with_a_link_to_earlier_ones(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    newest = get_session_page(reader, session)
    assert positions(newest) == [0, *range(226, 250)]
    assert f'hx-get="/sessions/{session.pk}/?v=1&amp;after=1&amp;until=226"' in newest
    earlier = get_session_page(reader, session, "?v=1&before=226")
    assert positions(earlier) == list(range(202, 226))
    assert f'href="/sessions/{session.pk}/?v=1&amp;after=226#m-226"' in earlier
    assert positions(get_session_page(reader, session, "?v=1&before=30")) == list(range(30))
    assert positions(get_session_page(reader, session, "?v=1&after=226")) == list(range(226, 250))


def test_link_to_a_message_opens_its_window(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(250)))
    make_checkpoint(session=session)
    html = get_session_page(reader, session, "?v=1&at=20")
    assert positions(html) == list(range(8, 32))
    assert f'href="/sessions/{session.pk}/?v=1&amp;at=20#m-20"' in html
    assert positions(get_session_page(reader, session, "?v=1&at=200")) == list(range(188, 212))


def test_open_page_loads_new_messages(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=map(str, range(150)))
    make_checkpoint(session=session)
    html = get_session_page(reader, session)
    assert f'hx-get="/sessions/{session.pk}/?since=126"' in html
    assert f'hx-trigger="live:session-{session.pk} from:body"' in html
    make_messages(session=session, texts=["new"])
    again = get_session_page(reader, session, "?since=126")
    assert positions(again) == list(range(126, 151))
    assert 'id="newest"' in again


def test_page_opens_at_its_end_while_the_session_runs(reader: Client) -> None:
    session = make_session()
    make_messages(session=session, texts=map(str, range(3)))
    make_checkpoint(session=session)
    make_run(session=session)
    assert "data-opens-at-end" in get_session_page(reader, session)
    for place in ("?v=1", "?at=1", "?since=0", "?find=nowhere", "?none=error"):
        assert "data-opens-at-end" not in get_session_page(reader, session, place), place
    Session.objects.update(status=SessionStatus.COMPLETED)
    assert "data-opens-at-end" not in get_session_page(reader, session)


def test_older_version_is_shown_as_it_was(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    make_messages(session=session, texts=["b"])
    make_checkpoint(session=session)
    response = reader.get(f"/sessions/{session.pk}/?v=1")
    assert positions(response.content.decode()) == [0]
    assert "1 message in version 1 of 2" in visible_text(response)
    assert 'id="newest"' not in response.content.decode()
    assert 'href="?v=2" rel="next"' in response.content.decode()


def test_live_page_has_no_fixed_version_in_its_links(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    page = reader.get(f"/sessions/{session.pk}/?v=").content.decode()
    assert 'id="newest"' in page
    assert '<option value="" selected>newest</option><option value="1">1</option>' in page
    assert "to=error" not in page
    assert 'name="v" value="1"' not in page
    assert 'name="v" value="1"' in reader.get(f"/sessions/{session.pk}/?v=1").content.decode()


def test_steps_between_errors_are_offered_if_there_are_any(session: Session, reader: Client) -> None:
    make_messages(session=session, texts=["a", "b"])
    make_checkpoint(session=session)
    assert "to=error" not in get_session_page(reader, session)
    make_call(session=session, tool="pay", step=1, status=CallStatus.FAILED)
    page = get_session_page(reader, session)
    jump = f'href="/sessions/{session.pk}/jump/?'
    assert f'{jump}to=error&amp;at=2&amp;back=1" data-key="E"' in page
    assert f'{jump}to=error&amp;at=-1" data-key="e"' in page
    page = get_session_page(reader, session, "?v=1&at=1")
    assert f'{jump}v=1&amp;to=error&amp;at=1&amp;back=1"' in page
    assert f'{jump}v=1&amp;to=error&amp;at=1" data-key="e"' in page


def test_finished_session_shows_its_result(reader: Client) -> None:
    session = make_session(status=SessionStatus.COMPLETED, result='{"refunded":"40.00"}')
    make_run(session=session, owner=False)
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    assert "Result refunded 40.00" in visible_text(reader.get(f"/sessions/{session.pk}/"))


def test_session_without_a_process_explains_what_to_do(reader: Client) -> None:
    session = make_session()
    make_run(session=session, lease=timedelta(seconds=-1))
    make_messages(session=session, texts=["a"])
    make_checkpoint(session=session)
    words = visible_text(reader.get(f"/sessions/{session.pk}/"))
    assert "Resume it from any process: it continues from version 1, and nothing is lost." in words
    lost = (
        r"The process of run 1 was lost: its last sign of life was at [\d:]+, and no process works on the session now"
    )
    assert re.search(rf"{lost}. Start its agent again, or resume .*: it continues from version 1\.", words)


def test_empty_session_is_explained(reader: Client) -> None:
    assert "There are no messages yet." in visible_text(reader.get(f"/sessions/{make_session().pk}/"))


@pytest.mark.unsealed("its number of statements is that without seals")
@pytest.mark.parametrize("messages", [1, 3])
def test_query_count_is_independent_of_the_messages(
    session: Session, reader: Client, messages: int, django_assert_num_queries: Queries
) -> None:
    for number in range(messages):
        ask = [{"kind": "tool_call", "id": str(number), "name": "pay", "args": {}}]
        make_message(session=session, role="assistant", blocks=ask)
        make_checkpoint(session=session)
        make_decision(call=make_call(session=session, call_id=str(number), tool="pay", args={}, step=number + 1))
    with django_assert_num_queries(23):
        get_session_page(reader, session)
