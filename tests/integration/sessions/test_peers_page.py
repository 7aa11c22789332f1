"""The page of calls to other agents."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer
from checkpoints.enums import AuditKind, CallStatus
from checkpoints.models import AuditEvent, PausedTask, PeerCall, Session, Workspace
from checkpoints.peers import Join
from checkpoints.peers import PeerCall as Asked
from harness_site.sessions.selectors import agent_request_chain, waits_for_other_agents
from tests.integration.checkpoints.peers.paused_agents import expire_deadlines, join, lose_run, pause
from tests.support.factories import make_call, make_session
from tests.support.page_text import visible_text

SCRIPT = "<script>alert(1)</script>"

pytestmark = pytest.mark.django_db(transaction=True)


def page_of(reader: Client, session_id: str = "s", tab: str = "peers/") -> Any:
    return reader.get(f"/sessions/{Session.objects.get(session_id=session_id).pk}/{tab}")


def test_every_call_shows_peer_and_outcome(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, join("quote", "answered", "late"), join("more", "open"))
    cp.accept_response("answered", {"grams": 3150})
    expire_deadlines("late")
    cp.sweep_deadlines()
    cp.accept_response("late", "at last")
    words = visible_text(page_of(reader))
    assert "Pause 1 Waiting for other agents Run 1 paused" in words
    assert "Join quote Complete 2 of 2 calls are settled" in words
    assert "stock answered" in words
    assert "grams 3150" in words
    assert "No answer in time" in words
    assert "Arrived too late" in words
    assert ": at last" in words
    assert "Join more Waiting 0 of 1 call is settled" in words
    assert "ask open Waiting due in" in words


def test_passed_deadline_is_shown_as_overdue(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, join("j", "a"))
    PeerCall.objects.update(deadline="2025-01-01T00:00Z")
    assert "overdue for" in visible_text(page_of(reader))


def test_pending_notices_are_named(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join("j", [Asked("a", "stock", sent=False), Asked("b", "courier")]))
    assert "Waiting due in" in visible_text(page_of(reader))
    assert "the request" in visible_text(page_of(reader))

    def refuse(notice: object) -> None:
        raise ConnectionError

    cp.cancel_paused("s", tell=refuse)
    words = visible_text(page_of(reader))
    assert words.count("the answer is no longer needed (tried once)") == 2
    assert "Pause 1 Cancelled" in words


def test_task_of_a_lost_run_is_labelled(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, join("j", "a"))
    cp.accept_response("a", "yes")
    cp.take_paused("s")
    assert "That run has not saved a version yet." in visible_text(page_of(reader))
    lose_run()
    cp.take_paused("s", takeover=True)
    assert "It was continued 2 times: an earlier run was lost, or took it again." in visible_text(page_of(reader))
    cp.save_checkpoint("s", [], None, 0)
    words = visible_text(page_of(reader))
    assert "Pause 1 Resumed" in words
    assert "has not saved a version yet" not in words


@pytest.mark.parametrize("tab", ["", "versions/", "calls/", "plan/", "history/", "peers/"])
def test_every_page_shows_what_a_paused_session_waits_for(cp: SyncCheckpointer, reader: Client, tab: str) -> None:
    pause(cp, join("quote", "a", "b"))
    cp.accept_response("a", "yes")
    words = visible_text(page_of(reader, tab=tab))
    assert "Paused — waiting for 1 answer" in words
    assert "The session waits for 1 of 2 answers. Agents: stock. The answer is due in" in words
    cp.accept_response("b", "yes")
    words = visible_text(page_of(reader, tab=tab))
    assert "Paused — all answers have arrived" in words
    assert "Any process can continue the session." in words


def test_encrypted_values_are_not_shown(cp: SyncCheckpointer, reader: Client) -> None:
    state = {"security_context": {"auth_token": "open sesame", "badge": "x"}, "step": 3}
    pause(cp, Join("j", [Asked("a", "stock", {"password": "open sesame", "order": 17})]), state=state)
    stored = PausedTask.objects.get().state
    sealed = stored[stored.index("gAAAA") :][:40]
    html = page_of(reader).content.decode()
    assert "open sesame" not in html
    assert sealed not in html
    row = waits_for_other_agents.load_pause_page(Session.objects.get().pk).rows[0]
    assert row.state == {"security_context": {"auth_token": "‹encrypted›", "badge": "x"}, "step": 3}
    assert row.joins[0].calls[0].request == {"password": "‹encrypted›", "order": 17}


def test_secrets_in_responses_are_masked(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, join("j", "a"))
    cp.accept_response("a", {"api_key": "hunter22hunter22"})
    words = visible_text(page_of(reader))
    assert "hunter22" not in words
    assert "‹masked›" in words


def test_text_of_agents_is_escaped(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join(SCRIPT, [Asked(SCRIPT, SCRIPT, {SCRIPT: SCRIPT})]), state={SCRIPT: SCRIPT})
    cp.accept_response(SCRIPT, SCRIPT)
    html = page_of(reader).content.decode()
    assert SCRIPT not in html
    assert html.count("&lt;script&gt;alert(1)") >= 7


def test_long_join_has_several_pages(cp: SyncCheckpointer, reader: Client) -> None:
    ids = [f"c-{number:03}" for number in range(waits_for_other_agents.CALLS + 2)]
    pause(cp, join("long", *ids), join("short", "x"))
    session = Session.objects.get()
    ((long, short),) = [row.joins for row in waits_for_other_agents.load_pause_page(session.pk).rows]
    assert ([call.call_id for call in long.calls], short.after) == (ids[: waits_for_other_agents.CALLS], None)
    assert long.after is not None
    rest = waits_for_other_agents.load_join_with_call_page(session.pk, long.pk, after=long.after)
    assert rest is not None
    assert ([call.call_id for call in rest.calls], rest.after) == (ids[waits_for_other_agents.CALLS :], None)
    words = visible_text(reader.get(f"/sessions/{session.pk}/peers/", {"join": long.pk, "after": long.after}))
    assert ids[-1] in words
    assert ids[0] not in words
    other = make_session()
    assert reader.get(f"/sessions/{other.pk}/peers/", {"join": long.pk}).status_code == 404


def test_pages_of_pauses_are_consecutive(cp: SyncCheckpointer) -> None:
    for number in range(3):
        pause(cp, join("j", str(number)))
        cp.accept_response(str(number), "yes")
        cp.take_paused("s")
    session = Session.objects.get()
    first = waits_for_other_agents.load_pause_page(session.pk, size=2)
    assert ([row.number for row in first.rows], first.before) == ([3, 2], 2)
    second = waits_for_other_agents.load_pause_page(session.pk, before=first.before, size=2)
    assert ([row.number for row in second.rows], second.before) == ([1], None)


def test_tab_is_shown_only_with_peer_calls(reader: Client) -> None:
    make_session(session_id="s")
    assert "/peers/" not in page_of(reader, tab="plan/").content.decode()
    assert "This session has not called another agent." in visible_text(page_of(reader))


@pytest.mark.parametrize("count", [1, 3])
def test_query_count_is_independent_of_the_calls(cp: SyncCheckpointer, reader: Client, count: int) -> None:
    joins = [join(f"j{number}", *[f"{number}-{call}" for call in range(count)]) for number in range(count)]
    pause(cp, *joins)
    with CaptureQueriesContext(connection) as captured:
        page_of(reader)
    # Not every Django counts where a transaction begins and ends.
    queries = [query for query in captured if query["sql"].split()[0] not in {"BEGIN", "COMMIT"}]
    assert len(queries) == 18


@pytest.mark.parametrize("session_id", ["w-1", "stock: w-1", "stock:w-1", "stock/w-1", "stock-w-1"])
def test_call_and_the_session_that_works_on_it_link_to_each_other(
    cp: SyncCheckpointer, reader: Client, session_id: str
) -> None:
    pause(cp, Join("j", [Asked("w-1", "stock"), Asked("w-2", "courier"), Asked("w-3", "stock")]))
    for other, agent in ((session_id, "stock"), ("w-2", "stock"), ("courier: w-3", "courier")):
        make_session(session_id=other, agent=agent)
    asking, answering = (Session.objects.get(session_id=name).pk for name in ("s", session_id))
    html = page_of(reader).content.decode()
    assert re.findall(r'<th scope="row"><a href="/sessions/(\d+)/"[^>]*><bdi>(\w+)', html) == [
        (str(answering), "stock")
    ]
    page = page_of(reader, session_id, "")
    assert f'Asked by <a href="/sessions/{asking}/peers/">' in page.content.decode()
    for other in ("s", "w-2", "courier: w-3"):
        assert "Asked by" not in visible_text(page_of(reader, other, ""))


def test_secret_in_the_title_of_the_asking_session_is_masked(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join("j", [Asked("w-1", "stock")]))
    asking = Session.objects.get(session_id="s")
    Session.objects.filter(pk=asking.pk).update(title="Log in with Xk7fooBarQz9")
    make_call(session=asking, args={"password": "Xk7fooBarQz9"}, status=CallStatus.COMPLETED)
    make_session(session_id="w-1", agent="stock")
    page = page_of(reader, "w-1", "")
    assert "Asked by Log in with ‹masked›" in visible_text(page)
    assert "Xk7fooBarQz9" not in page.content.decode()


def test_table_has_no_column_without_content(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, join("j", "a", "b"))
    assert "Agent Request Status Deadline stock" in visible_text(page_of(reader))
    cp.accept_response("a", "yes")
    page = page_of(reader)
    assert "Agent Request Status Deadline Answer stock" in visible_text(page)
    assert '<td class="args" data-label="answer">yes</td>' in page.content.decode()
    cp.cancel_paused("s")
    assert "Agent Request Status Deadline Answer Message to send stock" in visible_text(page_of(reader))


def test_answering_session_shows_request_and_answer(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join("j", [Asked("w-1", "stock", {"weigh": 17, "password": "hunter22"}), Asked("w-2", "courier")]))
    asking = Session.objects.get()
    make_session(session_id="w-1", agent="stock")
    page = page_of(reader, "w-1")
    words = visible_text(page)
    assert ">Peers 1</a>" in page.content.decode()
    assert "Asked by Session Agent Request Status Deadline Answer" in words
    assert f'<th scope="row"><a href="/sessions/{asking.pk}/peers/"><bdi>' in page.content.decode()
    assert "weigh 17" in words
    assert "hunter22" not in words
    assert "Waiting due in" in words
    assert "none yet" in words
    assert "This session has not called another agent." not in words
    assert AuditEvent.objects.filter(kind=AuditKind.EXCERPTED, session=asking).count() == 1
    cp.accept_response("w-1", {"grams": 3150, "api_key": "hunter23hunter23"})
    words = visible_text(page_of(reader, "w-1"))
    assert "Answered" in words
    assert "grams 3150" in words
    assert "hunter23" not in words
    assert "none yet" not in words
    assert ">Peers 2</a>" in page_of(reader, "s", "").content.decode()


def test_late_answer_of_the_answering_session_is_shown_as_late(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join("j", [Asked("w-1", "stock", SCRIPT)]))
    make_session(session_id="w-1", agent="stock")
    expire_deadlines("w-1")
    cp.sweep_deadlines()
    cp.accept_response("w-1", SCRIPT)
    page = page_of(reader, "w-1")
    assert "No answer in time" in visible_text(page)
    assert "Arrived too late" in visible_text(page)
    assert SCRIPT not in page.content.decode()


def test_secrets_of_the_asking_session_are_masked_in_its_request(cp: SyncCheckpointer, reader: Client) -> None:
    pause(cp, Join("j", [Asked("w-1", "stock", "open with correct-horse-17")]))
    make_call(session=Session.objects.get(), args={"password": "correct-horse-17"})
    make_session(session_id="w-1", agent="stock")
    words = visible_text(page_of(reader, "w-1"))
    assert "open with" in words
    assert "correct-horse-17" not in words


def chain_rows(page: Any) -> list[tuple[int, str]]:
    """Return depth and text of each row of the list who asked whom."""
    html = page.content.decode()
    start = html.find('id="chain"')
    table = "" if start < 0 else html[start : html.index("</section>", start)]
    rows = re.findall(r'<th scope="row" class="depth-(\d+)">(.*?)</tr>', table, re.DOTALL)
    return [(int(depth), " ".join(re.sub(r"<[^>]+>", " ", text).split())) for depth, text in rows]


def ask_from(cp: SyncCheckpointer, session_id: str, agent: str, *calls: Asked) -> None:
    """Let a session pause for other agents, as one of `agent`."""
    pause(cp, Join("j", list(calls)), session_id=session_id)
    Session.objects.filter(session_id=session_id).update(agent=agent, title="")


def test_every_session_of_a_chain_shows_who_asked_whom(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "desk: 17", "desk", Asked("17.weight", "stock"), Asked("17.price", "courier"))
    ask_from(cp, "stock: 17.weight", "stock", Asked("17.weight.items", "desk"))
    make_session(session_id="17.weight.items", agent="desk", title="Items of order 17")
    cp.accept_response("17.weight.items", ["lamp"])
    expected = [
        (0, "desk: 17"),
        (1, "stock: 17.weight"),
        (2, "Items of order 17"),
        (1, "17.price"),
    ]
    for session_id, place in (("desk: 17", 0), ("stock: 17.weight", 1), ("17.weight.items", 2)):
        page = page_of(reader, session_id)
        rows = chain_rows(page)
        assert [(depth, text[: len(name)]) for (depth, text), (_, name) in zip(rows, expected, strict=True)] == expected
        assert ["this session" in text for _, text in rows] == [number == place for number in range(4)]
        assert "Waiting due in" in rows[1][1]
        assert "Answered" in rows[2][1]
        assert "courier · no session of it is known here" in rows[3][1]
    assert '#chain">Who asked whom</a>' in page_of(reader, "17.weight.items", "").content.decode()


def test_long_name_in_a_chain_is_shown_without_its_middle(cp: SyncCheckpointer, reader: Client) -> None:
    """The end tells names apart that begin with the same id; the whole name is shown on hover."""
    name = "c5379bb8bbfc46dcb99d794f7b4ea3f1"
    ask_from(cp, f"desk: {name}", "desk", Asked(f"{name}.weight", "stock"))
    ask_from(cp, f"stock: {name}.weight", "stock", Asked(f"{name}.weight.items", "desk"))
    page = page_of(reader, f"desk: {name}")
    assert [text.partition("…")[2].split()[0] for _, text in chain_rows(page)][1:] == [
        "d794f7b4ea3f1.weight",
        "b4ea3f1.weight.items",
    ]
    assert f'title="stock: {name}.weight"' in page.content.decode()


def test_chain_has_time_question_answer_and_duration_of_each_request(cp: SyncCheckpointer, reader: Client) -> None:
    long = "x" * agent_request_chain.MAX_TEXT_CHARS
    ask_from(cp, "s", "desk", Asked("w-1", "stock", {"order": 18, "to": "Oslo"}), Asked("w-2", "stock", {"text": long}))
    ask_from(cp, "w-1", "stock", Asked("p-1", "courier", "open with correct-horse-17, hunter22"))
    make_call(session=Session.objects.get(session_id="w-1"), args={"password": "correct-horse-17"})
    make_session(session_id="p-1", agent="courier")
    cp.accept_response("p-1", {"grams": 3150, "api_key": "hunter23hunter23", "of": "correct-horse-17"})
    PeerCall.objects.filter(call_id="p-1").update(created_at="2026-11-19T10:51:00Z", settled_at="2026-11-19T10:52:30Z")
    page = page_of(reader)
    rows = [text for _, text in chain_rows(page)]
    assert "Asked at Request Status Answer Duration" in visible_text(page)
    assert "order 18, to Oslo Waiting due in" in rows[1]
    assert "open with ‹masked›, hunter22 Answered api_key ‹masked›, grams 3150" in rows[2]
    assert rows[2].endswith("1 min 30 s")
    assert 'datetime="2026-11-19T10:51:00' in page.content.decode()
    assert "hunter23" not in rows[2]
    assert "correct-horse-17" not in page.content.decode()
    assert "too long for this list" in rows[3]
    shown = AuditEvent.objects.filter(kind=AuditKind.EXCERPTED).values_list("session__session_id", flat=True)
    assert list(shown) == ["w-1"]
    assert "order 18, to Oslo" in chain_rows(page_of(reader, "p-1"))[1][1]


def test_late_answer_is_in_the_chain(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "s", "desk", Asked("w-1", "stock", SCRIPT))
    make_session(session_id="w-1", agent="stock")
    expire_deadlines("w-1")
    cp.sweep_deadlines()
    cp.accept_response("w-1", "at last")
    row = chain_rows(page_of(reader, "w-1"))[1][1]
    assert "No answer in time due" in row
    assert re.search(r"Arrived too late, at .*: at last", row)


def test_chain_of_one_request_is_shown_to_the_session_that_was_asked(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "s", "desk", Asked("w-1", "stock"))
    make_session(session_id="w-1", agent="stock")
    assert chain_rows(page_of(reader)) == []
    assert [depth for depth, _ in chain_rows(page_of(reader, "w-1"))] == [0, 1]


def test_long_chain_has_the_path_to_the_session_and_says_that_there_is_more(
    cp: SyncCheckpointer, reader: Client
) -> None:
    ask_from(cp, "s", "desk", *[Asked(f"w-{number}", "stock") for number in range(60)])
    ask_from(cp, "w-59", "stock", Asked("p-1", "courier"))
    make_session(session_id="p-1", agent="courier")
    page = page_of(reader, "p-1")
    rows = chain_rows(page)
    assert len(rows) == agent_request_chain.MAX_ENTRIES
    assert [depth for depth, _ in rows[-2:]] == [1, 2]
    assert "this session" in rows[-1][1]
    assert "There are more requests than this list shows: it has 50 entries." in visible_text(page)


def test_sessions_that_asked_each_other_are_a_chain_that_ends(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "a", "desk", Asked("b", "stock"))
    ask_from(cp, "b", "stock", Asked("a", "desk"))
    assert [depth for depth, _ in chain_rows(page_of(reader, "a"))] == [0, 1, 2]


def test_chain_masks_secrets_in_the_names_of_its_sessions(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "s", "desk", Asked("w-1", "stock"))
    ask_from(cp, "w-1", "stock", Asked("p-1", "courier"))
    make_session(session_id="p-1", agent="courier", title="Parcel Xk7fooBarQz9")
    make_call(session=Session.objects.get(session_id="p-1"), args={"password": "Xk7fooBarQz9"})
    page = page_of(reader)
    assert "Parcel ‹masked›" in chain_rows(page)[2][1]
    assert "Xk7fooBarQz9" not in page.content.decode()


def test_chain_has_no_session_of_another_workspace(cp: SyncCheckpointer, reader: Client) -> None:
    ask_from(cp, "s", "desk", Asked("w-1", "stock"))
    ask_from(cp, "w-1", "stock", Asked("p-1", "courier"))
    other = Workspace.objects.create(name="other")
    make_session(session_id="p-1", agent="courier", title="Not for you", workspace=other)
    assert "p-1 courier · no session of it is known here" in chain_rows(page_of(reader))[2][1]


@pytest.mark.parametrize("count", [1, 5])
def test_query_count_of_a_chain_depends_on_its_levels_only(cp: SyncCheckpointer, reader: Client, count: int) -> None:
    ask_from(cp, "s", "desk", *[Asked(f"w-{number}", "stock") for number in range(count)])
    for number in range(count):
        ask_from(cp, f"w-{number}", "stock", Asked(f"p-{number}", "courier"))
        make_session(session_id=f"p-{number}", agent="courier")
    with CaptureQueriesContext(connection) as captured:
        page_of(reader)
    queries = [query for query in captured if query["sql"].split()[0] not in {"BEGIN", "COMMIT"}]
    assert len(queries) == 29
