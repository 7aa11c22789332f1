"""The audit trail page."""

import csv
import io
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import models
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from checkpoints import audit
from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.models import AuditChain, AuditEvent, IntegrityCheck, Session, ToolCall, Workspace
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from checkpoints.seals.decision_keys import create_key_pair
from harness_site.accounts.models import Invitation
from harness_site.audit import audit_trail_query, event_sentences, folded_entry_pages
from harness_site.audit.audit_trail_query import AuditSubject
from harness_site.site_address import build_absolute_url
from tests.support.audit_entries import list_entries
from tests.support.client_login import sign_in
from tests.support.factories import make_call, make_decision, make_session, make_user, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> Client:
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    return client


def happened(
    kind: AuditKind = AuditKind.DECIDED,
    *,
    actor: str = "alice",
    actor_kind: ActorKind = ActorKind.PERSON,
    session: Session | None = None,
    workspace: Workspace | None = None,
    **details: Any,
) -> AuditEvent:
    insert_unchained_events.record_event_of_workspace(
        "default",
        (workspace or make_workspace()).pk,
        kind,
        session_pk=session.pk if session else None,
        actor=actor,
        actor_kind=actor_kind,
        details=details,
    )
    return AuditEvent.objects.latest("pk")


def lines(response: Any) -> list[list[str]]:
    assert isinstance(response, StreamingHttpResponse)
    rows = list(csv.reader(io.StringIO(response.getvalue().decode())))
    assert rows[-1][-1] == f"rows: {len(rows) - 1}, complete"
    return [row[:-1] for row in rows]


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


def test_sealed_entry_shows_its_number(reader: Client) -> None:
    happened()
    audit.seal_events_of_workspace(make_workspace().pk)
    assert "#Not verified, number 1" in visible_text(reader.get("/audit/"))


def test_an_entry_has_the_mark_of_a_verified_one_only_after_a_verification(reader: Client) -> None:
    happened()
    audit.seal_events_of_workspace(make_workspace().pk)
    entry = '<span class="seal small">'
    assert "shield-check" not in reader.get("/audit/").content.decode().partition(entry)[2].partition("</li>")[0]
    reader.post("/audit/verify/")
    assert "shield-check" in reader.get("/audit/").content.decode().rpartition(entry)[2].partition("</li>")[0]


def test_changed_entry_is_marked(reader: Client) -> None:
    for _ in range(3):
        happened()
    audit.seal_events_of_workspace(make_workspace().pk)
    AuditEvent.objects.filter(number=2).update(actor="mallory")
    page = reader.get("/audit/")
    assert visible_text(page).count("This entry is not as it was recorded.") == 1
    assert page.content.decode().count('class="altered"') == 1


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


def shown_rows(page: Any) -> list[int]:
    return [int(key) for key in re.findall(r'id="entry-(\d+)"', page.content.decode())]


def get_link(page: Any, pattern: str) -> str:
    found = re.search(pattern, page.content.decode())
    assert found
    return found[1].replace("&amp;", "&")


OPEN_ROW = r'hx-get="(/audit/[^"]+)"'
SHOW_VIEWS = r'href="([^"]+)">Show page views'
SWAP_DAYS = r'href="([^"]+)">Swap the two days'
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


