"""Edited arguments: comparison with the original before and after they are recorded."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from checkpoints.decisions.actors import Actor
from checkpoints.decisions.decide import record_decision
from checkpoints.enums import CallStatus, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.models import Decision, ToolCall
from checkpoints.store.database_client_state import Store
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from harness_site.review.forms import ApprovalForm
from harness_site.review.record_decision_from_form import build_decision_target, record_decision_from_form
from harness_site.review.views import decision_card
from tests.integration.review.payment_agents import APPROVE, awaiting, url
from tests.support.factories import make_decision, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

ASKED = {"amount": "40.00", "order": 17}
CHANGED = {"amount": "4.00", "order": 17}
#: A change without a warning; the one above takes a tenth.
LESS = {"amount": "30.00", "order": 17}


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def edit(args: Any, **fields: Any) -> dict[str, Any]:
    text = args if isinstance(args, str) else json.dumps(args)
    return {"kind": "edit", "args": text, "reason": "Too much.", "revision": 1, **fields}


def digest(args: Any) -> str:
    return digest_text(to_canonical_json(args))


def seen(args: Any) -> str:
    return compute_keyed_fingerprint_of_digest(digest(args))


def shown(content: bytes) -> list[str]:
    return re.findall(r'name="shown" value="(\w+)"', content.decode())


def test_form_starts_with_the_current_arguments(alice: Client) -> None:
    content = alice.get(url(awaiting())).content.decode()
    assert "{\n  &quot;amount&quot;: &quot;40.00&quot;,\n  &quot;order&quot;: 17\n}</textarea>" in content


def test_change_is_shown_before_it_is_recorded(alice: Client) -> None:
    call = awaiting()
    response = alice.post(url(call), edit(CHANGED))
    assert response.status_code == 200
    assert "Not recorded yet. Check the changes below, then record them." in visible_text(response)
    assert "1 change amount before 40.00 → now 4.00" in visible_text(response)
    assert shown(response.content) == [seen(CHANGED)]
    assert Decision.objects.count() == 0

    response = alice.post(url(call), edit(CHANGED, shown=seen(CHANGED)))
    assert response.status_code == 302
    call.refresh_from_db()
    made = Decision.objects.get()
    assert (call.status, call.args, call.revision) == (CallStatus.AWAITING_APPROVAL, to_canonical_json(CHANGED), 2)
    assert (made.kind, made.actor, made.args_digest) == ("edit", "alice", digest(CHANGED))
    assert json.loads(made.evidence or "") == {"args_before": to_canonical_json(ASKED)}


def test_sentence_of_the_call_has_the_changed_value(alice: Client) -> None:
    call = awaiting(sentence="Pay 40.00 for order 17", sentence_template="Pay {amount} for order {order}")
    assert "1 change Pay 4.00 for order 17 amount before" in visible_text(alice.post(url(call), edit(CHANGED)))
    alice.post(url(call), edit(CHANGED, shown=seen(CHANGED)))
    page = visible_text(alice.get(url(call)))
    assert "What will happen Pay 4.00 for order 17 pay · " in page
    assert "Pay 40.00" not in page


def test_modified_change_is_shown_again_first(alice: Client) -> None:
    call = awaiting()
    response = alice.post(url(call), edit({**ASKED, "amount": "4000.00"}, shown=seen(CHANGED)))
    assert (response.status_code, Decision.objects.count()) == (200, 0)
    assert "before 40.00 → now 4000.00" in visible_text(response)


def test_edited_call_requires_another_approval(alice: Client) -> None:
    call = awaiting()
    recorded = alice.post(url(call), edit(CHANGED, shown=seen(CHANGED)), follow=True)
    assert "You changed the arguments: may this happen now?" in visible_text(recorded)
    assert "You may approve the changed call below, or leave it to another approver." in visible_text(recorded)
    assert "Back to review" in visible_text(recorded)
    page = visible_text(alice.get(url(call)))
    assert "may this happen now? Awaiting approval" in page
    assert "alice changed the arguments at " in page
    assert "“Too much.” amount before 40.00 → now 4.00" in page
    assert "alice: Arguments changed — “Too much.”" in page
    recorded = alice.get(url(call))
    assert not recorded.context["form"]["reason"].value()
    assert recorded.context["earlier_reasons"]["approve"] == ["Too much."]

    stale = alice.post(url(call), APPROVE)
    assert stale.status_code == 409
    assert re.search(
        r"alice changed the arguments at [:0-9]+\. Your decision was not recorded\.",
        visible_text(stale),
    )
    assert alice.post(url(call), {**APPROVE, "revision": 2}).status_code == 302
    call.refresh_from_db()
    assert (call.status, call.args) == (CallStatus.APPROVED, to_canonical_json(CHANGED))


def test_change_is_recorded_and_approved_together_once_it_was_shown(alice: Client) -> None:
    call = awaiting()
    assert "Record and approve" in visible_text(alice.get(url(call)))
    not_shown = alice.post(url(call), {**edit(LESS), "then": "approve"})
    assert (not_shown.status_code, Decision.objects.count()) == (200, 0)
    assert "Not recorded yet." in visible_text(not_shown)
    assert alice.post(url(call), {**edit(LESS, shown=seen(LESS)), "then": "approve"}).status_code == 302
    call.refresh_from_db()
    assert (call.status, call.args) == (CallStatus.APPROVED, to_canonical_json(LESS))
    recorded = Decision.objects.order_by("pk").values_list("kind", "actor", "reason", "final")
    assert list(recorded) == [
        (DecisionKind.EDIT, "alice", "Too much.", True),
        (DecisionKind.APPROVE, "alice", "Too much.", True),
    ]


def test_change_with_a_warning_is_approved_in_a_step_of_its_own(alice: Client) -> None:
    call = awaiting()
    form = edit(CHANGED, shown=seen(CHANGED))
    answer = alice.post(url(call), {**form, "then": "approve"})
    assert answer.status_code == 422
    told = (
        "Nothing was recorded. The new arguments have warnings: record the changes first, then approve the call in a "
        "second step."
    )
    assert re.search(rf'role="alert">.*<span>{told}</span>', answer.content.decode())
    assert "amount is now a tenth of what it was or less." in visible_text(answer)
    assert Decision.objects.count() == 0
    assert alice.post(url(call), form).status_code == 302
    page = visible_text(alice.get(url(call)))
    assert "amount is now a tenth of what it was or less." in page
    call.refresh_from_db()
    assert (call.status, call.args) == (CallStatus.AWAITING_APPROVAL, to_canonical_json(CHANGED))
    assert alice.post(url(call), {**APPROVE, "revision": 2}).status_code == 302


def test_change_of_somebody_else_in_between_is_not_approved(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    call = awaiting()
    record = record_decision_from_form

    def record_and_change_again(store: Store, call: ToolCall, actor: Actor, form: ApprovalForm) -> None:
        record(store, call, actor, form)
        target = build_decision_target(call, 2)
        other = {**CHANGED, "amount": "5.00"}
        record_decision(store, target, DecisionKind.EDIT, actor="bob", reason="Five.", new_args=other)

    monkeypatch.setattr(decision_card, "record_decision_from_form", record_and_change_again)
    make_user(name="bob", role=Role.APPROVER)
    refused = alice.post(url(call), {**edit(LESS, shown=seen(LESS)), "then": "approve"})
    assert refused.status_code == 409
    told = "Somebody has changed the arguments after you. Your change is recorded, but you have not approved the call."
    assert told in visible_text(refused)
    call.refresh_from_db()
    assert call.status == CallStatus.AWAITING_APPROVAL
    assert [made.kind for made in Decision.objects.all()] == [DecisionKind.EDIT, DecisionKind.EDIT]


@pytest.mark.parametrize("approvals", [1, 2])
def test_only_one_approver_can_record_and_approve_together(alice: Client, approvals: int) -> None:
    call = awaiting(approvals=approvals)
    page = visible_text(alice.get(url(call)))
    assert "Nothing runs yet." in page
    assert ("Record and approve Runs once the session continues." in page) is (approvals == 1)
    assert ("Then approve the changed call as well" in page) is (approvals == 1)
    assert ("Nothing runs yet: other people have to approve the changed call, you cannot." in page) is (approvals == 2)
    answer = alice.post(url(call), {**edit(LESS, shown=seen(LESS)), "then": "approve"})
    assert answer.status_code == (302 if approvals == 1 else 409)
    call.refresh_from_db()
    assert call.status == (CallStatus.APPROVED if approvals == 1 else CallStatus.AWAITING_APPROVAL)
    assert Decision.objects.filter(kind=DecisionKind.EDIT, final=True).count() == 1


def test_reason_of_an_own_edit_is_offered_but_fills_in_no_answer(alice: Client) -> None:
    call = awaiting()
    alice.post(url(call), edit(CHANGED, shown=seen(CHANGED)))
    page = alice.get(url(call)).content.decode()
    for shown_with in ("approve", "no-answer"):
        offer = rf'"consequence {shown_with} until-decided">\s*<div class="needs-js earlier-reasons.*>Too much\.<'
        assert re.search(offer, page), shown_with
    assert not re.search(r"<textarea[^>]*>\s*Too much\.", page)
    again = {**CHANGED, "amount": "5.00"}
    for answer in (edit(again, shown=seen(again), revision=2, reason=""), {**APPROVE, "revision": 2, "reason": ""}):
        assert "Enter a reason. It is recorded with your name." in visible_text(alice.post(url(call), answer))
    assert [made.reason for made in Decision.objects.all()] == ["Too much."]


def test_second_change_is_compared_with_the_current_arguments_and_with_the_original(alice: Client) -> None:
    call = awaiting()
    alice.post(url(call), edit(CHANGED, shown=seen(CHANGED)))
    response = alice.post(url(call), edit({**CHANGED, "order": 18}, revision=2))
    told = (
        "1 change order before 17 → now 18 Compare with what the agent asked for amount before 40.00 → now 4.00 order"
    )
    assert told in visible_text(response)
    assert "Change at least one argument." in visible_text(alice.post(url(call), edit(CHANGED, revision=2)))
    assert "Compared with what the agent asked for:" not in visible_text(alice.get(url(call)))
    again = {**CHANGED, "amount": "5.00"}
    assert alice.post(url(call), edit(again, revision=2, shown=seen(again))).status_code == 302
    page = visible_text(alice.get(url(call)))
    assert "Compared with what the agent asked for: amount before 40.00 → now 5.00" in page
    assert "These are the arguments that the agent asked for." in visible_text(
        alice.post(url(call), edit(ASKED, revision=3))
    )
    assert alice.post(url(call), edit(ASKED, revision=3, shown=seen(ASKED))).status_code == 302
    assert ToolCall.objects.get().args == to_canonical_json(ASKED)
    page = visible_text(alice.get(url(call)))
    assert "alice restored the original arguments at" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"amount": }', "This is not JSON: “}” cannot stand at line 1, column 12."),
        ('{\n"amount": "4"\n"order": 17}', "This is not JSON: a comma is missing before line 3, column 1."),
        ("[1]", "Enter a JSON object: names and values between curly brackets."),
        ('{"amount": NaN}', "This cannot be read as arguments: NaN is not JSON."),
        ('{"amount": 1e999}', "This cannot be read as arguments: the number 1e999 is too large."),
        (ASKED, "Change at least one argument. These are the current ones."),
        ("[" * 100_000, "This cannot be read as arguments:"),
    ],
)
def test_invalid_change_is_refused_with_its_position(alice: Client, text: Any, words: str) -> None:
    call = awaiting()
    response = alice.post(url(call), edit(text))
    assert (response.status_code, Decision.objects.count()) == (422, 0)
    assert words in visible_text(response)
    written = alice.post(f"{url(call)}change/", {"args": edit(text)["args"], "revision": 1})
    assert written.status_code == 200
    assert ("No argument is changed yet." if text is ASKED else words) in visible_text(written)


def test_change_is_shown_while_typing(alice: Client) -> None:
    response = alice.post(f"{url(awaiting())}change/", {"args": json.dumps({"amount": "40.00", "note": "Monday"})})
    assert visible_text(response) == (
        "2 changes note added now Monday order removed before 17 2 changes "
        "The agent did not send note. If the tool has no such argument, it may refuse the call. "
        "The agent did not send note. If the tool has no such argument, it may refuse the call."
    )
    assert shown(response.content) == [seen({"amount": "40.00", "note": "Monday"})]
    assert Decision.objects.count() == 0


def test_decided_call_cannot_be_edited(alice: Client) -> None:
    call = awaiting()
    make_decision(call=call, kind=DecisionKind.APPROVE)
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.APPROVED, revision=call.revision + 1)
    assert visible_text(alice.post(f"{url(call)}change/", {"args": json.dumps(CHANGED)})) == ""


def test_masked_values_keep_their_originals(alice: Client) -> None:
    call = awaiting(args={"amount": "40.00", "api_key": "k-123456"})
    content = alice.get(url(call)).content.decode()
    assert "k-123456" not in content
    changed = {"amount": "4.00", "api_key": "‹masked›"}
    kept = {"amount": "4.00", "api_key": "k-123456"}
    response = alice.post(url(call), edit(changed))
    assert "1 change amount before 40.00 → now 4.00" in visible_text(response)
    assert alice.post(url(call), edit(changed, shown=seen(kept))).status_code == 302
    assert ToolCall.objects.get().args == to_canonical_json(kept)


def test_change_of_a_masked_value_is_reported_without_the_value(alice: Client) -> None:
    call = awaiting(args={"api_key": "k-123456"})
    response = alice.post(url(call), edit({"api_key": "k-654321"}))
    assert "api_key ‹masked› the difference is masked for you" in visible_text(response)
    assert "k-123456" not in response.content.decode()


def test_invisible_characters_are_made_visible(alice: Client) -> None:
    call = awaiting(args={"name": "a\u202eb\ud800", "order": 17})
    content = alice.get(url(call)).content.decode()
    assert "a\\u202eb\\ud800" in content
    changed = {"name": "a\u202eb\ud800", "order": 18}
    text = '{"name": "a\\u202eb\\ud800", "order": 18}'
    assert alice.post(url(call), edit(text, shown=seen(changed))).status_code == 302
    assert ToolCall.objects.get().args == to_canonical_json(changed)


def test_long_arguments_cannot_be_edited(alice: Client) -> None:
    call = awaiting(args={"note": "x" * 100_000})
    assert 'value="edit"' not in alice.get(url(call)).content.decode()
    response = alice.post(url(call), edit({"note": "y"}))
    assert response.status_code == 422
    assert Decision.objects.count() == 0


def test_auditor_cannot_edit_arguments(client: Client) -> None:
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    assert client.post(f"{url(awaiting())}change/", {"args": "{}"}).status_code == 403
