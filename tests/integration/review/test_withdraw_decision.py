"""Withdrawal of decisions on the card."""

import json
import re

import pytest
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.formats import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.models import Decision, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from harness_site.core.masking.replace_digests_by_fingerprints import compute_keyed_fingerprint_of_digest
from tests.integration.review.interrupted_calls import lost_call
from tests.integration.review.payment_agents import APPROVE, awaiting, url
from tests.support.page_text import visible_text

FAILED = {"kind": "mark_failed", "reason": "Not in the export.", "revision": 1}


def test_unused_decision_is_withdrawn_with_a_reason(people: dict[str, Client]) -> None:
    call = lost_call()
    people["alice"].post(url(call), FAILED)
    assert "An approver can withdraw it." in visible_text(people["carol"].get(url(call)))
    refused = people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": " "})
    assert refused.status_code == 422
    assert "Enter a reason. It is recorded with your name." in visible_text(refused)

    answer = people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "It is in the export."})
    assert (answer.status_code, ToolCall.objects.get().status) == (302, CallStatus.INTERRUPTED)
    response = people["alice"].get(url(call))
    assert re.search(r'<s class="former">.*It did not happen.*</s>', response.content.decode())
    page = visible_text(response)
    assert "bob withdrew your decision at " in page
    assert "It is in the export." in page
    assert "You withdrew alice’s decision at " in visible_text(people["bob"].get(url(call)))
    assert "bob withdrew alice’s decision at " in visible_text(people["carol"].get(url(call)))
    assert "bob: Decision withdrawn — “It is in the export.”" in page
    assert "bob withdrew the decision" in visible_text(people["carol"].get("/review/"))
    assert "bob: “It is in the export.”" in visible_text(people["carol"].get("/review/?tab=decided"))

    people["alice"].post(url(call), {**FAILED, "kind": "confirm_landed", "result": "paid", "revision": 3})
    page = visible_text(people["alice"].get(url(call)))
    assert "Decided: it happened" in page
    assert "bob withdrew" not in page


def test_used_decision_is_kept_and_the_page_explains_what_to_do(people: dict[str, Client]) -> None:
    call = lost_call()
    people["alice"].post(url(call), FAILED)
    Session.objects.update(gate_opened_at=clock.now())  # as when a run passes the gate
    page = visible_text(people["bob"].get(url(call)))
    assert "The run has already used this decision, so it cannot be withdrawn." in page
    assert "The agent was told that the call did not happen. If it did, correct its effect" in page
    assert "fork the session at version 1" in page

    answer = people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Wrong."})
    assert answer.status_code == 409
    assert "The run has already used the decision of alice (it did not happen)." in visible_text(answer)
    assert Decision.objects.filter(kind=DecisionKind.WITHDRAW).count() == 0