class TestVerification:
    def test_result_is_shown_and_recorded(self, reader: Client, settings: Settings) -> None:
        settings.HARNESS_SEAL_KEY = "5e" * 32
        for _ in range(3):
            happened()
        assert "Not verified yet" in visible_text(reader.get("/audit/"))
        assert reader.post("/audit/verify/").headers["Location"] == "/audit/"
        page = visible_text(reader.get("/audit/"))
        outcome = "The first 3 of 4 entries are as they were recorded. Checked just now. The audit trail has no"
        assert f"Verified {outcome}" in page
        happened()
        page = visible_text(reader.get("/audit/"))
        outcome = (
            "The first 3 of 5 entries are as they were recorded. Checked just now. 2 newer entries are not verified"
        )
        assert re.search(rf"Verified up to [\d: -]+ {outcome} yet\. The audit trail has no witness\.", page)
        assert "No verification starts by itself. “Verify now” verifies all entries up to the newest" in page
        assert f"3:{AuditEvent.objects.get(number=3).seal}" in page
        assert list_entries("audit_verified") == [("audit_verified", "carol", {"checked": 3, "flaws": 0})]

    @pytest.mark.unsealed("it is about a site without seals")
    def test_without_a_seal_key_only_the_chain_of_digests_is_verified(self, reader: Client) -> None:
        for _ in range(3):
            happened()
        reader.post("/audit/verify/")
        response = reader.get("/audit/")
        page = visible_text(response)
        assert (
            "Chain of digests verified The first 3 of 4 entries match their digests, and none of them is missing"
            in page
        )
        assert "as they were recorded" not in page
        assert "whoever can write to this database can change an entry and compute the chain anew" in page
        assert "docs/integrity.md" in page
        assert '<span class="chip ok">' not in response.content.decode()
        assert "number and a seal" not in page

    def test_flaw_is_shown_until_it_is_repaired(self, reader: Client) -> None:
        for _ in range(3):
            happened()
        audit.seal_events_of_workspace(make_workspace().pk)
        AuditEvent.objects.filter(number=2).delete()
        reader.post("/audit/verify/")
        assert "Not intact Entry 2 is missing." in visible_text(reader.get("/audit/"))


