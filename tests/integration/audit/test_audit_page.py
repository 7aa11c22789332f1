"""The audit trail page: what its entries say, filters and pages."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from checkpoints import audit
from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditEvent, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.accounts.models import Invitation
from harness_site.audit import audit_trail_query, event_sentences, folded_entry_pages
from harness_site.audit.audit_trail_query import AuditSubject
from tests.integration.audit.audit_events import SWAP_DAYS, get_link, happened, lines
from tests.support.audit_entries import list_entries
from tests.support.client_login import sign_in
from tests.support.factories import make_call, make_decision, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


def test_entry_names_actor_action_and_object(reader: Client) -> None:
    session = make_session(session_id="order-17")
    happened(session=session, decision="approve_rerun", call_id="call_9")
    page = visible_text(reader.get("/audit/"))
    assert "alice decided a call in order-17" in page
    assert "One more run approved" in page
    assert "call id call_9" in page
    assert "no number yet" in page


def test_fork_is_one_sentence_with_both_sessions_and_no_keys(reader: Client) -> None:
    origin, fork = make_session(session_id="order-17"), make_session(session_id="order-17-fork")
    names: dict[str, Any] = {"origin": "order-17", "forked": "order-17-fork", "version": 3}
    happened(AuditKind.SESSION_FORKED, session=origin, other=fork.pk, **names)
    happened(AuditKind.SESSION_FORKED, session=fork, other=origin.pk, **names)
    happened(AuditKind.CALL_INTERRUPTED, session=fork, actor="fork", call_id="c", step=-1, attempt=1)
    page = reader.get("/audit/")
    words = visible_text(page)
    assert words.count("alice forked order-17 at v3 into order-17-fork") == 1
    assert f'href="/sessions/{origin.pk}/"' in page.content.decode()
    assert "A call was copied into order-17-fork: its outcome is unknown there too" in words
    assert "interrupted in" not in words
    assert "version copied from the original" in words
    assert "version -1" not in words
    happened(AuditKind.SESSION_FORKED, session=fork, other=origin.pk, **names)
    alone = visible_text(reader.get("/audit/", {"session": "order-17"}))
    assert "alice forked order-17 at v3 into order-17-fork" in alone
    assert f"other {origin.pk}" not in alone


def test_entry_names_the_token_label_and_invitation_that_it_is_about(reader: Client) -> None:
    admin = sign_in(Client(), make_user(name="dora", role=Role.ADMIN))
    session = make_session(session_id="order-17")
    admin.post("/settings/tokens/create/", {"name": "nightly", "role": "agent", "days": ""})
    admin.post("/settings/invitations/", {"role": "auditor", "note": "Eve from audit"})
    invitation = Invitation.objects.get()
    admin.post(f"/settings/invitations/{invitation.pk}/revoke/")
    happened(AuditKind.LABELLED, session=session, added="urgent")
    happened(AuditKind.LABELLED, session=session, removed="urgent")
    page = visible_text(reader.get("/audit/"))
    assert "dora created the API token nightly" in page
    assert "dora created the invitation “Eve from audit” with the role Auditor" in page
    assert "dora revoked the invitation “Eve from audit” with the role Auditor" in page
    assert "alice added the label “urgent” to order-17" in page
    assert "alice removed the label “urgent” from order-17" in page


def test_entries_say_what_a_changed_call_was_to_do_at_their_time(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(
        session=session,
        call_id="pay",
        args={"amount": 5},
        sentence="Pay 5 EUR",
        sentence_template="Pay {amount} EUR",
        asked_args_digest="a" * 64,
    )
    happened(AuditKind.APPROVAL_REQUESTED, session=session, call_id="pay")
    for revision, (amount, actor) in enumerate(((51, "alice"), (50, "bob"))):
        time.sleep(0.002)  # times of the database have milliseconds, and each change is later than the entry before it
        evidence = to_canonical_json({"args_before": to_canonical_json({"amount": amount})})
        make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence, revision=revision)
        happened(session=session, actor=actor, decision="edit", call_id="pay")
    happened(AuditKind.COMMENTED, session=session, call_id="pay")
    page = visible_text(reader.get("/audit/"))
    assert "alice asked for the approval of “Pay 51 EUR” in order-17" in page
    assert "alice changed “Pay 51 EUR” to “Pay 50 EUR” in order-17" in page
    assert "bob changed “Pay 50 EUR” to “Pay 5 EUR” in order-17" in page
    assert "alice added a comment to “Pay 5 EUR” in order-17" in page


def test_arguments_before_a_change_are_named_in_the_order_of_the_caller(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(session=session, call_id="pay", tool="pay", args={"to": "ann", "amount": 5})
    evidence = to_canonical_json({"args_before": to_canonical_json({"to": "ann", "amount": 6})})
    happened(AuditKind.APPROVAL_REQUESTED, session=session, call_id="pay")
    make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence)
    happened(session=session, decision="edit", call_id="pay")
    assert "changed “Pay: to ann, amount 6” to “Pay: to ann, amount 5”" in visible_text(reader.get("/audit/"))


def test_entry_about_a_call_says_what_the_call_does_and_leads_to_it(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(
        session=session, call_id="call_9", sentence="Refund 40.00 EUR with sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    )
    make_call(session=session, call_id="call_9", attempt=2, sentence="Refund 1.00 EUR")
    votes = make_call(session=session, call_id="wire", step=5, approvals=2, sentence="Wire 9.00 EUR for “lamps”")
    key = f"{INTERRUPT_KEY_PREFIX}q:0"
    make_call(session=session, call_id="q", tool=INTERRUPT_TOOL, idempotency_key=key, args={"value": "Which port?"})
    happened(session=session, decision="approve_rerun", call_id="call_9", step=call.step, attempt=1)
    happened(session=session, decision="approve", call_id="wire")
    happened(session=session, decision="respond", call_id="q")
    happened(AuditKind.APPROVAL_REQUESTED, session=session, call_id="q")
    happened(AuditKind.CALL_DISCARDED, session=session, call_id="q")
    happened(AuditKind.COMMENTED, session=session, call_id="gone")
    response = reader.get("/audit/")
    page = visible_text(response)
    assert "alice decided “Refund 40.00 EUR with ‹masked›” in order-17: One more run approved" in page
    assert f'href="/review/calls/{call.pk}/"' in response.content.decode()
    assert "alice decided “Wire 9.00 EUR for ‘lamps’” in order-17: Approved" in page
    assert f'href="/review/calls/{votes.pk}/"' in response.content.decode()
    assert re.search(r"alice decided “.*Which port\?” in order-17: Answered Details", page)
    assert re.search(r"alice asked a question in order-17: “.*Which port\?”", page)
    assert re.search(r"A question was withdrawn in order-17: “.*Which port\?”", page)
    assert "discarded" not in page
    assert "alice added a comment to a call in order-17" in page
    assert [entry[2] for entry in list_entries("excerpted")] == [{"page": "audit"}]


@pytest.mark.parametrize(
    ("decision", "status", "consequence"),
    [
        (DecisionKind.APPROVE, CallStatus.APPROVED, "It was allowed to run and has not run."),
        (DecisionKind.APPROVE, CallStatus.COMPLETED, "It ran."),
        (DecisionKind.APPROVE, CallStatus.REJECTED, "It was allowed to run."),
        (DecisionKind.REJECT, CallStatus.REJECTED, "It does not run."),
        (DecisionKind.EDIT, CallStatus.AWAITING_APPROVAL, "It still waited for an approval."),
        (DecisionKind.MARK_FAILED, CallStatus.FAILED, "It counts as failed and does not run again."),
        (DecisionKind.APPROVE_RERUN, CallStatus.SUPERSEDED, "It ran once more."),
    ],
)
def test_entry_of_a_decision_says_whether_the_call_runs(
    reader: Client, decision: DecisionKind, status: CallStatus, consequence: str
) -> None:
    call = make_call(session=make_session(session_id="order-17"), call_id="pay", sentence="Pay 5 EUR", status=status)
    make_decision(call=call, kind=decision)
    happened(session=call.session, decision=decision, call_id="pay")
    assert f" {consequence} Details" in visible_text(reader.get("/audit/"))


def test_entry_of_a_vote_says_that_the_call_still_waits(reader: Client) -> None:
    call = make_call(
        session=make_session(session_id="order-17"),
        call_id="pay",
        sentence="Pay 5 EUR",
        status=CallStatus.COMPLETED,
        approvals=2,
    )
    for actor, final in (("alice", False), ("bob", True)):
        make_decision(call=call, kind=DecisionKind.APPROVE, actor=actor, final=final, revision=int(final))
        happened(session=call.session, actor=actor, decision="approve", call_id="pay")
    page = visible_text(reader.get("/audit/"))
    assert re.search("alice decided .* Approved\\. It still waited: another person had to decide the same.", page)
    assert re.search("bob decided “Pay 5 EUR” in order-17: Approved\\. It ran\\.", page)


def test_session_is_found_by_its_number_and_nearly_right_ids_are_suggested(reader: Client) -> None:
    session = make_session(session_id="orphaned-stock-sync")
    happened(session=session)
    assert "orphaned-stock-sync" in visible_text(reader.get(f"/audit/?session={session.pk}"))
    page = reader.get("/audit/?session=stock-sync&subject=decisions")
    assert "Did you mean: orphaned-stock-sync Session" in visible_text(page)
    assert 'href="?session=orphaned-stock-sync&amp;subject=decisions"' in page.content.decode()


def test_actor_that_is_nearly_right_is_suggested(reader: Client) -> None:
    happened(actor="alice")
    happened(actor="run 7", actor_kind=ActorKind.MACHINE)
    page = reader.get("/audit/?actor=alic&subject=decisions")
    assert "Did you mean: alice Actor" in visible_text(page)
    assert 'href="?actor=alice&amp;subject=decisions"' in page.content.decode()
    assert "Did you mean" not in visible_text(reader.get("/audit/?actor=run"))


def test_entry_leads_to_the_decision_page_while_the_call_waits_and_to_its_record_afterwards(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(session=session, call_id="pay", sentence="Pay 5 EUR")
    happened(AuditKind.CALL_INTERRUPTED, session=session, call_id="pay")
    assert f'<a href="/review/calls/{call.pk}/" dir="auto">' in reader.get("/audit/").content.decode()
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED)
    page = reader.get("/audit/").content.decode()
    assert f'<a href="/sessions/{session.pk}/calls/{call.pk}/" dir="auto">' in page
    assert "/review/calls/" not in page


@pytest.mark.parametrize(
    ("kind", "details", "sentence", "about_several"),
    [
        (AuditKind.SESSION_FINISHED, {"status": "completed"}, "Run 1 finished {}", "Run 1 finished {}"),
        (AuditKind.SESSION_FINISHED, {"status": "cancelled"}, "Run 1 cancelled {}", "Run 1 cancelled {}"),
        (AuditKind.SESSION_FINISHED, {"status": "failed"}, "Run 1 ended {} as failed", "Run 1 ended {} as failed"),
        (
            AuditKind.SESSION_FINISHED,
            {"status": "cancelled", "reason": "no_result"},
            "Run 1 closed {}: its transcript ended without the result of a call",
            "Run 1 closed {}: their transcripts ended without the result of a call",
        ),
        (AuditKind.SESSION_IMPORTED, {"format": "codex"}, "{} was imported", "{} were imported"),
        (
            AuditKind.SESSION_IMPORTED,
            {"prices": "2026"},
            "The cost of {} was estimated from the price table 2026",
            "The costs of {} were estimated from the price table 2026",
        ),
    ],
)
def test_end_and_import_of_sessions_are_named_for_what_they_were(
    reader: Client, kind: AuditKind, details: dict[str, Any], sentence: str, about_several: str
) -> None:
    sessions = [make_session(session_id=f"order-{number}") for number in range(4)]
    happened(kind, actor="run 1", actor_kind=ActorKind.MACHINE, session=sessions[0], **details)
    assert f"{sentence.format('order-0')} " in visible_text(reader.get("/audit/?runs=1"))
    for session in sessions[1:]:
        happened(kind, actor="run 1", actor_kind=ActorKind.MACHINE, session=session, **details)
    assert f"{about_several.format('4 sessions')} " in visible_text(reader.get("/audit/?runs=1"))


def test_entries_of_another_workspace_are_not_shown(reader: Client) -> None:
    identity_provider = make_workspace(slug="elsewhere")
    happened(
        actor="mallory",
        workspace=identity_provider,
        session=make_session(workspace=identity_provider, session_id="theirs"),
        call_id="call_77",
    )
    for path in ("/audit/", "/audit/?session=theirs", "/audit/?actor=mallory", "/audit/export/"):
        response: Any = reader.get(path)
        text = (response.getvalue() if response.streaming else response.content).decode()
        assert "call_77" not in text


def test_deleted_session_is_not_linked(reader: Client) -> None:
    session = make_session(session_id="order-17")
    happened(session=session, session_id="order-17")
    pk = session.pk
    Session.objects.filter(pk=pk).update(head_segment=None)
    session.segments.all().delete()
    Session.objects.filter(pk=pk).delete()
    page = reader.get("/audit/").content.decode()
    assert f"/sessions/{pk}/" not in page
    assert "order-17" in page


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["bob", "carol", "alice"]),
        ("subject=access", ["bob"]),
        ("subject=decisions", ["alice"]),
        ("subject=reading", ["carol"]),
        ("subject=nonsense", ["bob", "carol", "alice"]),
        ("actor=alice", ["alice"]),
        ("actor=ali", []),
        ("session=order-17", ["alice"]),
        ("session=order-18", []),
        ("session=order-1", ["alice"]),
        ("session=rder-1", []),
        ("actor=%00", []),
        ("session=%00", []),
        ("first=2001-01-01", ["bob", "carol", "alice"]),
        ("last=2001-01-01", []),
        ("first=2999-01-01", []),
        ("first=junk&last=9999-12-31", ["bob", "carol", "alice"]),
    ],
)
def test_filters(reader: Client, query: str, shown: list[str]) -> None:
    happened(session=make_session(session_id="order-17"))
    happened(AuditKind.EXPORTED, actor="carol")
    happened(AuditKind.SIGNED_IN, actor="bob")
    page = reader.get(f"/audit/?{query}").content.decode()
    assert re.findall(r"<p>.*?<b>(\w+)</b>", page) == shown
    assert ('<a class="btn" href="/audit/">Show all entries</a>' in page) == (not shown)


@pytest.mark.parametrize(
    ("query", "sentences"),
    [
        ("subject=nope&first=abc", ["“nope” is not a subject", "“abc” is not a day or a time"]),
        ("last=2026-02-30", ["“2026-02-30” is not a day or a time"]),
        ("subject=decisions&first=2026-11-01&actor=alice", []),
    ],
)
def test_page_says_which_filters_are_invalid(reader: Client, query: str, sentences: list[str]) -> None:
    happened()
    page = visible_text(reader.get(f"/audit/?{query}"))
    assert re.findall(r"(“[^”]+” is not a [a-z ]+), so it does not filter", page) == sentences
    assert "alice decided a call" in page


def test_page_of_a_reversed_range_offers_to_swap_its_days(reader: Client) -> None:
    happened()
    page = reader.get("/audit/?actor=alice&first=2099-11-29&last=2020-11-01&zone=UTC")
    assert "No entry matches, because the start is after the end." in visible_text(page)
    swapped = reader.get(f"/audit/{get_link(page, SWAP_DAYS)}")
    assert "alice decided a call" in visible_text(swapped)


def test_complete_session_id_selects_no_longer_ids(reader: Client) -> None:
    happened(session=make_session(session_id="order-17"), actor="bob")
    happened(session=make_session(session_id="order-1"), actor="carol")
    page = reader.get("/audit/?session=order-1").content.decode()
    assert re.findall(r"<p>.*?<b>(\w+)</b>", page) == ["carol"]


def test_actors_of_the_page_and_members_are_offered(reader: Client) -> None:
    happened(actor="zoe")
    happened(AuditKind.RUN_STARTED, actor="run 1", actor_kind=ActorKind.MACHINE, session=make_session())
    page = reader.get("/audit/").content.decode()
    offered = re.findall(
        r'<option value="([^"]*)">', page.partition('<datalist id="actors">')[2].partition("</datalist>")[0]
    )
    assert offered == ["carol", "zoe"]


def test_date_range_includes_both_days(reader: Client) -> None:
    event = happened()
    noon = clock.now().replace(hour=12, minute=0) - timedelta(days=10)
    AuditEvent.objects.filter(pk=event.pk).update(created_at=noon)
    day = f"{noon:%Y-%m-%d}"
    assert "alice decided a call" in visible_text(reader.get(f"/audit/?first={day}&last={day}"))
    before = f"{noon - timedelta(days=1):%Y-%m-%d}"
    assert "alice decided a call" not in visible_text(reader.get(f"/audit/?last={before}"))


def test_each_day_has_one_heading_and_its_entries_only_the_time(reader: Client) -> None:
    times = [datetime(2026, 2, day, hour, 30, 15, tzinfo=UTC) for day, hour in ((3, 9), (4, 8), (4, 10), (4, 23))]
    for number, at in enumerate(times):
        AuditEvent.objects.filter(pk=happened(actor=f"a{number}").pk).update(created_at=at)
    reader.cookies["harness_zone"] = "Europe/Berlin"
    page = reader.get("/audit/").content.decode()
    found = re.findall(r'<li class="day"><h2>([^<]+)|data-time="at">([^<]+)', page)
    assert [heading or time for heading, time in found if heading != "Today"][-7:] == [
        "Thu 5 Feb 2026", "00:30:15", "Wed 4 Feb 2026", "11:30:15", "09:30:15", "Tue 3 Feb 2026", "10:30:15",
    ]  # fmt: skip


def test_every_kind_has_one_subject() -> None:
    subjects = set(AuditSubject) - {AuditSubject.ACTS}
    kinds = [kind for subject in subjects for kind in audit_trail_query.get_audit_kinds_of_subject(subject)]
    assert sorted(kinds) == sorted(AuditKind)


def test_pages_are_consecutive(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [happened(actor=f"a{number}").pk for number in range(folded_entry_pages.ROWS_PER_PAGE + 20)]
    first = reader.get("/audit/?actor=").content.decode()
    found = re.search(r'rel="next" href="([^"]+)"', first)
    assert found
    second = reader.get(found[1].replace("&amp;", "&")).content.decode()
    shown = [int(key) for page in (first, second) for key in re.findall(r'id="entry-(\d+)"', page)]
    assert shown == keys[::-1]
    assert 'rel="next"' not in second


def test_entry_of_a_decision_has_the_reason_that_is_stored_with_the_decision(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(session=session, call_id="pay", approvals=2)
    for revision, (kind, actor) in enumerate(
        ((DecisionKind.APPROVE, "alice"), (DecisionKind.WITHDRAW, "alice"), (DecisionKind.APPROVE, "alice"))
    ):
        reason = f"Reason {revision} with sk_live_4eC39HqLyjWDarjtT1zdp7dc"
        make_decision(call=call, kind=kind, actor=actor, reason=reason, revision=revision, final=False)
        happened(session=session, actor=actor, decision=kind, call_id="pay")
        time.sleep(0.002)  # times of the database have milliseconds
    happened(session=session, actor="bob", decision="approve", call_id="pay")
    happened(AuditKind.COMMENTED, session=session, call_id="pay")
    page = visible_text(reader.get("/audit/"))
    assert re.findall(r"Reason: “(Reason \d) with ‹masked›”", page) == ["Reason 2", "Reason 1", "Reason 0"]
    assert page.count("It is stored with the decision, not in this entry.") == 3


def test_reason_of_another_decision_is_not_shown_for_one_whose_row_is_gone(reader: Client) -> None:
    session = make_session(session_id="order-17")
    call = make_call(session=session, call_id="pay")
    make_decision(call=call, kind=DecisionKind.APPROVE, created_at=timezone.now() - timedelta(hours=1))
    happened(session=session, decision="approve", call_id="pay")
    assert "Seen in the bank" not in visible_text(reader.get("/audit/"))


def test_long_reason_is_whole_in_the_details(reader: Client) -> None:
    session = make_session(session_id="order-17")
    make_decision(
        call=make_call(session=session, call_id="pay"), kind=DecisionKind.APPROVE, reason="word " * 99 + "end"
    )
    happened(session=session, decision="approve", call_id="pay")
    page = visible_text(reader.get("/audit/"))
    assert (page.count("word"), page.count("word end It is stored")) == (131, 1)


@pytest.mark.parametrize("decisions", [1, 12])
def test_query_count_is_independent_of_the_reasons(
    reader: Client, decisions: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(decisions):
        session = make_session(session_id=f"order-{number}")
        make_decision(call=make_call(session=session, call_id="pay"), kind=DecisionKind.APPROVE, actor=f"a{number}")
        happened(session=session, actor=f"a{number}", decision="approve", call_id="pay")
    audit.seal_events_of_workspace(make_workspace().pk)
    with django_assert_num_queries(17):
        reader.get("/audit/")


@pytest.mark.parametrize("before", ["x", "-1", "9" * 40, "", "1e3"])
def test_invalid_cursor_shows_the_first_page(reader: Client, before: str) -> None:
    happened()
    assert "alice decided a call" in visible_text(reader.get("/audit/", {"before": before}))


@pytest.mark.parametrize("count", [1, 30])
def test_query_count_is_independent_of_the_entries(
    reader: Client, count: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    session = make_session()
    for _ in range(count):
        happened(session=session)
    audit.seal_events_of_workspace(make_workspace().pk)
    with django_assert_num_queries(11):
        reader.get("/audit/")


def test_text_is_escaped(reader: Client) -> None:
    happened(actor="<script>alert(1)</script>", tool="<img src=x onerror=alert(1)>")
    page = reader.get("/audit/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_secret_in_the_details_is_masked(reader: Client) -> None:
    happened(call_id="sk_live_4eC39HqLyjWDarjtT1zdp7dc", token_name="ci")
    assert "sk_live" not in visible_text(reader.get("/audit/"))
    assert "sk_live" not in str(lines(reader.get("/audit/export/")))


def test_every_kind_has_a_sentence(reader: Client) -> None:
    for kind in AuditKind:
        happened(kind, session=make_session(session_id=kind))
    happened(AuditKind.SESSION_DELETED, session_id="gone-17")
    newest = reader.get("/audit/")
    found = re.search(r'rel="next" href="([^"]+)"', newest.content.decode())
    assert found
    assert "alice deleted gone-17" in visible_text(newest)
    assert "alice started session_started" in visible_text(reader.get(found[1].replace("&amp;", "&")))
    assert all(str(kind) in event_sentences._SENTENCES for kind in AuditKind)
