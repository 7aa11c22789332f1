"""Decisions recorded on the card through the library."""

import json
import re
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from checkpoints.enums import ActorKind, CallStatus, Role, RunStatus, SessionStatus
from checkpoints.exceptions import ReviewRequired
from checkpoints.models import AuditEvent, Decision, ToolCall
from checkpoints.sync_client import SyncCheckpointer
from harness_site.accounts.models import TokenRole
from tests.integration.review.payment_agents import awaiting
from tests.support.api_client import ApiClient, make_token
from tests.support.factories import make_call, make_decision, make_run, make_session, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

LANDED = {"kind": "confirm_landed", "result": "re_81f3 settled", "reason": "Seen in the export.", "revision": 1}
FAILED = {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1}
RERUN = {"kind": "approve_rerun", "reason": "Harmless twice.", "revision": 1}


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


@pytest.fixture
def call() -> ToolCall:
    session = make_session(session_id="order/17: проверка", status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session)
    return make_call(session=session)


def url(call: ToolCall) -> str:
    return f"/review/calls/{call.pk}/"


@pytest.mark.parametrize(
    ("form", "status", "told"),
    [
        (LANDED, CallStatus.COMPLETED, "re_81f3 settled"),
        (FAILED, CallStatus.FAILED, "This call did not happen. Not in the export."),
        (RERUN, CallStatus.RERUN_APPROVED, None),
    ],
)
def test_decision_changes_the_call_and_redirects_to_the_card(
    alice: Client, call: ToolCall, form: dict[str, object], status: CallStatus, told: str | None
) -> None:
    response = alice.post(url(call), form)
    assert (response.status_code, response.headers["Location"]) == (302, url(call))
    call.refresh_from_db()
    call.session.refresh_from_db()
    assert (call.status, call.result_text, call.session.status) == (status, told, SessionStatus.READY)
    decision = Decision.objects.get()
    assert (decision.kind, decision.actor, decision.actor_kind) == (form["kind"], "alice", "person")
    assert (decision.reason, decision.revision, decision.args_digest) == (form["reason"], 1, call.args_digest)
    assert list(AuditEvent.objects.order_by("pk").values_list("kind", "actor")) == [
        ("decided", "alice"),
        ("session_ready", "gate"),
    ]
    assert f"alice · {decision.created_at:%H:%M:%S}" in visible_text(alice.get(url(call)))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://bank.example/#re_81f3", {"link": "https://bank.example/#re_81f3"}),
        ("ticket 4711", {"text": "ticket 4711"}),
        ("javascript:alert(1)", {"text": "javascript:alert(1)"}),
    ],
)
def test_evidence_is_a_link_or_a_text(alice: Client, call: ToolCall, given: str, kept: dict[str, str]) -> None:
    alice.post(url(call), {**LANDED, "evidence": given})
    assert json.loads(Decision.objects.get().evidence or "") == kept


def test_evidence_for_a_rerun_is_stored(alice: Client, call: ToolCall) -> None:
    alice.post(url(call), {**RERUN, "evidence": "ticket 4711"})
    decision = Decision.objects.get()
    assert (decision.reason, decision.evidence) == ("Harmless twice.", '{"text":"ticket 4711"}')


def test_result_is_stored_as_typed(alice: Client, call: ToolCall) -> None:
    alice.post(url(call), {**LANDED, "result": "  two\n lines "})
    call.refresh_from_db()
    assert call.result_text == "  two\n lines "


