"""Quarantined sessions are marked on all pages, and released by an admin."""

import json

import pytest
from django.db import models
from django.test import Client

from checkpoints.enums import CallStatus, Role
from checkpoints.models import AuditEvent, Message, Session, ToolCall
from harness_site.review.models import Claim
from tests.support.factories import make_call, make_checkpoint, make_messages, make_run, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def call(settings: object) -> ToolCall:
    """Call of a session that was quarantined after a colleague opened a page with altered data."""
    settings.HARNESS_SEAL_KEY = "5e" * 32  # type: ignore[attr-defined]
    session = make_session(session_id="origin")
    make_messages(session=session, texts=["The lamp is broken.", "I am sorry."])
    run = make_run(session=session)
    make_checkpoint(session=session, run=run)
    make_call(session=session, run=run, call_id="forged", status=CallStatus.COMPLETED)
    call = make_call(session=session, run=run, call_id="undecided", status=CallStatus.INTERRUPTED)
    models.QuerySet(ToolCall).filter(call_id="forged").update(tool="refund")
    return call


def sign_in(client: Client, role: Role) -> Client:
    client.force_login(make_user(name=str(role), role=role))
    return client


def test_altered_data_found_by_a_page_quarantines_the_session(client: Client, call: ToolCall) -> None:
    reader = sign_in(client, Role.APPROVER)
    session = call.session
    forged = ToolCall.objects.get(call_id="forged")
    response = reader.get(f"/review/calls/{forged.pk}/")
    assert response.status_code == 409

    models.QuerySet(Message).filter(position=1).update(role="user")
    page = f"/sessions/{session.pk}/quarantine/"
    response = reader.get(f"/sessions/{session.pk}/")
    found = visible_text(response)
    assert response.status_code == 409
    assert f'hx-get="{page}"' in response.content.decode()
    assert f"Altered data in “{session.title}”" in found
    assert "Release the session. Only an admin can do this." in found
    assert "1 run" in found
    assert "Row" in found.partition("Technical details")[2]
    assert "Quarantined" in visible_text(reader.get("/sessions/"))
    assert f'<tr id="session-{session.pk}" class="altered"' in reader.get("/sessions/").content.decode()
    history = reader.get(f"/sessions/{session.pk}/history/")
    assert "Session quarantined Tool call refund (forged) is not as Harness wrote it." in visible_text(history)
    assert '<li class="has-time bad">' in history.content.decode()
    assert "origin" in visible_text(reader.get("/sessions/?status=quarantined"))
    assert "origin" not in visible_text(reader.get("/sessions/?status=stalled"))
    shown = visible_text(reader.get(page))
    plain, _, technical = shown.partition("Technical details")
    assert "Tool call refund (forged) It is not as Harness wrote it." in plain
    assert "Release the session. Only an admin can do this." in plain
    assert "seal" not in plain
    assert f"checkpoints_toolcall, {forged.pk} (refund (forged)): its columns do not match its seal" in technical
    models.QuerySet(Message).filter(position=1).update(role=Message.objects.get(position=0).role)
    card = reader.get(f"/review/calls/{call.pk}/")
    assert "Nobody can decide this call now" in visible_text(card)
    assert "The session of this call is quarantined." in visible_text(card)
    assert b'name="kind"' not in card.content
    assert "Claim" not in visible_text(card)
    reader.post(f"/review/calls/{call.pk}/claim/")
    assert not Claim.objects.exists()
    assert "Decide" not in visible_text(reader.get(f"/sessions/{session.pk}/timeline/"))
    assert reader.post(page, {"reason": "I want to."}).status_code == 403


def test_admin_releases_a_session_with_a_reason(client: Client, call: ToolCall) -> None:
    admin = sign_in(client, Role.ADMIN)
    session = call.session
    page = f"/sessions/{session.pk}/quarantine/"
    assert admin.get(page).status_code == 404
    forged = ToolCall.objects.get(call_id="forged")
    assert admin.get(f"/sessions/{session.pk}/calls/{forged.pk}/").status_code == 409

    assert admin.post(page, {"reason": ""}).status_code == 422
    response = admin.post(page, {"reason": "It looks fine."})
    assert (response.status_code, "It stays quarantined." in visible_text(response)) == (409, True)
    models.QuerySet(ToolCall).filter(pk=forged.pk).update(tool=call.tool)
    assert admin.post(page, {"reason": "Restored."}).status_code == 302
    assert Session.objects.get(pk=session.pk).quarantined_at is None
    event = AuditEvent.objects.get(kind="quarantine_released")
    details = json.loads(event.details)
    assert (event.actor, details["reason"], details["address"]) == ("admin", "Restored.", "127.0.0.1")
    assert "admin released origin from quarantine" in visible_text(admin.get("/audit/"))


def test_finding_is_in_the_language_of_the_reader(client: Client, call: ToolCall) -> None:
    reader = sign_in(client, Role.APPROVER)
    models.QuerySet(Message).filter(position=1).update(body=Message.objects.get(position=0).body)
    reader.get(f"/sessions/{call.session.pk}/")
    page = reader.get(f"/sessions/{call.session.pk}/quarantine/", headers={"accept-language": "de"})
    assert "Der Text wurde verändert." in visible_text(page).partition("Technische")[0]
