"""Review pages just after an agent was killed, before any resume or sweep."""

from __future__ import annotations

import pytest
from django.test import Client

from checkpoints import SyncCheckpointer
from checkpoints.models import Run, ToolCall
from tests.conftest import StartChild
from tests.integration.checkpoints.sessions import session_agents
from tests.support.factories import make_user
from tests.support.page_text import visible_text
from tests.support.processes import database_url


@pytest.fixture
def alice(client: Client, cp: SyncCheckpointer) -> Client:
    client.force_login(make_user(name="alice"))
    return client


def kill_agent(start_child: StartChild) -> ToolCall:
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")
    child.kill()
    return ToolCall.objects.get(status="issued")


def test_queue_lists_the_call_at_once(alice: Client, start_child: StartChild) -> None:
    call = kill_agent(start_child)
    page = alice.get("/review/")

    assert f'href="/review/calls/{call.pk}/"' in page.content.decode()
    call.refresh_from_db()
    assert (call.status, call.reason) == ("interrupted", "run_lost")


def test_card_accepts_a_decision_at_once(alice: Client, start_child: StartChild) -> None:
    call = kill_agent(start_child)
    page = alice.get(f"/review/calls/{call.pk}/")
    assert "Did this happen?" in visible_text(page)
    revision = page.context["form"].initial["revision"]
    response = alice.post(
        f"/review/calls/{call.pk}/", {"kind": "mark_failed", "reason": "Not in the ledger.", "revision": revision}
    )

    assert response.status_code == 302
    call.refresh_from_db()
    assert call.status == "failed"


def test_running_call_is_not_listed(alice: Client, start_child: StartChild) -> None:
    child = start_child(session_agents.pay_for_ever, url=database_url())
    child.expect("inside")
    call = ToolCall.objects.get()
    alice.get("/review/")
    alice.get(f"/review/calls/{call.pk}/")

    assert (ToolCall.objects.get().status, Run.objects.get().status) == ("issued", "running")
