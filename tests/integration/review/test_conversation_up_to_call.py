"""The conversation on the decision page, of calls whose messages were saved before, after, or not at all."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.models import Checkpoint, Session, ToolCall
from checkpoints.models.tool_calls_and_results import INTERRUPT_KEY_PREFIX, INTERRUPT_TOOL
from tests.integration.review.payment_agents import awaiting, url
from tests.support.factories import THEN, make_checkpoint, make_decision, make_message, make_user
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db
QUESTION = "Is the customer a reseller?"


@pytest.fixture
def alice(client: Client) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def question(**fields: Any) -> ToolCall:
    """Create a question that was logged before the first version was saved, as a graph does."""
    key = f"{INTERRUPT_KEY_PREFIX}q1:0"
    given = {"tool": INTERRUPT_TOOL, "args": {"value": QUESTION}, "sentence": QUESTION, "side_effects": "read"}
    return awaiting(call_id="q1", idempotency_key=key, step=0, **{**given, **fields})


def save(session: Session, role: str, seconds: float, **message: Any) -> None:
    make_message(session=session, role=role, **message)
    version = make_checkpoint(session=session)
    Checkpoint.objects.filter(pk=version.pk).update(created_at=THEN + timedelta(seconds=seconds))


def around(reader: Client, call: ToolCall) -> str:
    return visible_text(reader.get(url(call))).partition("Around the ")[2].partition("Comments")[0]


def test_question_is_shown_after_the_messages_that_were_saved_later(alice: Client) -> None:
    call = question()
    save(call.session, "user", 0.1, text="Please send an invoice without VAT.")
    save(call.session, "assistant", 0.2, text="I need to know that first.")
    text = around(alice, call)
    assert (
        text.index("without VAT")
        < text.index("I need to know")
        < text.index("The question This is the question above.")
    )
    assert "Open the session" in text
    assert "at this call" not in text
    assert f'href="/sessions/{call.session_id}/?v=2">Open the session<' in alice.get(url(call)).content.decode()


def test_answered_question_is_shown_without_what_followed_its_answer(alice: Client) -> None:
    call = question(status=CallStatus.COMPLETED, result="Yes, since 2019.", settled_at=THEN + timedelta(seconds=60))
    save(call.session, "user", 0.1, text="Please send an invoice without VAT.")
    save(call.session, "assistant", 90, text="Here it is.")
    make_decision(
        call=call, kind=DecisionKind.RESPOND, result="Yes, since 2019.", created_at=THEN + timedelta(seconds=60)
    )
    text = around(alice, call)
    assert "without VAT" in text
    assert "Here it is" not in text
    assert "?v=1" in alice.get(url(call)).content.decode()


def test_withdrawn_question_is_shown_with_the_messages_until_then(alice: Client) -> None:
    call = question(status=CallStatus.DISCARDED, settled_at=THEN + timedelta(seconds=60))
    save(call.session, "user", 0.1, text="All good now.")
    save(call.session, "assistant", 90, text="I closed the ticket.")
    assert "All good now." in around(alice, call)
    assert "I closed the ticket." not in around(alice, call)


def test_call_whose_message_was_saved_after_it_is_found_there(alice: Client) -> None:
    call = awaiting(call_id="c1", step=1)
    save(call.session, "user", 0, text="Pay the invoice.")
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00", "order": 17}}]
    save(call.session, "assistant", 0.1, blocks=asked)
    text = around(alice, call)
    assert "Open the session at this call" in text
    assert "This is the call above." in text


def test_call_whose_message_came_with_its_result_is_found_there(alice: Client) -> None:
    settled = {"status": CallStatus.COMPLETED, "result": "paid", "settled_at": THEN + timedelta(seconds=5)}
    call = awaiting(call_id="c1", step=1, answered_version=2, **settled)
    save(call.session, "user", 0, text="Pay the invoice.")
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00", "order": 17}}]
    save(call.session, "assistant", 90, blocks=asked)
    assert "This is the call above." in around(alice, call)


def test_undecided_call_is_shown_where_its_result_was_saved_without_what_followed(alice: Client) -> None:
    call = awaiting(call_id="c1", step=1, answered_version=2)
    save(call.session, "user", 0, text="Pay the invoice.")
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00", "order": 17}}]
    save(call.session, "assistant", 0.1, blocks=asked)
    save(call.session, "user", 0.2, text="Is it paid?")
    text = around(alice, call)
    assert "This is the call above." in text
    assert "Is it paid?" not in text


def test_only_the_heading_says_what_became_of_the_call(alice: Client) -> None:
    failed = {"status": CallStatus.FAILED, "result": "Not in the export.", "settled_at": THEN + timedelta(seconds=5)}
    call = awaiting(call_id="c1", step=1, interrupted_at=THEN, **failed)
    make_decision(call=call, kind=DecisionKind.MARK_FAILED, reason="Not in the export.")
    asked = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {"amount": "40.00", "order": 17}}]
    save(call.session, "assistant", 0.1, blocks=asked)
    text = around(alice, call)
    assert "This is the call above." in text
    assert "Failed" not in text


def test_guarded_call_without_a_message_follows_the_last_ones(alice: Client) -> None:
    call = awaiting(call_id="c1", step=1, sentence="Pay order 17")
    save(call.session, "user", 0, text="Pay the invoice.")
    text = around(alice, call)
    assert text.index("Pay the invoice.") < text.index("The call This is the call above.")
    assert "Open the session" in text


def test_session_without_messages_says_so_and_has_the_link(alice: Client) -> None:
    call = question()
    assert "The session has no messages before this question." in around(alice, call)
    assert f'href="/sessions/{call.session_id}/">Open the session<' in alice.get(url(call)).content.decode()
