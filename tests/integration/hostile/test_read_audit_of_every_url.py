"""Every address there is, asked for in every way: an answer with what was said in a session, or with the arguments of a
call, has left an entry of the audit trail."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.db import clock
from checkpoints.enums import CallStatus, KeyScope, Role
from checkpoints.formats.digests import digest_text
from checkpoints.models import AuditEvent, Message, Session, ToolCall
from harness_site.search import indexer
from tests.integration.accounts.test_url_access import things
from tests.support.client_login import sign_in
from tests.support.exhaustive_mode import choose_each
from tests.support.factories import make_call, make_message, make_run, make_session, make_user, make_workspace
from tests.support.url_table import TABLE

pytestmark = pytest.mark.django_db

#: Stand in a message, in the arguments of calls, in a result, and nowhere else.
SAID, ARGUMENT, RESULT = "zanzibar", "quagmire", "obelisk"
RECORDED = {"viewed", "excerpted", "exported", "evidence_opened"}


@pytest.fixture
def named() -> dict[str, Any]:
    named = things(make_workspace())
    session = Session.objects.get(pk=named["session"])
    make_message(session=session, text=SAID)
    now = clock.now()
    args = json.dumps({"payee": ARGUMENT})
    changes = {"args": args, "args_digest": digest_text(args), "interrupted_at": now, "issued_at": now}
    ToolCall.objects.update(approvals=2, **changes)
    asking: dict[str, Any] = {"status": CallStatus.AWAITING_APPROVAL}
    for number in range(2):
        make_call(session=session, call_id=f"lost-{number}", args={"payee": ARGUMENT}, interrupted_at=now)
    asked = make_call(session=session, call_id="asked", args={"payee": ARGUMENT}, issued_at=now, **asking)
    while indexer.index_next_batch_of_each_kind():
        pass
    return named | {"asked": asked.pk, "revision": asked.revision}


@pytest.fixture
def clients() -> list[Client]:
    return [sign_in(Client(), make_user(name=str(role), role=role)) for role in Role]


def content(response: Any) -> str:
    body = b"".join(response.streaming_content) if response.streaming else response.content
    return str(body.decode("utf-8", "replace"))


def check(client: Client, method: str, address: str, data: dict[str, Any] | None = None, *, htmx: bool = False) -> bool:
    """Send a request; return whether the response shows content."""
    AuditEvent.objects.all().delete()
    headers = {"HX-Request": "true"} if htmx else {}
    response = getattr(client, method)(address, data or {}, headers=headers)
    shows = any(word in content(response) for word in (SAID, ARGUMENT, RESULT))
    kinds = set(AuditEvent.objects.exclude(session=None).values_list("kind", flat=True))
    assert not shows or kinds & RECORDED, (method, address, response.status_code)
    return shows


def test_every_url_that_shows_content_creates_an_audit_entry(clients: list[Client], named: dict[str, Any]) -> None:
    showing = set()
    paths = [(each.route, each.path.format(**named)) for each in TABLE]
    more = ("sessions/?q=" + SAID, "review/?tab=awaiting", "review/?tab=decided", f"sessions/?q={ARGUMENT}")
    forms = [
        f"sessions/{named['session']}/{part}"
        for part in ("export/html/", "export/print/", "messages/1/?as=text", "?find=" + SAID)
    ]
    calls = [f"sessions/{named['session']}/calls/{named['asked']}/{how}" for how in ("", "?as=call", "?as=arguments")]
    paths += [(part, f"/{part}") for part in (*more, *forms, *calls, f"review/calls/{named['asked']}/")]
    window = "tool=refund_card&from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"
    paths.append(("outage", f"/review/outages/?{window}"))
    paths.append(("news", f"/review/news/?since={clock.now().isoformat()[:10]}T00:00:00Z"))
    # The roles that may see least and most.
    for client, role in choose_each(2, ((clients[0], Role.AUDITOR), (clients[-1], Role.ADMIN))):
        user = User.objects.get(username=str(role))
        for route, path in paths:
            if "_auth_user_id" not in client.session:
                sign_in(client, user)  # some addresses sign out
            if check(client, "get", path) | check(client, "get", path, htmx=True) | check(client, "post", path):
                showing.add(route)
    expected = {"sessions/<int:pk>/", "review/calls/<int:pk>/", "review/", "calls/", "overview/", "outage", "news"}
    assert expected <= showing
    assert f"sessions/?q={SAID}" in showing


REFUSED = [
    {"kind": "approve"},
    {"kind": "approve", "reason": "x"},
    {"kind": "approve", "reason": "x", "revision": "99"},
    {"kind": "edit", "reason": "x", "args": "{", "revision": "1"},
    {"kind": "edit", "reason": "x", "args": '{"payee": "other"}', "revision": "1"},
    {"kind": "confirm_landed", "reason": "x", "result": "x", "revision": "1"},
]


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: "-".join(data.values()))
def test_redisplayed_card_creates_an_audit_entry(
    clients: list[Client], named: dict[str, Any], data: dict[str, str]
) -> None:
    assert all(check(client, "post", f"/review/calls/{named['asked']}/", data) for client in clients)


def test_preview_of_an_edit_creates_an_audit_entry(clients: list[Client], named: dict[str, Any]) -> None:
    data = {"args": '{"payee": "other"}', "written_as": "json"}
    auditor, *others = clients
    assert not check(auditor, "post", f"/review/calls/{named['asked']}/change/", data)
    assert all(check(client, "post", f"/review/calls/{named['asked']}/change/", data) for client in others)


def test_redisplayed_outage_creates_an_audit_entry(clients: list[Client], named: dict[str, Any]) -> None:
    window = {"tool": "refund_card", "from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    assert check(clients[1], "post", "/review/outages/settle/", window)


def test_refused_fork_creates_an_audit_entry(clients: list[Client], named: dict[str, Any]) -> None:
    address = f"/sessions/{named['session']}/fork/"
    assert check(clients[1], "post", address, {"version": "1", "session_id": ""})


def test_card_with_a_result_of_another_session_records_both(clients: list[Client]) -> None:
    first, second = make_session(), make_session()
    shared: dict[str, Any] = {"idempotency_key": "same", "key_scope": KeyScope.WORKSPACE}
    make_run(session=first), make_run(session=second)
    make_call(session=first, status=CallStatus.COMPLETED, result=RESULT, **shared)
    shared["key_scope"] = KeyScope.SESSION
    call = make_call(session=second, **shared)
    ToolCall.objects.filter(pk=call.pk).update(key_scope=KeyScope.WORKSPACE, status=CallStatus.DISCARDED)
    assert check(clients[0], "get", f"/review/calls/{call.pk}/")
    found: Any = AuditEvent.objects.filter(kind__in=RECORDED).order_by("kind").values_list("kind", "session")
    assert list(found) == [("excerpted", first.pk), ("viewed", second.pk)]


def test_content_that_was_not_shown_is_not_recorded(clients: list[Client], named: dict[str, Any]) -> None:
    assert Message.objects.filter(body__contains=SAID).exists()
    AuditEvent.objects.all().delete()
    for client in clients:
        client.get("/review/calls/999999/")
        client.post("/review/calls/999999/change/")
        client.get(f"/sessions/{named['session']}/?v=99")
    assert set(AuditEvent.objects.values_list("kind", flat=True)) & RECORDED == set()
