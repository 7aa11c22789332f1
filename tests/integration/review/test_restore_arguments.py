"""Restoring the arguments that the agent asked for, after people have changed them."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import AuditKind, CallStatus, DecisionKind, Role
from checkpoints.formats import to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.models import AuditEvent, Decision, ToolCall
from tests.integration.review.payment_agents import APPROVE, awaiting, url
from tests.support.factories import make_decision, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db

ASKED = {"amount": "40.00", "api_key": "k-123456"}
CHANGED = {"amount": "40.00", "api_key": "k-wrong"}


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def change(client: Client, call: ToolCall, args: dict[str, Any]) -> None:
    """Preview and record changed arguments, as a person does who may not see secrets."""
    form = {"kind": "edit", "args": json.dumps(args), "reason": "New key.", "revision": call.revision}
    seen = re.search(r'name="shown" value="(\w+)"', client.post(url(call), form).content.decode())
    assert seen is not None
    assert client.post(url(call), {**form, "shown": seen[1]}).status_code == 302
    call.refresh_from_db()


def restore(client: Client, call: ToolCall, **fields: Any) -> Any:
    form = {"reason": "The key was typed wrong.", "revision": call.revision, **fields}
    return client.post(f"{url(call)}restore/", form, follow=True)


def test_masked_argument_gets_back_its_secret(alice: Client) -> None:
    call = awaiting(args=ASKED)
    change(alice, call, CHANGED)
    response = alice.get(url(call))
    assert "Your change was recorded at" in visible_text(response)
    assert response.content.decode().count("Restore the original arguments") == 1

    response = restore(alice, call)
    call.refresh_from_db()
    assert (call.status, call.args, call.revision) == (CallStatus.AWAITING_APPROVAL, to_canonical_json(ASKED), 3)
    page = visible_text(response)
    assert "May this happen?" in page
    assert "The original arguments are restored" not in page  # the next line says so
    assert "alice restored the original arguments at" in page
    assert "alice: Original arguments restored — “The key was typed wrong.”" in page
    assert "Restore the original arguments" not in page
    assert "k-123456" not in response.content.decode()
    assert "approve" not in response.context["earlier_reasons"]
    assert alice.post(url(call), {**APPROVE, "revision": 3}).status_code == 302


def test_call_that_waits_again_after_a_withdrawal_can_be_restored(alice: Client) -> None:
    call = awaiting(args=ASKED)
    change(alice, call, CHANGED)
    alice.post(url(call), {**APPROVE, "revision": 2})
    alice.post(f"{url(call)}withdraw/", {"reason": "Wrong key.", "revision": 3})
    call.refresh_from_db()
    page = visible_text(alice.get(url(call)))
    assert "the difference is masked for you Restore the original arguments" in page
    list_of_decisions = visible_text(alice.get("/review/?tab=decided"))
    assert "Decision withdrawn Waits again" in list_of_decisions
    restore(alice, call)
    call.refresh_from_db()
    assert call.args == to_canonical_json(ASKED)
    list_of_decisions = visible_text(alice.get("/review/?tab=decided"))
    assert "Original arguments restored Waits again" in list_of_decisions
    assert "with evidence" not in list_of_decisions


def test_restoring_is_in_the_audit_trail(alice: Client) -> None:
    call = awaiting(args=ASKED, call_id="rotate")
    change(alice, call, CHANGED)
    restore(alice, call)
    changed, restored = AuditEvent.objects.filter(kind=AuditKind.DECIDED).order_by("pk")
    assert "args_restored" not in (changed.details or "")
    assert json.loads(restored.details or "{}")["args_restored"] is True
    made = Decision.objects.order_by("pk").last()
    assert made is not None
    assert (made.kind, made.actor, made.reason) == (DecisionKind.EDIT, "alice", "The key was typed wrong.")
    alice.force_login(make_user(name="olga", role=Role.ADMIN))
    assert "alice restored the original arguments of " in visible_text(alice.get("/audit/"))


def test_reason_is_required(alice: Client) -> None:
    call = awaiting(args=ASKED)
    change(alice, call, CHANGED)
    response = restore(alice, call, reason=" ")
    assert response.status_code == 422
    assert "Enter a reason. It is recorded with your name." in visible_text(response)
    call.refresh_from_db()
    assert call.args == to_canonical_json(CHANGED)


def test_call_that_somebody_else_has_restored_is_refused(alice: Client) -> None:
    call = awaiting(args=ASKED)
    change(alice, call, CHANGED)
    restore(alice, call)
    response = restore(alice, call)
    assert response.status_code == 409
    assert "The arguments were not restored. Your text is still in the form." in visible_text(response)
    assert Decision.objects.count() == 2


def test_unchanged_arguments_cannot_be_restored(alice: Client) -> None:
    call = awaiting(args=ASKED)
    assert "Restore the original" not in visible_text(alice.get(url(call)))
    assert restore(alice, call).status_code >= 400
    assert Decision.objects.count() == 0


def test_arguments_that_are_not_those_of_the_agent_are_not_restored(alice: Client) -> None:
    call = awaiting(args=CHANGED, asked_args_digest=digest_text(to_canonical_json(ASKED)))
    evidence = to_canonical_json({"args_before": to_canonical_json({"amount": "4000.00"})})
    make_decision(call=call, kind=DecisionKind.EDIT, evidence=evidence)
    assert "Restore the original" not in visible_text(alice.get(url(call)))
    assert restore(alice, call).status_code >= 400
    call.refresh_from_db()
    assert call.args == to_canonical_json(CHANGED)


def test_restored_question_offers_its_options_again(alice: Client) -> None:
    value = {"question": "Which supplier?", "options": ["Nordlicht", "Papier"]}
    call = awaiting(args={"value": value}, tool="interrupt", call_id="q1", idempotency_key="framework-interrupt:q1:0")
    change(alice, call, {"value": {**value, "options": ["Nordlicht"]}})
    assert "Approve the changed value" in alice.get(url(call)).content.decode()
    page = restore(alice, call)
    assert "Approve the changed value" not in page.content.decode()
    assert "Papier" in visible_text(page)
