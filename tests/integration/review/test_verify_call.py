"""Verification requested on the card."""

from datetime import timedelta

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, RunStatus, SessionStatus
from checkpoints.models import AuditEvent, ToolCall
from tests.support.factories import make_call, make_decision, make_run, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def interrupted(*, verifiable: bool = True, lease: timedelta = timedelta(hours=1)) -> ToolCall:
    session = make_session(status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session, status=RunStatus.WAITING, lease=lease)
    return make_call(session=session, verifiable=verifiable)


def test_waiting_process_is_asked_to_verify(alice: Client) -> None:
    call = interrupted()
    assert "Verify again" in visible_text(alice.get(f"/review/calls/{call.pk}/"))
    response = alice.post(f"/review/calls/{call.pk}/verify/")
    assert (response.status_code, response.headers["Location"]) == (302, f"/review/calls/{call.pk}/")
    call.refresh_from_db()
    assert (call.status, call.verify_requested_by) == (CallStatus.INTERRUPTED, "alice")
    assert AuditEvent.objects.filter(kind="verify_requested", actor="alice").count() == 1
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert "Run 1 has been asked to verify the call." in page
    assert "alice asked the run to verify the call; the tool’s own check has not answered yet" in page
    assert "Verify again" not in page


def test_open_page_keeps_its_seen_revision(alice: Client) -> None:
    call = interrupted()
    response = alice.post(f"/review/calls/{call.pk}/verify/", {"seen": "1&x"}, headers={"HX-Request": "true"})
    assert response.headers["Location"] == f"/review/calls/{call.pk}/?seen=1%26x"


def test_card_without_a_waiting_process_has_no_verify_button(alice: Client) -> None:
    call = interrupted(lease=timedelta(seconds=-1))
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert "Start the agent again, and it checks this call first" in page
    assert "Verify again" not in page


def test_tool_without_a_hook_has_no_verify_button(alice: Client) -> None:
    call = interrupted(verifiable=False)
    assert "Verify again" not in visible_text(alice.get(f"/review/calls/{call.pk}/"))


def test_decided_call_is_not_verified(alice: Client) -> None:
    call = interrupted()
    make_decision(call=call, actor="bob")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)
    response = alice.post(f"/review/calls/{call.pk}/verify/")
    assert response.status_code == 409
    assert "bob decided first" in visible_text(response)
    assert "The call is not being verified." in visible_text(response)
    call.refresh_from_db()
    assert call.verify_requested_by == ""
