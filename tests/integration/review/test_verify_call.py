"""Verification requested on the card."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import ActorKind, CallStatus, DecisionKind, RunStatus, SessionStatus
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
    assert "Run the tool’s own check again" in visible_text(alice.get(f"/review/calls/{call.pk}/"))
    response = alice.post(f"/review/calls/{call.pk}/verify/")
    assert (response.status_code, response.headers["Location"]) == (302, f"/review/calls/{call.pk}/")
    call.refresh_from_db()
    assert (call.status, call.verify_requested_by) == (CallStatus.INTERRUPTED, "alice")
    assert AuditEvent.objects.filter(kind="verify_requested", actor="alice").count() == 1
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert "Run 1 has been asked to verify the call." in page
    assert "alice asked the run to verify the call; the tool’s own check has not answered yet" in page
    assert "Run the tool’s own check again" not in page


def test_answer_of_the_check_stands_where_it_was_asked_for(alice: Client) -> None:
    """The button stays where it is, so that the keyboard and the reader do; the line below it tells a screen reader."""
    call = interrupted()
    alice.post(f"/review/calls/{call.pk}/verify/")
    asked = alice.get(f"/review/calls/{call.pk}/").content.decode()
    assert 'id="verify" aria-describedby="verify-effect last-check" type="button" aria-disabled="true"' in asked
    assert 'id="last-check" role="status">Run 1 has been asked to verify the call. Its answer appears here.' in asked
    answered(call, DecisionKind.PROBE_UNKNOWN, reason="the provider answered 503")
    ToolCall.objects.filter(pk=call.pk).update(verify_requested_by="")
    response = alice.get(f"/review/calls/{call.pk}/")
    assert 'id="verify" aria-describedby="verify-effect last-check" title=' in response.content.decode()
    assert re.search(
        r"Run the tool’s own check again If the tool’s own check finds what happened, its answer decides this call "
        r"and the agent continues\. "
        r"Checked at [\d:]+: the outcome is still unknown — “the provider answered 503” ",
        visible_text(response),
    )


def test_open_page_keeps_its_seen_revision(alice: Client) -> None:
    call = interrupted()
    response = alice.post(f"/review/calls/{call.pk}/verify/", {"seen": "1&x"}, headers={"HX-Request": "true"})
    assert response.headers["Location"] == f"/review/calls/{call.pk}/?seen=1%26x"


def test_card_without_a_waiting_process_has_no_verify_button(alice: Client) -> None:
    call = interrupted(lease=timedelta(seconds=-1))
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert "The check runs first when somebody starts the agent again" in page
    assert "Run the tool’s own check again" not in page


def test_tool_without_a_hook_has_no_verify_button(alice: Client) -> None:
    call = interrupted(verifiable=False)
    assert "Run the tool’s own check again" not in visible_text(alice.get(f"/review/calls/{call.pk}/"))


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


def answered(call: ToolCall, kind: DecisionKind = DecisionKind.PROBE_LANDED, **fields: Any) -> None:
    """Record the answer of the verify hook of a call."""
    make_decision(call=call, kind=kind, actor="verify hook of refund_card", actor_kind=ActorKind.HOOK, **fields)
    if kind != DecisionKind.PROBE_UNKNOWN:
        ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)


@pytest.mark.parametrize(
    ("kind", "chosen", "told"),
    [
        (DecisionKind.PROBE_LANDED, "", "Your verification found that it happened. It is recorded"),
        (DecisionKind.PROBE_LANDED, "confirm_landed", "Your verification found that it happened. It is recorded"),
        (
            DecisionKind.PROBE_NOT_LANDED,
            "mark_failed",
            "Your verification found that it did not happen. It is recorded",
        ),
        (DecisionKind.PROBE_LANDED, "mark_failed", "it happened. The answer that you had chosen was not sent."),
    ],
)
def test_verification_with_an_open_form_is_a_success(alice: Client, kind: DecisionKind, chosen: str, told: str) -> None:
    call = interrupted()
    alice.post(f"/review/calls/{call.pk}/verify/")
    answered(call, kind)
    response = alice.get(f"/review/calls/{call.pk}/", {"seen": "1", "kind": chosen}, headers={"HX-Request": "true"})
    page = visible_text(response)
    assert told in page
    assert '<div class="note ok decided-elsewhere" role="status">' in response.content.decode()
    assert "decided first" not in page
    assert "verified on request of alice" in page


def test_verification_names_who_asked_for_it(alice: Client) -> None:
    call = interrupted()
    bob = Client()
    bob.force_login(make_user(name="bob"))
    bob.post(f"/review/calls/{call.pk}/verify/")
    answered(call)
    page = visible_text(alice.get(f"/review/calls/{call.pk}/", {"seen": "1"}, headers={"HX-Request": "true"}))
    assert "The verification for which bob asked found that it happened." in page
    assert "verified on request of bob" in page


def test_answer_at_the_start_of_a_process_is_on_request_of_nobody(alice: Client) -> None:
    call = interrupted()
    alice.post(f"/review/calls/{call.pk}/verify/")
    answered(call, DecisionKind.PROBE_UNKNOWN)
    answered(call)
    page = visible_text(alice.get(f"/review/calls/{call.pk}/", {"seen": "1"}, headers={"HX-Request": "true"}))
    assert "The tool’s own check found that it happened." in page
    assert "on request of" not in page


def test_other_answer_after_a_verification_is_refused(alice: Client) -> None:
    call = interrupted()
    answered(call)
    sent = {"kind": "mark_failed", "reason": "It is not there.", "revision": 1}
    response = alice.post(f"/review/calls/{call.pk}/", sent)
    assert response.status_code == 409
    page = visible_text(response)
    assert "The tool’s own check found that it happened. Your decision was not recorded." in page
    assert "Your text It is not there." in page


def test_request_stays_in_the_events_once_it_is_answered(alice: Client) -> None:
    call = interrupted()
    alice.post(f"/review/calls/{call.pk}/verify/")
    answered(call, DecisionKind.PROBE_UNKNOWN, reason="No answer.")
    ToolCall.objects.update(verify_requested_by="")
    alice.post(f"/review/calls/{call.pk}/verify/")
    request = "alice asked the run to verify the call"
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert page.count(request) == 2
    assert page.count(f"{request}; the tool’s own check has not answered yet") == 1
    answered(call)
    ToolCall.objects.update(verify_requested_by="")
    page = visible_text(alice.get(f"/review/calls/{call.pk}/"))
    assert page.count(request) == 2
    assert "has not answered yet" not in page
