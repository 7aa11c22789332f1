"""Decisions that conflict with the end or a takeover of the session."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.enums import ActorKind, AuditKind, CallStatus, DecisionKind, RunStatus, SessionStatus
from checkpoints.exceptions import LateResultRefused, ReviewRequired
from checkpoints.models import AuditEvent, Decision, Run, Session, ToolCall
from tests.integration.checkpoints.integrity.test_dropped_inserts import trigger_that_drops_inserts
from tests.integration.review.payment_agents import APPROVE, REJECT, RESPOND, awaiting, url
from tests.support.factories import THEN, make_decision, make_run, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def cancel(call: ToolCall) -> None:
    Session.objects.filter(pk=call.session_id).update(status=SessionStatus.CANCELLED)
    event = {"kind": AuditKind.SESSION_FINISHED, "actor_kind": ActorKind.MACHINE, "actor": "run 1"}
    AuditEvent.objects.create(workspace=call.workspace, session=call.session, created_at=THEN, **event)


@pytest.mark.parametrize("form", [APPROVE, RESPOND])
def test_approval_in_a_cancelled_session_is_refused(alice: Client, form: dict[str, object]) -> None:
    call = awaiting()
    cancel(call)
    response = alice.post(url(call), form)
    assert response.status_code == 409
    assert (
        "The session is cancelled, ended by run 1 at 2025-03-04 10:42:07. It does not continue, so nothing can run "
        "in it. Your decision was not recorded. Reject the call to take it off the list."
    ) in visible_text(response)
    assert Decision.objects.count() == 0
    assert "The session is cancelled It does not continue" in visible_text(alice.get(url(call)))
    assert alice.post(url(call), REJECT).status_code == 302
    call.refresh_from_db()
    assert (call.status, call.session.status) == (CallStatus.REJECTED, SessionStatus.CANCELLED)


@pytest.mark.parametrize("session_status", [SessionStatus.READY, SessionStatus.COMPLETED])
def test_form_about_a_decided_call_names_the_first_decision(alice: Client, session_status: SessionStatus) -> None:
    call = awaiting()
    make_decision(call=call, kind=DecisionKind.REJECT, actor="bob")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.REJECTED, revision=2, replay_count=1)
    Session.objects.update(status=session_status)
    response = alice.post(url(call), APPROVE)
    page = visible_text(response)
    assert response.status_code == 409
    assert "bob decided first, at " in page
    assert "If it is wrong, tell bob." in page
    Decision.objects.update(actor="alice")
    own = visible_text(alice.post(url(call), APPROVE))
    assert "You have already decided, at " in own
    assert "tell bob" not in own
    assert "take it off the list" not in page
    assert "can still be withdrawn" not in page


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_advice_about_a_decision_that_a_run_may_use_meanwhile_stays_true(alice: Client, name: str) -> None:
    call = awaiting()
    make_decision(call=call, kind=DecisionKind.APPROVE, actor=name)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.APPROVED, revision=2)
    page = visible_text(alice.post(url(call), REJECT))
    assert "“Wrong decision?” at the call says whether it can still be withdrawn." in page
    assert page.count("Wrong decision?") == 2  # the heading, too
    assert ("If it is wrong, tell bob." in page) == (name == "bob")


@pytest.mark.parametrize(
    ("decided", "form", "is_same"),
    [
        ({"kind": DecisionKind.APPROVE}, APPROVE, True),
        ({"kind": DecisionKind.REJECT}, REJECT, True),
        ({"kind": DecisionKind.RESPOND, "result": "I paid it by hand."}, RESPOND, True),
        ({"kind": DecisionKind.RESPOND, "result": "Nobody pays it."}, RESPOND, False),
        ({"kind": DecisionKind.REJECT}, APPROVE, False),
    ],
)
def test_second_person_with_the_same_answer_sees_a_calm_note(
    alice: Client, decided: dict[str, Any], form: dict[str, Any], is_same: bool
) -> None:
    call = awaiting()
    make_decision(call=call, actor="bob", **decided)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)
    page = alice.post(url(call), form)
    calm = ("bob gave the same answer at " in visible_text(page), b"note bad refusal-note" not in page.content)
    assert calm == (is_same, is_same)
    if form == APPROVE:  # of other answers, the page does not send the text along
        update = alice.get(f"{url(call)}?seen=1&kind=approve", headers={"HX-Request": "true"})
        assert ("bob gave the same answer at " in visible_text(update)) == is_same
        assert ("You had not sent your decision." in visible_text(update)) != is_same
    only_read = alice.get(f"{url(call)}?seen=1", headers={"HX-Request": "true"})
    assert "bob decided first, at " in visible_text(only_read)
    assert "was not recorded" not in visible_text(only_read)
    assert b"note bad" not in only_read.content


def test_rerun_in_a_cancelled_session_is_refused(alice: Client) -> None:
    call = awaiting()
    lost = {"status": CallStatus.INTERRUPTED, "reason": "run_lost", "interrupted_at": THEN}
    ToolCall.objects.filter(pk=call.pk).update(**lost)
    cancel(call)
    response = alice.post(url(call), {"kind": "approve_rerun", "reason": "Again.", "revision": 1})
    assert response.status_code == 409
    assert "Record whether the call happened to take it off the list." in visible_text(response)


def test_approval_of_an_interrupted_approved_call_explains_both(alice: Client) -> None:
    call = awaiting()
    made = make_decision(call=call, kind=DecisionKind.APPROVE, actor="bob")
    ToolCall.objects.filter(pk=call.pk).update(
        status=CallStatus.INTERRUPTED, reason="run_lost", interrupted_at=THEN, revision=4
    )
    Run.objects.update(status=RunStatus.LOST, ended_at=THEN)
    make_run(session=call.session, host="worker-9", started_at=THEN + timedelta(seconds=1))
    response = alice.post(url(call), {**APPROVE, "evidence": "ticket 4711"})
    page = visible_text(response)
    assert response.status_code == 409
    assert f"bob decided first, at {made.created_at:%H:%M:%S}: approved." in page
    assert (
        "Run 2 on worker-9 took the session over from run 1 at 2025-03-04 10:42:08, while the call was running: "
        "it is unknown whether the call happened."
    ) in page
    assert "Your text The contract says so. Evidence ticket 4711" in page
    assert "Did this happen?" in page
    assert "data-decide" in response.content.decode()


@pytest.mark.django_db(transaction=True)
def test_takeover_is_shown_with_actor_time_and_reason(alice: Client) -> None:
    with SyncCheckpointer() as first, SyncCheckpointer() as second:
        first.start_session("rent", "Pay the rent.", agent="accounts")
        first.save_checkpoint("rent", [{"role": "user", "content": "Pay the rent."}], None, 0.01)
        first.record_tool_call_issued("rent", "call_9", "pay_rent", {"month": 11}, "rent-11")
        with pytest.raises(ReviewRequired):
            second.resume("rent", takeover="worker-3 hangs")
        with pytest.raises(LateResultRefused):
            first.record_tool_call_result("rent", "call_9", "paid", True)
    call = ToolCall.objects.get()
    one, two = Run.objects.order_by("number")
    card = visible_text(alice.get(url(call)))
    assert "the session was taken over from a run that was still alive." in card
    assert f"Run 2 on {two.host} (pid {two.pid}) took the session over from run 1 on request, although" in card
    assert "Run 1 lost" not in card
    history = visible_text(alice.get(f"/sessions/{call.session_id}/history/"))
    assert (
        f"Session taken over Run 2 on {two.host} (pid {two.pid}) took the session over from run 1. "
        f"At that moment run 1 was still alive; its last sign of life was at {one.heartbeat_at:%H:%M:%S}. "
        "worker-3 hangs"
    ) in history
    transcript = alice.get(f"/sessions/{call.session_id}/")
    assert "the session was taken over from run 1 at " in visible_text(transcript)
    assert 'class="taken"' in transcript.content.decode()
    assert "Run 1 (Taken over) made 1 tool call." in transcript.content.decode()


def test_decision_that_the_database_drops_is_not_recorded_and_the_page_says_so(alice: Client) -> None:
    call = awaiting()
    with trigger_that_drops_inserts(Decision):
        response = alice.post(url(call), APPROVE)
    assert response.status_code == 409
    page = visible_text(response)
    assert "The database has not stored a new row of checkpoints_decision, and has given no error." in page
    assert "a trigger, a rule or a policy" in page
    call.refresh_from_db()
    assert (call.status, call.session.quarantined_at) == (CallStatus.AWAITING_APPROVAL, None)
    assert Decision.objects.count() == 0
