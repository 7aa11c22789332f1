"""Rendered messages depend on the reader and on the current state of calls."""

import pytest
from django.test import Client

from checkpoints.enums import CallStatus, Role
from checkpoints.models import Session, ToolCall
from tests.support.client_login import record_reauthentication
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_decision,
    make_message,
    make_run,
    make_session,
    make_user,
)
from tests.support.page_text import visible_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def session() -> Session:
    session = make_session()
    make_run(session=session)
    make_message(session=session, text="password: hunter22")
    ask = [{"kind": "tool_call", "id": "c1", "name": "pay", "args": {}}]
    make_message(session=session, role="assistant", blocks=ask)
    make_checkpoint(session=session)
    return session


def test_links_of_a_message_keep_the_displayed_version(session: Session, client: Client) -> None:
    make_checkpoint(session=session)
    client.force_login(make_user(name="alice", role=Role.AUDITOR))
    for version in (1, 2):
        html = client.get(f"/sessions/{session.pk}/?v={version}").content.decode()
        assert f"?v={version}&amp;at=1#m-1" in html


def test_unmasked_rendering_is_not_reused_for_others(session: Session, client: Client) -> None:
    client.force_login(make_user(name="dora", role=Role.ADMIN))
    record_reauthentication(client).post("/accounts/secrets/")
    assert "hunter22" in visible_text(client.get(f"/sessions/{session.pk}/"))
    client.post("/accounts/secrets/hide/")
    assert "hunter22" not in visible_text(client.get(f"/sessions/{session.pk}/"))


def test_changed_status_of_a_call_is_shown_at_once(session: Session, client: Client) -> None:
    client.force_login(make_user())
    address = f"/sessions/{session.pk}/"
    assert "pay No result yet not logged" in visible_text(client.get(address))
    call = make_call(session=session, call_id="c1", tool="pay", args={}, step=1, status=CallStatus.ISSUED)
    assert "pay Running" in visible_text(client.get(address))
    ToolCall.objects.filter(pk=call.pk).update(status=CallStatus.FAILED, revision=2)
    assert "pay Failed" in visible_text(client.get(address))
    make_decision(call=call)
    assert "alice — Seen in the bank's export." in visible_text(client.get(address))
