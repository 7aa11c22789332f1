"""Export of the audit trail as CSV."""

import re

import pytest
from django.test import Client
from pytest_django.fixtures import Settings

from checkpoints import audit
from checkpoints.enums import ActorKind, AuditKind, DecisionKind
from checkpoints.models import AuditEvent
from harness_site.audit import audit_trail_query
from harness_site.site_address import build_absolute_url
from tests.integration.audit.audit_events import happened, lines
from tests.support.audit_entries import list_entries
from tests.support.factories import make_call, make_decision, make_session, make_workspace

pytestmark = pytest.mark.django_db


def test_export_contains_all_matching_entries_newest_first(reader: Client, settings: Settings) -> None:
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


def test_export_says_in_words_what_was_decided_and_why(reader: Client) -> None:
    """Each decision has its own sentence and reason, as on the page, and the address of its call."""
    session = make_session(session_id="invoice-77120")
    args = {"invoice": "77120", "password": "pw-4711"}
    call = make_call(session=session, call_id="c2", tool="pay", args=args, sentence="Pay “77120”", approvals=2)
    for revision, (actor, reason, final) in enumerate(
        (("alice", "The goods arrived & are <complete>.", False), ("bob", "IBAN compared: pw-4711", True))
    ):
        make_decision(call=call, kind=DecisionKind.APPROVE, actor=actor, reason=reason, revision=revision, final=final)
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


def test_export_says_of_an_entry_without_a_number_nothing_about_its_digest(reader: Client, settings: Settings) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    happened(actor="bob")
    audit.seal_events_of_workspace(make_workspace().pk)
    happened(actor="bob")
    _head, *rows = lines(reader.get("/audit/export/?actor=bob"))
    assert [(row[0], *row[8:10]) for row in rows] == [("", "", "yes"), ("1", "yes", "yes")]


@pytest.mark.unsealed("it is about a site without seals")
def test_export_without_a_seal_key_says_that_digests_match_and_nothing_about_seals(reader: Client) -> None:
    happened(actor="bob")
    audit.seal_events_of_workspace(make_workspace().pk)
    _head, *rows = lines(reader.get("/audit/export/?actor=bob"))
    assert [row[8:10] for row in rows] == [["yes", ""]]


def test_export_is_recorded_with_its_filters(reader: Client) -> None:
    lines(reader.get("/audit/export/?actor=alice&first=2001-01-01&subject=tokens"))
    assert list_entries() == [
        (
            "exported",
            "carol",
            {"what": "audit trail", "actor": "alice", "first": "2001-01-01", "zone": "UTC", "subject": "tokens"},
        )
    ]


def test_long_export_is_read_in_batches(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail_query, "_CHUNK", 4)
    for number in range(11):
        happened(actor=f"a{number}")
    rows = lines(reader.get("/audit/export/?subject=decisions"))[1:]
    assert [row[4] for row in rows] == [f"a{number}" for number in reversed(range(11))]


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@x"])
def test_cells_start_no_formula(reader: Client, start: str) -> None:
    happened(actor=f'{start},\n"quoted"')
    row = lines(reader.get("/audit/export/?subject=decisions"))[1]
    assert row[4] == f'\'{start},\n"quoted"'


def test_changed_entry_is_marked_in_the_export(reader: Client) -> None:
    happened()
    audit.seal_events_of_workspace(make_workspace().pk)
    AuditEvent.objects.update(actor="mallory")
    assert lines(reader.get("/audit/export/?subject=decisions"))[1][8] == "NO"