class TestExport:
    def test_export_contains_all_matching_entries_newest_first(self, reader: Client, settings: Settings) -> None:
        settings.HARNESS_SEAL_KEY = "5e" * 32
        happened(session=make_session(session_id="order-17"), call_id="call_9")
        happened(AuditKind.SIGNED_IN, actor="bob")
        audit.seal_events_of_workspace(make_workspace().pk)
        response = reader.get("/audit/export/?actor=alice")
        assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert re.fullmatch(
            r'attachment; filename="audit-default-\d{4}-\d\d-\d\d.csv"', response.headers["Content-Disposition"]
        )
        head, *rows = lines(response)
        assert head == [
            "number",
            "time",
            "what",
            "kind",
            "who",
            "who_kind",
            "session",
            "details",
            "matches_chain",
            "matches_seal",
            "sentence",
            "decision",
            "reason",
            "tool",
            "what_it_does",
            "page",
        ]
        assert [row[2:10] for row in rows] == [
            ["Call decided", "decided", "alice", "person", "order-17", '{"call_id": "call_9"}', "yes", "yes"]
        ]

    def test_export_says_in_words_what_was_decided_and_why(self, reader: Client) -> None:
        """Each decision has its own sentence and reason, as on the page, and the address of its call."""
        session = make_session(session_id="invoice-77120")
        args = {"invoice": "77120", "password": "pw-4711"}
        call = make_call(session=session, call_id="c2", tool="pay", args=args, sentence="Pay “77120”", approvals=2)
        for revision, (actor, reason, final) in enumerate(
            (("alice", "The goods arrived & are <complete>.", False), ("bob", "IBAN compared: pw-4711", True))
        ):
            make_decision(
                call=call, kind=DecisionKind.APPROVE, actor=actor, reason=reason, revision=revision, final=final
            )
            happened(session=session, actor=actor, decision="approve", call_id="c2")
        happened(AuditKind.SESSION_READY, session=session, actor="gate", actor_kind=ActorKind.MACHINE)
        happened(AuditKind.SIGNED_IN, actor="bob")
        head, *rows = lines(reader.get("/audit/export/", headers={"accept-language": "de"}))
        signed_in, ready, of_bob, of_alice = (dict(zip(head[10:], row[10:], strict=True)) for row in rows[1:])
        address = build_absolute_url(f"/sessions/{session.pk}/")
        assert of_alice == {
            "sentence": "alice decided “Pay ‘77120’” in invoice-77120: Approved",
            "decision": "Approved",
            "reason": "The goods arrived & are <complete>.",
            "tool": "pay",
            "what_it_does": "Pay “77120”",
            "page": f"{address}calls/{call.pk}/",
        }
        assert of_bob["reason"] == "IBAN compared: ‹masked›"
        assert ready["sentence"] == "All calls of invoice-77120 are decided: it can continue"
        assert (ready["decision"], ready["reason"], ready["tool"], ready["page"]) == ("", "", "", address)
        assert (signed_in["sentence"], signed_in["page"]) == ("bob signed in", "")

    def test_export_says_of_an_entry_without_a_number_nothing_about_its_digest(
        self, reader: Client, settings: Settings
    ) -> None:
        settings.HARNESS_SEAL_KEY = "5e" * 32
        happened(actor="bob")
        audit.seal_events_of_workspace(make_workspace().pk)
        happened(actor="bob")
        _head, *rows = lines(reader.get("/audit/export/?actor=bob"))
        assert [(row[0], *row[8:10]) for row in rows] == [("", "", "yes"), ("1", "yes", "yes")]

    @pytest.mark.unsealed("it is about a site without seals")
    def test_export_without_a_seal_key_says_that_digests_match_and_nothing_about_seals(self, reader: Client) -> None:
        happened(actor="bob")
        audit.seal_events_of_workspace(make_workspace().pk)
        _head, *rows = lines(reader.get("/audit/export/?actor=bob"))
        assert [row[8:10] for row in rows] == [["yes", ""]]

    def test_export_is_recorded_with_its_filters(self, reader: Client) -> None:
        lines(reader.get("/audit/export/?actor=alice&first=2001-01-01&subject=tokens"))
        assert list_entries() == [
            (
                "exported",
                "carol",
                {"what": "audit trail", "actor": "alice", "first": "2001-01-01", "zone": "UTC", "subject": "tokens"},
            )
        ]

    def test_long_export_is_read_in_batches(self, reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(audit_trail_query, "_CHUNK", 4)
        for number in range(11):
            happened(actor=f"a{number}")
        rows = lines(reader.get("/audit/export/?subject=decisions"))[1:]
        assert [row[4] for row in rows] == [f"a{number}" for number in reversed(range(11))]

    @pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x"])
    def test_cells_start_no_formula(self, reader: Client, start: str) -> None:
        happened(actor=f'{start},\n"quoted"')
        row = lines(reader.get("/audit/export/?subject=decisions"))[1]
        assert row[4] == f'\'{start},\n"quoted"'

    def test_changed_entry_is_marked_in_the_export(self, reader: Client) -> None:
        happened()
        audit.seal_events_of_workspace(make_workspace().pk)
        AuditEvent.objects.update(actor="mallory")
        assert lines(reader.get("/audit/export/?subject=decisions"))[1][8] == "NO"


def test_page_shows_whether_decisions_are_signed(reader: Client, settings: Settings) -> None:
    settings.HARNESS_DECISION_SIGNING_KEY = ""
    assert "Decisions of people are not signed" in visible_text(reader.get("/audit/"))
    keys = create_key_pair()
    settings.HARNESS_DECISION_SIGNING_KEY = keys.signing
    assert f"Decisions of people are signed with the key {keys.key_id}." in visible_text(reader.get("/audit/"))


@pytest.mark.unsealed("it is about a site without seals")
def test_page_without_keys_says_that_rows_are_not_sealed(reader: Client, settings: Settings) -> None:
    for _ in range(2):  # before a verification, which compares digests, and after it
        page = visible_text(reader.get("/audit/"))
        assert "Stored rows: not sealed" in page
        assert "only changed texts whose digests do not match are noticed" in page
        call_command("verify_integrity", "--all", stdout=io.StringIO(), stderr=io.StringIO())
    settings.HARNESS_SEAL_KEY = "5e"
    assert "Stored rows: not sealed" not in visible_text(reader.get("/audit/"))


@pytest.mark.parametrize("is_chained", [False, True])
@pytest.mark.parametrize("forged", [{"actor": "mallory"}, {"row_seal": None}], ids=["altered", "invented"])
def test_entry_that_does_not_match_its_keyed_seal_is_marked(
    reader: Client, settings: Settings, forged: dict[str, Any], is_chained: bool
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    pks = [happened().pk for _ in range(3)]
    models.QuerySet(AuditEvent).filter(pk=pks[1]).update(**forged)
    if is_chained:  # by somebody who computes the chain, which has no key
        audit.seal_events_of_workspace(make_workspace().pk)
    assert visible_text(reader.get("/audit/")).count("This entry is not as it was recorded.") == 1


def test_page_shows_the_last_integrity_verification(reader: Client, settings: Settings) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    assert "python manage.py verify_integrity --all" in visible_text(reader.get("/audit/"))
    check = IntegrityCheck.objects.create(workspace=make_workspace(), sessions=2, rows=1500)
    page = visible_text(reader.get("/audit/"))
    assert "verification not finished" in page
    assert "1,500 rows of 2 sessions" in page
    check.finished = True
    check.save()
    assert "Stored rows: verified" in visible_text(reader.get("/audit/"))
    check.problems, check.named = 1, '[{"session": "order-17", "table": "checkpoints_toolcall", "row": "5 (pay)"}]'
    check.save()
    page = visible_text(reader.get("/audit/"))
    assert "1 row is not as it was written." in page
    assert "order-17" in page
    check.named = "[1, damaged"
    check.save()
    assert "1 row is not as it was written." in visible_text(reader.get("/audit/"))


@pytest.mark.parametrize(
    ("forged", "named"),
    [
        ({"problems": 0}, "was altered"),
        ({"finished": True}, "was altered"),
        ({"rows": 10**6}, "was altered"),
        ({"reached_at": timezone.now()}, "was altered"),
        ({"row_seal": None}, "has no seal"),
    ],
)
def test_page_names_a_forged_report_of_the_integrity_verification(
    reader: Client, settings: Settings, forged: dict[str, Any], named: str
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    IntegrityCheck.objects.create(workspace=make_workspace(), sessions=2, rows=1500, problems=3)
    assert "3 rows are not as they were written" in visible_text(reader.get("/audit/"))
    QuerySet(IntegrityCheck).update(**forged)

    page = visible_text(reader.get("/audit/"))
    assert "report not genuine" in page
    assert f"The stored report of the last verification {named}" in page
    assert "Stored rows: verified" not in page
    settings.HARNESS_SEAL_KEY = "a1" * 32
    if "row_seal" not in forged:
        assert "sealed with a key that this site does not have" in visible_text(reader.get("/audit/"))


@pytest.mark.parametrize(
    ("forged", "named"),
    [
        ({"problem": ""}, "was altered"),
        ({"problem": "", "row_seal": None}, "has no seal"),
        ({"problem": "", "verified_number": 5}, "was altered"),
        ({"verified_at": None}, "was altered"),
        ({"verified_at": timezone.now()}, "was altered"),
    ],
)
def test_page_names_a_forged_report_of_the_audit_verification(
    reader: Client, settings: Settings, forged: dict[str, Any], named: str
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    session = make_session()
    happened(session=session)
    audit.seal_events_of_workspace(make_workspace().pk)
    QuerySet(AuditEvent).update(actor="mallory")
    assert not audit.seal_and_verify_chain_and_store_result(make_workspace().pk).is_intact
    assert "Report not genuine" not in visible_text(reader.get("/audit/"))
    QuerySet(AuditChain).update(**forged)

    for page in ("/audit/", f"/sessions/{session.pk}/history/"):
        text = visible_text(reader.get(page))
        assert "Report not genuine" in text
        assert f"The stored report of the last verification {named}" in text
        assert "Not intact" not in text
        assert "Verified" not in text
    QuerySet(AuditChain).update(verified_at=None, verified_number=0, problem="", row_seal=None)
    assert "Not verified yet" in visible_text(reader.get("/audit/"))
    audit.seal_and_verify_chain_and_store_result(make_workspace().pk)
    assert "Report not genuine" not in visible_text(reader.get("/audit/"))
