"""Cards of calls that require approval, and each decision from the form to the agent."""

import re
from typing import Any

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.enums import CallStatus, DecisionKind, Role, RunStatus, SessionStatus
from checkpoints.exceptions import ApprovalRequired
from checkpoints.formats.digests import digest_text
from checkpoints.models import Decision, Session, ToolCall
from tests.integration.review.payment_agents import APPROVE, REJECT, RESPOND, awaiting, url
from tests.support.factories import THEN, make_decision, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


# the card


def test_card_asks_for_approval(alice: Client) -> None:
    page = visible_text(alice.get(url(awaiting())))
    assert "May this happen? Awaiting approval · " in page
    assert "pay · agent accounts " in page
    assert "amount 40.00 order 17 Technical details" in page
    assert "10:42:07.118 Run 1 asked for approval; the tool was not started" in page
    assert "probe" not in page.partition("next or previous item")[0]


def test_form_says_which_text_a_rejection_requires(alice: Client) -> None:
    page = visible_text(alice.get(url(awaiting())))
    assert "Why required, the agent is told" in page
    assert "Answer to the agent required, sent as the result of the call" in page
    assert "optional, the agent does not get it" in page


def test_each_answer_explains_its_effect(alice: Client) -> None:
    page = visible_text(alice.get(url(awaiting())))
    begin = "Then: Run 1 on worker-3 is waiting and continues at once."
    assert f"{begin} It runs pay, and the agent gets the result." in page
    assert f"{begin} The agent is told that the call was refused, and why." in page
    assert f"{begin} The agent gets your answer as the result of this call." in page
    assert "Then: Nothing runs. The changed call needs 1 approval." in page


def test_card_of_a_running_agent_says_that_it_checks_again(alice: Client) -> None:
    call = awaiting()
    call.session.runs.update(status=RunStatus.RUNNING)
    told = "Then: Run 1 on worker-3 asked for this and continues when it checks again. It runs pay, and the agent gets"
    assert told in visible_text(alice.get(url(call)))


def test_arguments_that_are_not_an_object_cannot_be_edited(alice: Client) -> None:
    call = awaiting()
    ToolCall.objects.filter(pk=call.pk).update(args="[1]", args_digest=digest_text("[1]"))
    content = alice.get(url(call)).content.decode()
    assert 'value="approve"' in content
    assert 'value="edit"' not in content


def test_call_with_altered_arguments_is_not_shown_and_not_decided(alice: Client) -> None:
    call = awaiting(sentence="Pay 15.99")
    ToolCall.objects.filter(pk=call.pk).update(args='{"amount":"1599.00","order":17}')
    queue = visible_text(alice.get("/review/?tab=awaiting"))
    assert "A call is not shown, because its data are not as they were written" in queue
    assert "15.99" not in queue
    session = Session.objects.get()
    assert session.quarantined_at is not None
    quarantine = visible_text(alice.get(f"/sessions/{session.pk}/quarantine/"))
    assert "Its arguments are not those that Harness wrote." in quarantine
    for response in (alice.get(url(call)), alice.post(url(call), APPROVE)):
        assert response.status_code == 409
        assert "Altered data in “" in visible_text(response)
        assert "data-decide" not in response.content.decode()
    assert not Decision.objects.exists()


def test_auditors_see_the_card_without_a_form(client: Client) -> None:
    make_user(name="bob")
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    response = client.get(url(awaiting()))
    assert (
        "You can view this call but not decide it Your role is auditor; deciding needs an approver. "
        "These members can: bob." in visible_text(response)
    )
    assert "data-decide" not in response.content.decode()


# the answers


@pytest.mark.parametrize(
    ("form", "status", "told", "reason"),
    [
        (APPROVE, CallStatus.APPROVED, None, "The contract says so."),
        (REJECT, CallStatus.REJECTED, "Ask the supplier first.", "Ask the supplier first."),
        ({**REJECT, "reason": "No order."}, CallStatus.REJECTED, "Ask the supplier first.", "No order."),
        (RESPOND, CallStatus.COMPLETED, "I paid it by hand.", "I paid it by hand."),
    ],
)
def test_decision_changes_the_call_and_redirects_to_the_card(
    alice: Client, form: dict[str, object], status: CallStatus, told: str | None, reason: str
) -> None:
    call = awaiting()
    response = alice.post(url(call), {**form, "evidence": "order 17"})
    assert (response.status_code, response.headers["Location"]) == (302, url(call))
    call.refresh_from_db()
    assert (call.status, call.result_text) == (status, told)
    assert Session.objects.get(pk=call.session_id).status == SessionStatus.READY
    made = Decision.objects.get()
    assert (made.kind, made.actor, made.reason, made.final) == (form["kind"], "alice", reason, True)
    assert (made.revision, made.args_digest, made.evidence) == (1, call.args_digest, '{"text":"order 17"}')


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({**APPROVE, "kind": ""}, "Choose an answer."),
        ({**APPROVE, "reason": " "}, "Enter a reason. It is recorded with your name."),
        ({**REJECT, "message": " "}, "Enter why. The agent is told."),
        ({**RESPOND, "answer": ""}, "Enter an answer. The agent gets it as the result of the call."),
        ({**APPROVE, "revision": ""}, "the form did not say which state of the call it was made for."),
    ],
)
def test_incomplete_form_is_shown_again_with_its_input(alice: Client, form: dict[str, object], words: str) -> None:
    call = awaiting()
    response = alice.post(url(call), {**form, "evidence": "ticket 4711"})
    assert response.status_code == 422
    assert words in visible_text(response)
    assert 'value="ticket 4711"' in response.content.decode()
    assert (Decision.objects.count(), ToolCall.objects.get().status) == (0, CallStatus.AWAITING_APPROVAL)


