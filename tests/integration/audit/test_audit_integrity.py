"""What the audit trail page says about its chain, seals and verifications."""

import io
import re
from typing import Any

import pytest
from django.core.management import call_command
from django.db import models
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from checkpoints import audit
from checkpoints.models import AuditChain, AuditEvent, IntegrityCheck
from checkpoints.seals.decision_keys import create_key_pair
from tests.integration.audit.audit_events import happened
from tests.support.audit_entries import list_entries
from tests.support.factories import make_session, make_workspace
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


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


def test_result_is_shown_and_recorded(reader: Client, settings: Settings) -> None:
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
    outcome = "The first 3 of 5 entries are as they were recorded. Checked just now. 2 newer entries are not verified"
    assert re.search(rf"Verified up to [\d: -]+ {outcome} yet\. The audit trail has no witness\.", page)
    assert "No verification starts by itself. “Verify now” verifies all entries up to the newest" in page
    assert f"3:{AuditEvent.objects.get(number=3).seal}" in page
    assert list_entries("audit_verified") == [("audit_verified", "carol", {"checked": 3, "flaws": 0})]


@pytest.mark.unsealed("it is about a site without seals")
def test_without_a_seal_key_only_the_chain_of_digests_is_verified(reader: Client) -> None:
    for _ in range(3):
        happened()
    reader.post("/audit/verify/")
    response = reader.get("/audit/")
    page = visible_text(response)
    assert "Chain of digests verified The first 3 of 4 entries match their digests, and none of them is missing" in page
    assert "as they were recorded" not in page
    assert "whoever can write to this database can change an entry and compute the chain anew" in page
    assert "docs/integrity.md" in page
    assert '<span class="chip ok">' not in response.content.decode()
    assert "number and a seal" not in page


def test_flaw_is_shown_until_it_is_repaired(reader: Client) -> None:
    for _ in range(3):
        happened()
    audit.seal_events_of_workspace(make_workspace().pk)
    AuditEvent.objects.filter(number=2).delete()
    reader.post("/audit/verify/")
    assert "Not intact Entry 2 is missing." in visible_text(reader.get("/audit/"))


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