@pytest.mark.parametrize(
    ("is_question", "kind", "sent", "advice"),
    [
        (False, "reject", {"message": "No."}, "The call did not run, so its tool changed nothing."),
        (False, "respond", {"answer": "Paid."}, "The call did not run, so its tool changed nothing."),
        (False, "approve", {"reason": "Yes."}, "Correct the effect itself, in the system that the tool changed."),
        (True, "respond", {"answer": "Berlin."}, "The agent has continued with this answer."),
    ],
)
def test_advice_about_a_used_decision_fits_what_was_decided(
    people: dict[str, Client], is_question: bool, kind: str, sent: dict[str, str], advice: str
) -> None:
    key = f"{INTERRUPT_KEY_PREFIX}q1:0"
    question = {"tool": INTERRUPT_TOOL, "args": {"value": "Where to?"}, "call_id": "q1", "idempotency_key": key}
    call = awaiting(**(question if is_question else {}))
    people["alice"].post(url(call), {"kind": kind, "revision": 1, **sent})
    Session.objects.update(gate_opened_at=clock.now())
    if kind == "approve":
        ToolCall.objects.update(status=CallStatus.COMPLETED)
    page = visible_text(people["bob"].get(url(call)))
    assert advice in page
    assert page.count("in the system that the tool changed") == (kind == "approve")
    if is_question:
        assert "The run has already used this answer, so it cannot be withdrawn." in page
        assert "Add a comment, so that others know that the answer was wrong." in page

    refused = visible_text(people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Wrong."}))
    said = {"reject": "rejected", "respond": "responded instead", "approve": "approved"}[kind]
    used = "answer of alice (answered)" if is_question else f"decision of alice ({said})"
    assert f"The run has already used the {used}. It can no longer be withdrawn. {advice}" in " ".join(refused.split())


def test_approval_is_withdrawn_before_the_call_runs(people: dict[str, Client]) -> None:
    call = awaiting()
    people["alice"].post(url(call), APPROVE)
    assert visible_text(people["alice"].get(url(call))).count("Withdraw the decision") == 2
    people["alice"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Wrong payee."})
    assert "You withdrew your decision at " in visible_text(people["alice"].get(url(call)))
    assert ToolCall.objects.get().status == CallStatus.AWAITING_APPROVAL
    assert people["bob"].post(f"{url(call)}withdraw/", {"revision": 3, "reason": "Late."}).status_code == 409


def test_withdrawal_says_that_changed_arguments_stay(people: dict[str, Client]) -> None:
    stay = "The changed arguments stay as they are"
    call = awaiting()
    changed = {"amount": "30.00", "order": 17}
    seen = compute_keyed_fingerprint_of_digest(digest_text(to_canonical_json(changed)))
    edit = {"kind": "edit", "args": json.dumps(changed), "reason": "Too much.", "revision": 1, "shown": seen}
    assert people["alice"].post(url(call), edit).status_code == 302
    people["alice"].post(url(call), APPROVE | {"revision": ToolCall.objects.get().revision})
    assert ToolCall.objects.get().status == CallStatus.APPROVED
    revision = ToolCall.objects.get().revision
    assert stay not in visible_text(people["alice"].get(url(call)))
    people["alice"].post(f"{url(call)}withdraw/", {"revision": revision, "reason": "Not yet."})
    assert stay in visible_text(people["alice"].get(url(call)))


def test_withdrawal_says_that_it_cancels_the_approvals_of_others(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), APPROVE)
    people["bob"].post(url(call), {**APPROVE, "revision": 2})
    cancelled = "The approvals of other people are cancelled too: everybody has to decide again."
    assert f"the call waits for a new decision. {cancelled}" in visible_text(people["bob"].get(url(call)))
    people["bob"].post(f"{url(call)}withdraw/", {"revision": 3, "reason": "Wrong payee."})
    assert ToolCall.objects.get().status == CallStatus.AWAITING_APPROVAL
    told = "All approvals are cancelled with it: everybody has to decide again."  # also that of the reader
    assert told in visible_text(people["alice"].get(url(call)))
    in_queue = f"bob withdrew the decision · {cancelled}"
    assert in_queue in visible_text(people["alice"].get("/review/?tab=awaiting"))
    people["alice"].post(url(call), {**APPROVE, "revision": 4})
    for page in (url(call), "/review/?tab=awaiting"):  # alice has decided again
        shown = visible_text(people["alice"].get(page))
        assert cancelled not in shown
        assert told not in shown


def test_withdrawal_of_a_rejection_by_one_person_cancels_nothing_of_others(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["bob"].post(url(call), {"kind": "reject", "message": "No.", "revision": 1})
    page = visible_text(people["bob"].get(url(call)))
    assert "No agent has used this decision yet." in page
    assert "other people are cancelled" not in page
    people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Mistake."})
    page = visible_text(people["alice"].get(url(call)))
    assert "bob withdrew their decision" in page
    page += visible_text(people["alice"].get("/review/?tab=awaiting"))
    assert "bob withdrew the decision" in page
    assert "other people are cancelled" not in page


def test_vote_is_withdrawn_before_the_others_agree(people: dict[str, Client]) -> None:
    call = awaiting(approvals=2)
    people["alice"].post(url(call), APPROVE)
    page = visible_text(people["alice"].get(url(call)))
    assert "Withdraw your decision Nothing runs because of it yet. The decisions of others stay." in page
    assert page.count("Withdraw your decision") == 2  # what opens the form, and its button
    assert "Withdraw the decision" not in page
    assert "Withdraw your decision" not in visible_text(people["bob"].get(url(call)))
    assert people["bob"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Not mine."}).status_code == 409

    assert people["alice"].post(f"{url(call)}withdraw/", {"revision": 2, "reason": "Wrong payee."}).status_code == 302
    page = visible_text(people["alice"].get(url(call)))
    assert "1 of 2 decisions" not in page
    assert "alice: Own decision withdrawn — “Wrong payee.”" in page
    assert "everybody has to decide again" not in page
    assert "Withdraw your decision" not in page
    late = people["bob"].post(url(call), {**APPROVE, "revision": 2})
    assert late.status_code == 409
    assert "alice withdrew the decision at " in visible_text(late)
    for number, name in enumerate(("bob", "alice")):
        assert people[name].post(url(call), {**APPROVE, "revision": 3 + number}).status_code == 302
    assert ToolCall.objects.get().status == CallStatus.APPROVED
    page = visible_text(people["bob"].get(url(call)))
    assert "bob · " in page
    assert "alice: Approved approval 2 of 2" in page
