"""Audit entries for reading sessions."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from checkpoints.audit import insert_unchained_events
from checkpoints.db import clock
from checkpoints.enums import ActorKind, AuditKind, Role
from checkpoints.models import AuditEvent
from harness_site.audit import session_read_audit_middleware
from harness_site.search import indexer
from harness_site.sessions import urls as session_links
from tests.support.factories import (
    make_call,
    make_checkpoint,
    make_message,
    make_run,
    make_session,
    make_user,
    make_workspace,
)

pytestmark = pytest.mark.django_db
PIXEL = "data:image/png;base64,AAAA"
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}

PAGES = [
    "/sessions/{session}/",
    "/sessions/{session}/?v=1",
    "/sessions/{session}/messages/0/",
    "/sessions/{session}/messages/0/images/1/",
    "/sessions/{session}/messages/0/audio/1/",
    "/sessions/{session}/versions/",
    "/sessions/{session}/compare/?a=1&b=2",
    "/sessions/{session}/calls/",
    "/sessions/{session}/calls/{call}/",
    "/sessions/{session}/plan/",
    "/sessions/{session}/history/",
    "/review/calls/{call}/",
]


@pytest.fixture
def numbers() -> dict[str, int]:
    session = make_session()
    make_run(session=session)
    make_message(session=session, blocks=[{"kind": "text", "text": "Look."}, {"kind": "image", "url": PIXEL}, SOUND])
    make_checkpoint(session=session)
    make_checkpoint(session=session)
    return {"session": session.pk, "call": make_call(session=session).pk}


def seen() -> list[tuple[str, int | None]]:
    return list(AuditEvent.objects.filter(kind="viewed").order_by("pk").values_list("actor", "session_id"))


@pytest.mark.parametrize("page", PAGES)
def test_every_session_page_creates_an_entry(client: Client, numbers: dict[str, int], page: str) -> None:
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    assert client.get(page.format(**numbers)).status_code == 200
    assert seen() == [("carol", numbers["session"])]


def test_one_entry_per_reader_and_session(client: Client, numbers: dict[str, int]) -> None:
    for name in ("alice", "carol"):
        client.force_login(make_user(name=name))
        for page in PAGES:
            client.get(page.format(**numbers))
    assert seen() == [("alice", numbers["session"]), ("carol", numbers["session"])]


def test_later_visit_creates_another_entry(client: Client, numbers: dict[str, int]) -> None:
    client.force_login(make_user())
    client.get(f"/sessions/{numbers['session']}/")
    AuditEvent.objects.update(created_at=clock.now() - session_read_audit_middleware.ONCE_IN - timedelta(seconds=1))
    client.get(f"/sessions/{numbers['session']}/")
    assert len(seen()) == 2


def test_live_updates_belong_to_the_same_visit(client: Client, numbers: dict[str, int]) -> None:
    client.force_login(make_user())
    client.get(f"/sessions/{numbers['session']}/")
    AuditEvent.objects.update(created_at=clock.now() - session_read_audit_middleware.ONCE_IN - timedelta(hours=3))
    client.get(f"/sessions/{numbers['session']}/", headers={"HX-Request": "true"})
    assert len(seen()) == 1


def test_request_headers_do_not_suppress_the_entry(client: Client, numbers: dict[str, int]) -> None:
    client.force_login(make_user())
    client.get(f"/sessions/{numbers['session']}/", headers={"HX-Request": "true"})
    assert seen() == [("alice", numbers["session"])]


def test_refused_request_creates_no_entry(client: Client, numbers: dict[str, int]) -> None:
    foreign = make_session(workspace=make_workspace(slug="elsewhere"))
    client.get(f"/sessions/{numbers['session']}/")
    client.force_login(make_user())
    client.get(f"/sessions/{foreign.pk}/")
    client.get(f"/sessions/{numbers['session']}/?v=99")
    assert seen() == []


def excerpts() -> list[tuple[str, int | None, str]]:
    found = AuditEvent.objects.filter(kind="excerpted").order_by("session_id")
    return [(event.actor, event.session_id, json.loads(event.details)["page"]) for event in found]


def test_search_and_call_lists_create_an_entry_for_each_session(client: Client) -> None:
    one, two, titled = make_session(title="x"), make_session(title="x"), make_session(title="a lamp")
    for session in (one, two):
        make_message(session=session, text="the lamp, again a lamp")
    while indexer.index_next_batch_of_each_kind():
        pass
    client.force_login(make_user(name="carol", role=Role.AUDITOR))
    for _ in range(2):
        assert client.get("/sessions/?q=lamp").content.decode().count('<li id="session-') == 3
    assert excerpts() == [("carol", one.pk, "search"), ("carol", two.pk, "search")]
    assert "lamp" not in "".join(AuditEvent.objects.values_list("details", flat=True))
    make_call(session=two), make_call(session=titled)
    client.get("/calls/")
    assert excerpts()[2:] == [("carol", titled.pk, "tool calls")]
    # Having seen a part is not having read it; having read it, one has seen every part.
    client.get(f"/sessions/{one.pk}/")
    assert seen() == [("carol", one.pk)]
    AuditEvent.objects.filter(kind="excerpted").delete()
    client.get("/sessions/?q=lamp")
    assert excerpts() == [("carol", two.pk, "search")]


def test_session_lists_create_no_entry(client: Client, numbers: dict[str, int]) -> None:
    client.force_login(make_user())
    for page in ("/sessions/", "/audit/", "/accounts/"):
        client.get(page)
    assert seen() == []


def test_every_session_url_is_covered() -> None:
    """A new page about a session must be added to the pages whose views are recorded, or to those without content."""
    without_content = {"session-export", "session-jump"}  # an export has its own event; a jump redirects to a page
    names = {pattern.name for pattern in session_links.urlpatterns if "<int:pk>" in str(pattern.pattern)}
    assert names == session_read_audit_middleware.SESSION_PAGES | without_content


@pytest.mark.parametrize("key", ["", "5e" * 32], ids=["unsealed", "sealed"])
def test_events_of_several_sessions_are_inserted_by_one_statement(
    settings: Any, django_assert_num_queries: DjangoAssertNumQueries, key: str
) -> None:
    sessions = [make_session() for _ in range(3)]
    settings.HARNESS_SEAL_KEY = key
    with django_assert_num_queries(1):
        insert_unchained_events.record_event_for_each_session(
            "default",
            sessions[0].workspace_id,
            AuditKind.VIEWED,
            [session.pk for session in sessions],
            actor="carol",
            actor_kind=ActorKind.PERSON,
            details={},
        )
    assert seen() == [("carol", session.pk) for session in sessions]
    assert [bool(event.row_seal) for event in AuditEvent.objects.filter(kind="viewed")] == [bool(key)] * 3