def test_call_that_happened_with_an_unknown_result_is_recorded_so(alice: Client, call: ToolCall) -> None:
    assert "empty if it is not known" in visible_text(alice.get(url(call)))
    assert alice.post(url(call), {**LANDED, "result": " "}).status_code == 302
    call.refresh_from_db()
    assert (call.status, call.result_text) == (
        CallStatus.COMPLETED,
        "This call happened. What it returned is not known.",
    )


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({**LANDED, "reason": "  "}, "Enter a reason. It is recorded with your name."),
        ({**LANDED, "kind": ""}, "Choose an answer."),
        (
            {**LANDED, "kind": "probe_landed"},
            "Select a valid choice. probe_landed is not one of the available choices.",
        ),
        ({**LANDED, "revision": ""}, "the form did not say which state of the call it was made for."),
        ({**LANDED, "revision": "x"}, "the form did not say which state of the call it was made for."),
    ],
)
def test_incomplete_form_is_shown_again_with_its_input(
    alice: Client, call: ToolCall, form: dict[str, object], words: str
) -> None:
    response = alice.post(url(call), {**form, "evidence": "ticket 4711"})
    assert response.status_code == 422
    assert words in visible_text(response)
    assert 'value="ticket 4711"' in response.content.decode()
    assert Decision.objects.count() == 0


# conflicts


def test_second_decision_names_the_first(alice: Client, call: ToolCall) -> None:
    bob = Client()
    bob.force_login(make_user(name="bob"))
    alice.post(url(call), LANDED)
    bob.cookies["harness_zone"] = "Asia/Kolkata"
    response = bob.post(url(call), {**FAILED, "evidence": "ticket 4711"})
    page = visible_text(response)
    made = Decision.objects.get().created_at.astimezone(ZoneInfo("Asia/Kolkata"))
    assert response.status_code == 409
    assert f"alice decided first, at {made:%H:%M:%S}: it happened." in page
    assert "Your decision was not recorded." in page
    assert "Not recorded: It did not happen" in page
    assert "Your text Not in the export. Evidence ticket 4711" in page
    assert "data-decide" not in response.content.decode()


def test_card_offers_only_the_decisions_that_the_agent_accepts(alice: Client, call: ToolCall) -> None:
    ToolCall.objects.update(status=CallStatus.AWAITING_APPROVAL, allowed_decisions="approve,reject")
    page = alice.get(url(call)).content.decode()
    assert [kind for kind in ("approve", "edit", "reject", "respond") if f'value="{kind}"' in page] == [
        "approve",
        "reject",
    ]
    answer = {"kind": "respond", "answer": "Done by hand.", "revision": ToolCall.objects.get().revision}
    response = alice.post(url(call), answer)
    assert response.status_code == 409
    assert "The agent accepts these answers about this call: Approve, Reject." in visible_text(response)
    assert not Decision.objects.exists()


def test_stale_revision_keeps_the_form_for_another_submission(alice: Client, call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(revision=4)
    response = alice.post(url(call), LANDED)
    assert response.status_code == 409
    told = "Something new was recorded about this call while you were deciding. Your decision was not recorded."
    assert told in visible_text(response)
    content = response.content.decode()
    assert "Seen in the export.</textarea>" in content
    assert 'name="revision" value="4"' in content
    assert Decision.objects.count() == 0
    assert alice.post(url(call), {**LANDED, "revision": 4}).status_code == 302
    assert Decision.objects.get().revision == 4


def test_settled_call_cannot_be_decided(alice: Client, call: ToolCall) -> None:
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED)
    response = alice.post(url(call), LANDED)
    assert response.status_code == 409
    assert "This call does not need a decision: completed." in visible_text(response)


def test_auditor_is_refused_and_keeps_the_input(client: Client, call: ToolCall) -> None:
    make_user(name="bob")
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    response = client.post(url(call), LANDED)
    assert response.status_code == 403
    assert "Your role cannot decide calls. Your decision was not recorded. These members can: bob." in visible_text(
        response
    )
    assert "Your text Seen in the export. Result re_81f3 settled" in visible_text(response)
    assert Decision.objects.count() == 0


def test_conflict_is_a_complete_page_for_htmx(alice: Client, call: ToolCall) -> None:
    make_decision(call=call, actor="bob")
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.COMPLETED, revision=2)
    response = alice.post(url(call), LANDED, headers={"HX-Request": "true"})
    assert response.status_code == 409
    assert '<main id="main"' in response.content.decode()
    assert 'role="alert" tabindex="-1" autofocus' in response.content.decode()


