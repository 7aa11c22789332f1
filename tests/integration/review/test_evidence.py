"""Files as evidence: stored with their decision, and downloaded as plain bytes."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import QuerySet
from django.test import Client
from pytest_django import Settings

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.enums import AuditKind, CallStatus, SessionStatus
from checkpoints.formats import parse_json
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from harness_site.review.models import EvidenceFile
from tests.integration.review.conftest import Lost
from tests.integration.review.payment_agents import APPROVE, awaiting
from tests.support.client_login import record_reauthentication
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
HOSTILE = b"<script>alert(document.cookie)</script>"
SHA256 = hashlib.sha256(HOSTILE).hexdigest()


def url(call: ToolCall) -> str:
    return f"/review/calls/{call.pk}/"


def form(content: bytes = HOSTILE, name: str = "export.html", **more: Any) -> dict[str, Any]:
    file = SimpleUploadedFile(name, content, content_type="text/html")
    return {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1, "file": file, **more}


def given(client: Client, call: ToolCall, **more: Any) -> EvidenceFile:
    assert client.post(url(call), form(**more)).status_code == 302
    return EvidenceFile.objects.get()


def test_decision_links_to_the_file(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    file = given(people["alice"], call, evidence="https://bank.example/export")
    assert parse_json(Decision.objects.get().evidence or "") == {
        "link": "https://bank.example/export",
        "file": {"id": file.pk, "name": "export.html", "size": len(HOSTILE), "sha256": SHA256},
    }
    page = visible_text(people["carol"].get(url(call))).replace("\xa0", " ")
    assert "Evidence files secrets in texts are masked export.html 39 bytes · alice · " in page
    assert SHA256 not in page
    assert f"Fingerprint {compute_keyed_fingerprint_of_digest(SHA256)}" in page
    record_reauthentication(people["dora"]).post("/accounts/secrets/", {"next": "/"})
    assert f"SHA-256 {SHA256}" in visible_text(people["dora"].get(url(call)))


def test_file_is_downloaded_and_not_displayed(people: dict[str, Client], lost: Lost) -> None:
    file = given(people["alice"], lost())
    response = people["carol"].get(f"/review/evidence/{file.pk}/")
    assert response.content == HOSTILE
    headers = ("Content-Type", "Content-Disposition", "X-Content-Type-Options")
    assert [response[name] for name in headers] == [
        "application/octet-stream",
        'attachment; filename="export.html"',
        "nosniff",
    ]
    event = AuditEvent.objects.get(kind=AuditKind.EVIDENCE_OPENED)
    assert (event.actor, event.session_id, parse_json(event.details)["file"]) == (
        "carol",
        file.call.session_id,
        file.pk,
    )


SECRET = "user: alice\npassword: hunter22\nplace: Zürich"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "cp1252"])
def test_secrets_in_a_text_file_are_masked(people: dict[str, Client], lost: Lost, encoding: str) -> None:
    stored = SECRET.encode(encoding)
    file = given(people["alice"], lost(), content=stored, name="export.txt")
    for name in ("alice", "carol", "dora"):
        response = people[name].get(f"/review/evidence/{file.pk}/")
        assert response.content.decode() == "user: alice\npassword: ‹masked›\nplace: Zürich"
        assert response["Content-Disposition"] == 'attachment; filename="masked-export.txt"'
    record_reauthentication(people["dora"]).post("/accounts/secrets/", {"next": "/"})
    response = people["dora"].get(f"/review/evidence/{file.pk}/")
    assert response.content == stored
    assert response["Content-Disposition"] == 'attachment; filename="export.txt"'
    opened = AuditEvent.objects.filter(kind=AuditKind.EVIDENCE_OPENED).order_by("pk")
    assert [(one.actor, parse_json(one.details)["masked"]) for one in opened] == [
        ("alice", True),
        ("carol", True),
        ("dora", True),
        ("dora", False),
    ]


def test_binary_file_is_downloaded_unchanged(people: dict[str, Client], lost: Lost) -> None:
    content = b"\x89PNG\x00\xff password: hunter22"
    file = given(people["alice"], lost(), content=content)
    assert people["carol"].get(f"/review/evidence/{file.pk}/").content == content


def test_file_that_was_exchanged_together_with_its_decision_is_not_served(
    people: dict[str, Client], lost: Lost, settings: Settings
) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    file = given(people["alice"], lost())
    forged = hashlib.sha256(b"forged").hexdigest()
    evidence = Decision.objects.get().evidence or ""
    EvidenceFile.objects.update(content=b"forged", sha256=forged)
    assert people["carol"].get(f"/review/evidence/{file.pk}/").status_code == 404
    QuerySet(Decision).update(evidence=evidence.replace(SHA256, forged))
    response = people["carol"].get(f"/review/evidence/{file.pk}/")
    assert response.status_code == 409
    assert Session.objects.get().quarantined_at is not None


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\r\nSet-Cookie: x=1.txt", '"><script>alert(1)</script>', "ü" * 400]
)
def test_hostile_file_name_is_escaped(people: dict[str, Client], lost: Lost, name: str) -> None:
    call = lost()
    file = given(people["alice"], call, name=name)
    response = people["alice"].get(f"/review/evidence/{file.pk}/")
    assert response["Content-Disposition"].startswith("attachment; filename")
    assert "Set-Cookie" not in response.headers
    assert "/" not in file.name
    assert "<script>alert" not in people["alice"].get(url(call)).content.decode()


def test_too_large_file_is_refused_and_nothing_is_recorded(
    people: dict[str, Client], lost: Lost, settings: Settings
) -> None:
    settings.EVIDENCE_BYTES = 100_000
    call = lost()
    response = people["alice"].post(url(call), form(b"x" * 100_001))
    assert response.status_code == 422
    assert "The file is larger than 97.7 KB. Nothing was recorded. Link to the file instead." in visible_text(response)
    assert "Not in the export." in response.content.decode()
    assert not EvidenceFile.objects.exists()
    assert not Decision.objects.exists()
    assert given(people["alice"], call, content=b"x" * 100_000).size == 100_000


def test_empty_file_is_refused(people: dict[str, Client], lost: Lost) -> None:
    response = people["alice"].post(url(lost()), form(b""))
    assert (response.status_code, EvidenceFile.objects.count()) == (422, 0)


def test_refused_decision_stores_no_file(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    people["bob"].post(url(call), {"kind": "mark_failed", "reason": "I saw it.", "revision": 1})
    assert people["alice"].post(url(call), form()).status_code == 409
    assert not EvidenceFile.objects.exists()


def test_each_of_two_voters_attaches_a_file(people: dict[str, Client], lost: Lost) -> None:
    call = lost(approvals=2)
    people["alice"].post(url(call), form(name="one.txt"))
    page = visible_text(people["bob"].get(url(call)))
    assert "one.txt" in page
    people["bob"].post(url(call), form(b"other", name="two.txt", revision=2))
    assert [file.given_by for file in EvidenceFile.objects.order_by("pk")] == ["alice", "bob"]
    call.refresh_from_db()
    assert call.status == CallStatus.FAILED


def test_approval_accepts_a_file(people: dict[str, Client]) -> None:
    call = awaiting()
    people["alice"].post(url(call), {**APPROVE, "file": SimpleUploadedFile("contract.pdf", b"%PDF")})
    assert parse_json(Decision.objects.get().evidence or "")["file"]["name"] == "contract.pdf"


def test_changed_file_is_not_served(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    file = given(people["alice"], call)
    EvidenceFile.objects.update(content=b"something else")
    assert people["alice"].get(f"/review/evidence/{file.pk}/").status_code == 404
    changed = hashlib.sha256(b"something else").hexdigest()
    EvidenceFile.objects.update(sha256=changed)  # then the decision names another one
    assert people["alice"].get(f"/review/evidence/{file.pk}/").status_code == 404
    assert "Files given as evidence" not in visible_text(people["alice"].get(url(call)))


def test_file_without_a_call_is_deleted_with_the_next_upload(people: dict[str, Client], lost: Lost) -> None:
    """Its process died before the decision, or an agent's process deleted its session."""
    old = clock.now() - timedelta(days=2)
    call, other = lost(), lost()
    unused = EvidenceFile.objects.create(call=call, given_by="x", name="a", size=1, sha256="a" * 64, content=b"a")
    EvidenceFile.objects.update(created_at=old)
    fresh = EvidenceFile.objects.create(call=call, given_by="x", name="b", size=1, sha256="b" * 64, content=b"b")
    orphan = EvidenceFile.objects.create(call_id=999_999, given_by="x", name="c", size=1, sha256="c" * 64, content=b"c")
    people["alice"].post(url(other), form())
    left = set(EvidenceFile.objects.values_list("pk", flat=True))
    assert {unused.pk, orphan.pk} & left == set()
    assert fresh.pk in left
    assert len(left) == 2


def test_file_is_deleted_with_its_session(people: dict[str, Client], lost: Lost) -> None:
    call = lost()
    given(people["alice"], call)
    Session.objects.update(status=SessionStatus.FAILED, owner=None)
    Run.objects.update(status="failed")
    SyncCheckpointer().delete_session(call.session.session_id)
    assert not EvidenceFile.objects.exists()
