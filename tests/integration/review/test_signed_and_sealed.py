"""The way of a decision from the agent to a person and back, with seals required and decisions signed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from checkpoints import SyncCheckpointer, ToolRegistry
from checkpoints.enums import CallStatus, DecisionKind
from checkpoints.exceptions import ApprovalRequired
from checkpoints.models import Decision, ToolCall
from checkpoints.seals.decision_keys import create_key_pair
from harness_site.accounts.models import TokenRole
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import interrupt_call, start_session
from tests.integration.review.conftest import Lost
from tests.integration.review.payment_agents import url
from tests.support.api_client import ApiClient, make_token
from tests.support.factories import make_decision, make_user

KEYS = create_key_pair()
REASON = "Seen in the bank's export."
Decide = Callable[[ToolCall, str], Any]


@pytest.fixture(autouse=True)
def on_site(settings: Any) -> None:
    settings.HARNESS_SEAL_KEY = "5e" * 32
    settings.HARNESS_SEAL_REQUIRED = True
    settings.HARNESS_DECISION_SIGNING_KEY = KEYS.signing


@pytest.fixture
def on_agent(settings: Any) -> Callable[[], None]:
    def switch() -> None:
        settings.HARNESS_DECISION_SIGNING_KEY = None
        settings.HARNESS_DECISION_VERIFY_KEYS = KEYS.verifying

    return switch


def decide_on_card(call: ToolCall, kind: str) -> None:
    client = Client()
    client.force_login(make_user(name="alice"))
    form = {
        "kind": kind,
        "reason": REASON,
        "message": REASON,
        "answer": "done",
        "result": "done",
        "revision": call.revision,
    }
    assert client.get(url(call)).status_code == 200
    assert client.post(url(call), form).status_code == 302
    for page in (url(call), "/review/", "/review/?tab=decided", f"/sessions/{call.session_id}/history/"):
        assert client.get(page).status_code == 200


def decide_by_api(call: ToolCall, kind: str) -> None:
    body = {"kind": kind, "reason": REASON, "result": "done", "revision": call.revision}
    path = f"/sessions/{call.session.session_id}/calls/{call.call_id}/decision"
    assert ApiClient(make_token(TokenRole.APPROVER)).post(path, body).status_code == 200


ways = pytest.mark.parametrize("decide", [decide_on_card, decide_by_api])


@ways
@pytest.mark.parametrize(
    ("kind", "status", "runs"),
    [
        ("approve", CallStatus.COMPLETED, 1),
        ("reject", CallStatus.REJECTED, 0),
        ("respond", CallStatus.COMPLETED, 0),
    ],
)
def test_answer_about_a_call_that_awaits_approval_reaches_the_agent(
    cp: SyncCheckpointer, on_agent: Callable[[], None], decide: Decide, kind: str, status: CallStatus, runs: int
) -> None:
    tools, paid = ToolRegistry(checkpointer=start_session(cp), session_id="s"), []

    @tools.tool(side_effects={"mutate"}, requires_approval=True)
    def pay(order: int) -> str:
        paid.append(order)
        return f"paid {order}"

    with pytest.raises(ApprovalRequired):
        tools.dispatch("pay", {"order": 17}, "call_1")
    decide(ToolCall.objects.get(), kind)
    assert Decision.objects.get().signature
    on_agent()
    tools.dispatch("pay", {"order": 17}, "call_1")
    tools.dispatch("pay", {"order": 17}, "call_1")
    assert (ToolCall.objects.get().status, len(paid)) == (status, runs)


@ways
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("confirm_landed", CallStatus.COMPLETED),
        ("mark_failed", CallStatus.FAILED),
        ("approve_rerun", CallStatus.SUPERSEDED),
    ],
)
def test_answer_about_an_unknown_outcome_reaches_the_next_run(
    open_checkpointer: Open, on_agent: Callable[[], None], decide: Decide, kind: str, status: CallStatus
) -> None:
    cp, _ = interrupt_call(start_session(open_checkpointer()), open_checkpointer)
    call = ToolCall.objects.get()
    decide(call, kind)
    cp.close()
    on_agent()
    agent = open_checkpointer()
    agent.resume("s")
    if kind == "approve_rerun":
        agent.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key of call_1")
    call.refresh_from_db()
    assert call.status == status


@pytest.mark.django_db
def test_query_counts_are_independent_of_the_calls(reader: Client, lost: Lost) -> None:
    counts = []
    for number in range(3):
        lost(number)
        make_decision(call=lost(number, status=CallStatus.COMPLETED), kind=DecisionKind.CONFIRM_LANDED)
        for page in ("/review/", "/review/?tab=decided", "/sessions/"):
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert reader.get(page).status_code == 200
            counts.append((page, number, len(queries)))
    assert {(page, count) for page, number, count in counts if number == 1} == {
        (page, count) for page, number, count in counts if number == 2
    }