# the run goes on


def lose_the_run(session_id: str) -> None:
    """Lose a run between intent and result, and let another run stop at the gate."""
    first = SyncCheckpointer()
    first.start_session(session_id, "My money back, please.", agent="refund-desk")
    first.save_checkpoint(session_id, [{"role": "user", "content": "My money back, please."}], None, 0.01)
    first.record_tool_call_issued(session_id, "call_9", "refund_card", {"order": 17}, "refund-17")
    with SyncCheckpointer() as second, pytest.raises(ReviewRequired):
        second.resume(session_id, takeover=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("form", [LANDED, FAILED, RERUN], ids=["landed", "failed", "rerun"])
def test_next_resume_uses_the_decision(alice: Client, form: dict[str, object]) -> None:
    lose_the_run("order-17")
    call = ToolCall.objects.get()
    assert "the session was taken over from a run that was still alive." in visible_text(alice.get(url(call)))
    assert alice.post(url(call), {**form, "revision": call.revision}).status_code == 302
    with SyncCheckpointer() as third:
        point = third.resume("order-17")
        assert point.finished is False
        answers = {call_id: (answer.content, answer.is_error) for call_id, answer in point.replayable.items()}
    expected = {
        "confirm_landed": {"call_9": ("re_81f3 settled", False)},
        "mark_failed": {"call_9": ("This call did not happen. Not in the export.", True)},
        "approve_rerun": {},
    }
    assert answers == expected[str(form["kind"])]


def find_addresses() -> list[tuple[str, str | None, str | None]]:
    """Return actor, decision and address of each entry of the audit trail that a person or a token caused."""
    entries = AuditEvent.objects.exclude(actor_kind=ActorKind.MACHINE).order_by("pk").values_list("actor", "details")
    read = [(actor, json.loads(details)) for actor, details in entries]
    return [(actor, details.get("decision"), details.get("address")) for actor, details in read if "call_id" in details]


def test_entry_of_a_decision_names_the_address_of_the_client(alice: Client) -> None:
    session = make_session(session_id="order-17", status=SessionStatus.NEEDS_REVIEW)
    make_run(session=session, status=RunStatus.WAITING, lease=timedelta(hours=1))
    call = make_call(session=session, verifiable=True)
    alice.post(f"{url(call)}verify/", REMOTE_ADDR="198.51.100.7")
    alice.post(url(call), FAILED, REMOTE_ADDR="198.51.100.8")
    alice.post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Too early."}, REMOTE_ADDR="198.51.100.9")
    token = ApiClient(make_token(TokenRole.APPROVER))
    assert token.post(f"/sessions/order-17/calls/{call.call_id}/decision", {**FAILED, "revision": 3}).status_code == 200
    assert find_addresses() == [
        ("alice", None, "198.51.100.7"),
        ("alice", "mark_failed", "198.51.100.8"),
        ("alice", "withdraw", "198.51.100.9"),
        ("token nightly", "mark_failed", "127.0.0.1"),
    ]


def test_entries_of_a_vote_and_of_changed_arguments_name_the_address_of_the_client(alice: Client) -> None:
    call = awaiting(approvals=2)
    changed = {"kind": "edit", "args": '{"amount": "5.00", "order": 17}', "reason": "A typing error.", "revision": 1}
    preview = alice.post(url(call), changed).content.decode()
    shown = re.findall(r'name="shown" value="(\w+)"', preview)[0]
    alice.post(url(call), {**changed, "shown": shown}, REMOTE_ADDR="198.51.100.7")
    bob = Client()
    bob.force_login(make_user(name="bob"))
    approved = {"kind": "approve", "reason": "As ordered.", "revision": 2}
    bob.post(url(call), approved, REMOTE_ADDR="198.51.100.8")
    assert find_addresses() == [("alice", "edit", "198.51.100.7"), ("bob", "approve", "198.51.100.8")]