@pytest.mark.parametrize("form", [APPROVE, REJECT, RESPOND, {**APPROVE, "kind": "edit", "args": "{}"}])
def test_auditor_is_refused_and_anonymous_is_sent_to_sign_in(client: Client, form: dict[str, object]) -> None:
    call = awaiting()
    response = client.post(url(call), form)
    assert (response.status_code, response.headers["Location"]) == (302, f"/accounts/login/?next={url(call)}&not-saved")
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    response = client.post(url(call), form)
    assert response.status_code == 403
    assert "Your role cannot decide calls. Your decision was not recorded." in visible_text(response)
    assert (Decision.objects.count(), ToolCall.objects.get().status) == (0, CallStatus.AWAITING_APPROVAL)


# afterwards


@pytest.mark.parametrize(
    ("kind", "fields", "heading", "words"),
    [
        (
            "approve",
            {"status": "approved"},
            "Approved: it has not run yet",
            "The call has not started yet.",
        ),
        ("approve", {"status": "issued"}, "Approved: it is running", "The call has been running since"),
        (
            "approve",
            {"status": "completed", "result": '"paid"', "result_digest": digest_text('"paid"'), "settled_at": THEN},
            "Approved: it has run",
            "The call finished at 2025-03-04 10:42:07 and returned: paid",
        ),
        (
            "approve",
            {
                "status": "completed",
                "result": '{"paid":true}',
                "result_digest": digest_text('{"paid":true}'),
                "settled_at": THEN,
            },
            "Approved: it has run",
            "The call finished at 2025-03-04 10:42:07 and returned: paid yes",
        ),
        (
            "approve",
            {
                "status": "failed",
                "result": '"no money"',
                "result_digest": digest_text('"no money"'),
                "settled_at": THEN,
            },
            "Approved: it ran and failed",
            "The call failed at 2025-03-04 10:42:07 and returned: no money",
        ),
        ("reject", {"status": "rejected"}, "Rejected: it does not run", "pay · agent accounts"),
        ("respond", {"status": "completed"}, "Responded instead: it does not run Responded instead", "Events so far"),
    ],
)
def test_card_shows_the_current_status(
    alice: Client, kind: str, fields: dict[str, Any], heading: str, words: str
) -> None:
    call = awaiting()
    make_decision(call=call, kind=DecisionKind(kind), created_at=THEN)
    ToolCall.objects.filter(pk=call.pk).update(revision=2, **fields)
    page = visible_text(alice.get(url(call)))
    assert f"Refund for a broken lamp {heading} " in page
    assert 'class="chip ' in alice.get(url(call)).content.decode().partition("<h1")[2].partition("</div>")[0]
    assert words in page
    assert "What was requested" in page
    assert "Did it happen?" not in page  # nothing was ever in doubt


def test_interrupted_approved_call_needs_a_decision(alice: Client) -> None:
    call = awaiting()
    make_decision(call=call, kind=DecisionKind.APPROVE, created_at=THEN)
    lost = {"status": CallStatus.INTERRUPTED, "reason": "run_lost", "interrupted_at": THEN}
    ToolCall.objects.filter(pk=call.pk).update(revision=4, **lost)
    page = visible_text(alice.get(url(call)))
    assert "Did this happen? Outcome unknown" in page
    assert "Enter below what the tool has returned, if you know it. Nothing runs again." in page
    assert "alice: Approved — “Seen in the bank's export.”" in page


def ask(checkpointer: SyncCheckpointer) -> ToolRegistry:
    """Dispatch a payment that requires approval."""
    tools = ToolRegistry(checkpointer=checkpointer, session_id="inv-17")

    @tools.tool(requires_approval=True)
    def pay(amount: str) -> str:
        return f"paid {amount}"

    checkpointer.start_session("inv-17", "Pay, please.", agent="accounts")
    with pytest.raises(ApprovalRequired):
        tools.dispatch("pay", {"amount": "40.00"}, "call_1")
    return tools


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("form", "told", "failed"),
    [
        (APPROVE, "paid 40.00", False),
        (REJECT, "Ask the supplier first.", True),
        (RESPOND, "I paid it by hand.", False),
    ],
)
def test_agent_receives_the_decision(alice: Client, form: dict[str, object], told: str, failed: bool) -> None:
    with SyncCheckpointer() as checkpointer:
        tools = ask(checkpointer)
        assert alice.post(url(ToolCall.objects.get()), form).status_code == 302
        answer = tools.dispatch("pay", {"amount": "40.00"}, "call_1")
        assert (answer.content, answer.is_error) == (told, failed)


@pytest.mark.parametrize(
    ("args", "summary"),
    [
        ({"order": 17}, "The call runs as shown."),
        ({"api_key": "k-123456789"}, "The call runs with the unmasked values."),
    ],
)
def test_approval_says_whether_the_call_runs_as_shown(client: Client, args: dict[str, Any], summary: str) -> None:
    client.force_login(make_user(name="alice"))
    page = visible_text(client.get(url(awaiting(args=args))))
    assert re.findall(r"The call runs (?:as|with) [a-z ]+\.", page) == [summary]
