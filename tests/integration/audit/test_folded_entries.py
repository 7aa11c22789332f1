"""Rows of the audit trail page that stand for several entries, and page views and events of runs that it hides."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints import audit
from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind, CallStatus
from checkpoints.models import AuditEvent, Session
from harness_site.audit import folded_entry_pages
from tests.integration.audit.audit_events import get_link, happened, lines
from tests.support.factories import make_call, make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def shown_rows(page: Any) -> list[int]:
    return [int(key) for key in re.findall(r'id="entry-(\d+)"', page.content.decode())]


OPEN_ROW = r'hx-get="(/audit/[^"]+)"'


SHOW_VIEWS = r'href="([^"]+)">Show page views'


EARLIER = r'rel="next" href="([^"]+)"'


def test_equal_entries_are_folded_and_the_row_opens(reader: Client) -> None:
    keys = [
        happened(AuditKind.EXCERPTED, session=make_session(session_id=f"order-{number}"), page="review queue").pk
        for number in range(30)
    ]
    other = happened(AuditKind.EXCERPTED, session=make_session(session_id="other"), page="search").pk
    audit.seal_events_of_workspace(make_workspace().pk)
    page = reader.get("/audit/?actor=alice&views=1")
    assert "alice saw excerpts of 30 sessions on the page “Review”" in visible_text(page)
    assert "Not verified, number 1–30" in visible_text(page)
    summaries = re.findall(r"<summary.*?</summary>", page.content.decode().partition('id="entries"')[2])
    assert any("30 entries" in summary for summary in summaries)
    assert not any("<a " in summary for summary in summaries), "links in a summary are not operable for all"
    assert "alice saw excerpts of other on the page “Search”" in visible_text(page)
    assert shown_rows(page) == [other, keys[-1]]
    opened = reader.get(get_link(page, OPEN_ROW))
    assert shown_rows(opened) == keys[::-1]
    assert shown_rows(reader.get(get_link(opened, r'href="([^"]+)">Show them as one line'))) == [keys[-1]]


def decide(number: int, decision: str = "approve", actor: str = "alice") -> list[int]:
    """Record a decision about a call, and that its session can continue; return the keys of both."""
    session = make_session(session_id=f"order-{number}")
    decided = happened(actor=actor, session=session, call_id=f"call_{number}", decision=decision)
    ready = happened(AuditKind.SESSION_READY, actor="gate", actor_kind=ActorKind.MACHINE, session=session)
    return [decided.pk, ready.pk]


def test_same_decision_about_several_calls_is_one_row(reader: Client) -> None:
    alone = decide(0, "reject")
    keys = [pk for number in range(1, 5) for pk in decide(number)]
    other = decide(9, actor="bob")
    audit.seal_events_of_workspace(make_workspace().pk)
    page = reader.get("/audit/?runs=1")
    assert shown_rows(page) == [*other[::-1], keys[-1], *alone[::-1]]
    assert "alice decided 4 calls: Approved" in visible_text(page)
    assert f'class="person" id="entry-{keys[-1]}"' in page.content.decode()
    opened = reader.get(get_link(page, OPEN_ROW))
    assert shown_rows(opened) == keys[::-1]
    assert "alice decided 4 calls: Approved" in visible_text(reader.get("/audit/?actor=alice"))
    assert shown_rows(reader.get("/audit/")) == [other[0], keys[-2], alone[0]]


def test_a_withdrawal_is_not_called_a_decision(reader: Client) -> None:
    call = make_call(session=make_session(session_id="order-0"), tool="pay", status=CallStatus.AWAITING_APPROVAL)
    happened(actor="bob", session=call.session, call_id=call.call_id, decision="withdraw")
    for number in range(1, 4):
        decide(number, "withdraw")
    words = visible_text(reader.get("/audit/"))
    assert "alice withdrew decisions about 3 calls" in words
    assert "bob withdrew the decision about “Pay" in words
    assert "” in order-0" in words


def test_decisions_at_different_times_have_rows_of_their_own(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_entry_pages, "_TIME_BETWEEN_DECISIONS", timedelta(0))
    keys = [pk for number in range(1, 3) for pk in decide(number)]
    assert shown_rows(reader.get("/audit/?runs=1")) == keys[::-1]


def move_back(key: int, time: timedelta) -> None:
    event = AuditEvent.objects.filter(pk=key)
    event.update(created_at=event.get().created_at - time)


def test_same_decision_about_calls_of_one_id_is_no_row_after_hours(reader: Client) -> None:
    keys = [
        happened(session=make_session(session_id=f"order-{number}"), call_id="pay", decision="approve").pk
        for number in range(2)
    ]
    move_back(keys[0], timedelta(hours=4))
    assert shown_rows(reader.get("/audit/")) == keys[::-1]


def test_decisions_about_one_call_are_not_counted_as_several_calls(reader: Client) -> None:
    session = make_session(session_id="order-1")
    keys = [happened(session=session, call_id="pay", step=1, decision="edit").pk for _ in range(2)]
    assert shown_rows(reader.get("/audit/")) == keys[::-1]
    other = happened(session=session, call_id="refund", step=1, decision="edit").pk
    assert shown_rows(reader.get("/audit/")) == [other, keys[0]]


@pytest.mark.parametrize(
    ("details", "sentence"),
    [
        ({"decision": "edit"}, "alice changed the arguments of 2 calls"),
        ({"decision": "edit", "args_restored": True}, "alice restored the original arguments of 2 calls"),
    ],
)
def test_row_of_changed_arguments_says_what_was_done(reader: Client, details: dict[str, Any], sentence: str) -> None:
    for number in range(2):
        happened(session=make_session(session_id=f"order-{number}"), call_id="pay", **details)
    assert sentence in visible_text(reader.get("/audit/"))


def test_row_that_spans_minutes_says_from_when_to_when(reader: Client) -> None:
    keys = [happened(AuditKind.SIGNED_IN, actor="bob").pk for _ in range(2)]
    for key, minute in zip(keys, (37, 41), strict=True):
        AuditEvent.objects.filter(pk=key).update(created_at=datetime(2026, 3, 4, 0, minute, 5, tzinfo=UTC))
    words = visible_text(reader.get("/audit/"))
    assert "bob signed in 2 times 00:37:05 to 00:41:05" in words


def test_page_views_are_hidden_and_counted_unless_wanted(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_entry_pages, "MAX_ENTRIES_PER_PAGE", 9)
    session = make_session(session_id="order-17")
    first = happened(session=session, call_id="call_9").pk
    keys = [happened(AuditKind.VIEWED, actor=f"a{number % 4}", session=session).pk for number in range(10)]
    audit.seal_events_of_workspace(make_workspace().pk)
    page = reader.get("/audit/?session=order-17")
    assert (shown_rows(page), "There are only page views here, and they are hidden." in visible_text(page)) == (
        [],
        True,
    )
    assert "9 page views are hidden on this page." in visible_text(page)
    last = reader.get(get_link(page, EARLIER))
    assert (shown_rows(last), "1 page view is hidden on this page." in visible_text(last)) == (
        [first],
        True,
    )
    shown = reader.get(f"/audit/{get_link(page, SHOW_VIEWS)}")
    assert shown_rows(shown) == keys[:0:-1]
    assert "Hide page views" in visible_text(shown)
    assert shown_rows(reader.get("/audit/?subject=reading&session=order-17")) == keys[:0:-1]
    AuditEvent.objects.filter(pk=keys[5]).update(actor="mallory")  # what is not intact is never hidden
    assert shown_rows(reader.get("/audit/?session=order-17")) == [keys[5]]
    assert len(lines(reader.get("/audit/export/?session=order-17"))) == 12


def happen_to_runs(*kinds: AuditKind, session: Session) -> list[int]:
    return [
        happened(kind, actor="run 2", actor_kind=ActorKind.MACHINE, session=session, pid=number).pk
        for number, kind in enumerate(kinds)
    ]


RESTART = (AuditKind.RUN_LOST, AuditKind.RUN_STARTED, AuditKind.SESSION_NEEDS_REVIEW)


SHOW_RUNS = r'href="([^"]+)">Show events of runs'


def test_events_of_runs_are_hidden_and_counted_unless_wanted(reader: Client) -> None:
    sessions = [make_session(session_id=f"charge-{number}") for number in range(3)]
    decided = happened(session=sessions[0], decision="approve", call_id="call_9").pk
    keys = [pk for session in sessions for pk in happen_to_runs(*RESTART, session=session)]
    taken = happened(AuditKind.TAKEOVER, actor="run 2", actor_kind=ActorKind.MACHINE, session=sessions[0]).pk
    audit.seal_events_of_workspace(make_workspace().pk)
    page = reader.get("/audit/")
    assert shown_rows(page) == [taken, decided]
    words = visible_text(page)
    assert "9 events of runs are hidden on this page." in words
    assert "9 hidden · #Not verified, number 11" in words
    assert "Some numbers are missing below because their entries are hidden." in words
    shown = reader.get(f"/audit/{get_link(page, SHOW_RUNS)}")
    assert shown_rows(shown) == [taken, keys[-1], decided]
    words = visible_text(shown)
    assert "Runs of 3 sessions caused 9 events Paused for a decision 3 · Run started 3 · Run lost 3" in words
    assert "Hide events of runs" in words
    assert shown_rows(reader.get(get_link(shown, OPEN_ROW))) == keys[::-1]
    assert shown_rows(reader.get("/audit/?session=charge-1")) == keys[5:2:-1]
    assert shown_rows(reader.get("/audit/?subject=sessions"))[-1] == keys[0]
    AuditEvent.objects.filter(pk=keys[4]).update(actor="mallory")  # what is not intact is never hidden
    assert shown_rows(reader.get("/audit/")) == [taken, keys[4], decided]


def test_subject_finds_what_people_and_tokens_did_among_many_entries(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded_entry_pages, "MAX_ENTRIES_PER_PAGE", 5)
    session = make_session(session_id="order-17")
    signed_in = happened(AuditKind.SIGNED_IN).pk
    decided = happened(actor="token ci", actor_kind=ActorKind.TOKEN, session=session, decision="approve").pk
    happened(AuditKind.VIEWED, session=session)
    happen_to_runs(*RESTART, *RESTART, session=session)
    page = reader.get("/audit/")
    assert shown_rows(page) == []
    acts = get_link(page, r'href="([^"]+)">Show what people and tokens did')
    assert shown_rows(reader.get(f"/audit/{acts}")) == [decided, signed_in]


def test_events_of_runs_of_one_session_are_one_row(reader: Client) -> None:
    keys = happen_to_runs(*RESTART, session=make_session(session_id="charge-8"))
    page = reader.get("/audit/?runs=1")
    assert shown_rows(page) == [keys[-1]]
    assert "Runs of charge-8 caused 3 events" in visible_text(page)
    page = reader.get("/audit/")
    assert (shown_rows(page), "There are only events of runs here, and they are hidden." in visible_text(page)) == (
        [],
        True,
    )


def test_events_of_different_runs_are_not_ascribed_to_one(reader: Client) -> None:
    for number in range(2):
        session = make_session(session_id=f"s{number}")
        happened(AuditKind.RUN_LOST, actor=f"run {number}", actor_kind=ActorKind.MACHINE, session=session)
    words = visible_text(reader.get("/audit/?runs=1"))
    assert "Runs of 2 sessions caused 2 events Run lost 2" in words


def test_row_says_what_is_hidden_among_its_entries(reader: Client) -> None:
    decide(1)
    decide(2)
    audit.seal_events_of_workspace(make_workspace().pk)
    words = visible_text(reader.get("/audit/"))
    assert "alice decided 2 calls: Approved" in words
    assert "1 hidden · #Not verified, number 1…3" in words


def test_equal_entries_are_one_row_whatever_is_hidden_between_them(reader: Client) -> None:
    session, keys = make_session(session_id="order-17"), []
    for _ in range(2):
        keys.append(happened(AuditKind.SIGNED_IN, actor="bob", method="password").pk)
        happened(AuditKind.VIEWED, actor="bob", session=session)
    audit.seal_events_of_workspace(make_workspace().pk)
    page = reader.get("/audit/?actor=bob")
    assert shown_rows(page) == [keys[1]]
    assert "bob signed in 2 times" in visible_text(page)
    assert "2 page views are hidden on this page." in visible_text(page)
    assert shown_rows(reader.get(get_link(page, OPEN_ROW))) == keys[::-1]
    assert len(shown_rows(reader.get("/audit/?actor=bob&views=1"))) == 4


def test_page_of_folded_entries_has_as_many_rows_as_any(reader: Client) -> None:
    sessions = [make_session(session_id=f"order-{number}") for number in range(4)]
    keys = [
        happened(AuditKind.EXCERPTED, actor=f"reader {number}", session=session).pk
        for number in range(folded_entry_pages.ROWS_PER_PAGE + 10)
        for session in sessions
    ]
    first = reader.get("/audit/?views=1")
    second = reader.get(get_link(first, EARLIER))
    newest_of_each = keys[3::4][::-1]
    assert shown_rows(first) == newest_of_each[: folded_entry_pages.ROWS_PER_PAGE]
    assert shown_rows(second) == newest_of_each[folded_entry_pages.ROWS_PER_PAGE :]
    assert 'rel="next"' not in second.content.decode()


def test_entries_of_one_page_are_bounded(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_entry_pages, "MAX_ENTRIES_PER_PAGE", 12)
    monkeypatch.setattr(folded_entry_pages, "_FIRST_BATCH", 5)
    keys = [happened(AuditKind.EXCERPTED, session=make_session(session_id=f"s{number}")).pk for number in range(24)]
    first = reader.get("/audit/?views=1")
    assert shown_rows(first) == [keys[23]]
    assert "alice saw excerpts of 12 sessions" in visible_text(first)
    happened(AuditKind.SIGNED_IN, actor="bob")  # entries that are added do not move the next page
    second = reader.get(get_link(first, EARLIER))
    assert shown_rows(second) == [keys[11]]
    assert "alice saw excerpts of 12 sessions" in visible_text(second)
    assert 'rel="next"' not in second.content.decode()


def test_opened_row_has_pages(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded_entry_pages, "ROWS_PER_PAGE", 5)
    keys = [happened(AuditKind.EXCERPTED, session=make_session(session_id=f"s{number}")).pk for number in range(8)]
    first = reader.get(get_link(reader.get("/audit/?subject=reading"), OPEN_ROW))
    assert shown_rows(first) == keys[:2:-1]
    assert shown_rows(reader.get(get_link(first, EARLIER))) == keys[2::-1]


def test_altered_entry_is_not_folded(reader: Client) -> None:
    keys = [happened(AuditKind.EXCERPTED, session=make_session(session_id=f"s{number}")).pk for number in range(7)]
    audit.seal_events_of_workspace(make_workspace().pk)
    AuditEvent.objects.filter(pk=keys[3]).update(created_at=timezone.now() + timedelta(hours=1))
    page = reader.get("/audit/?views=1")
    assert shown_rows(page) == [keys[6], keys[3], keys[2]]
    assert "This entry is not as it was recorded." in visible_text(page)


@pytest.mark.parametrize(
    ("kind", "differing", "sentence"),
    [
        (AuditKind.SESSION_DELETED, "session_id", "The clean-up of old versions deleted 3 sessions"),
        (AuditKind.RUN_STARTED, "pid", "Run 1 started in 3 sessions"),
        (AuditKind.VERIFY_REQUESTED, "call_id", "Run 1 asked to verify calls in 3 sessions"),
        (AuditKind.CALL_INTERRUPTED, "call_id", "Calls of pay were interrupted in 3 sessions"),
        (AuditKind.SESSION_QUARANTINED, "", "Run 1: Session quarantined in 3 sessions"),
        (AuditKind.COMMENTED, "call_id", ""),
        (AuditKind.DECIDED, "call_id", ""),
    ],
)
def test_facts_of_one_session_do_not_keep_entries_apart(
    reader: Client, kind: AuditKind, differing: str, sentence: str
) -> None:
    for number in range(3):
        details = {"tool": "pay"} | ({differing: f"{number}"} if differing else {})
        insert_unchained_events.record_event_of_workspace(
            "default",
            make_workspace().pk,
            kind,
            session_pk=make_session(session_id=f"s{number}").pk if differing != "session_id" else None,
            actor="retention" if differing == "session_id" else "run 1",
            actor_kind=ActorKind.MACHINE,
            details=details,
        )
    page = reader.get("/audit/?runs=1")
    assert len(shown_rows(page)) == (1 if sentence else 3)
    assert sentence in visible_text(page)


def test_repeated_entries_about_the_same_thing_say_how_often(reader: Client) -> None:
    for _ in range(4):
        happened(AuditKind.SIGN_IN_FAILED, actor="bob")
    session = make_session(session_id="order-17")
    for _ in range(3):
        happened(AuditKind.VIEWED, session=session)
    text = visible_text(reader.get("/audit/?views=1"))
    assert "A sign-in as bob failed 4 times" in text
    assert "alice read order-17 3 times" in text
