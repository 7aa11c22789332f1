"""Heartbeats that are answered together."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from checkpoints.db import clock
from checkpoints.models import Run
from harness_site.accounts.models import TokenRole
from harness_site.api import heartbeat_request_batching as heartbeat_module
from harness_site.api import in_process_rate_limit
from harness_site.api.heartbeat_request_batching import (
    Heartbeat,
    Heartbeats,
    parse_plain_heartbeat_or_none,
    renew_heartbeat_leases_and_charge_rate_limits,
)
from harness_site.api.in_process_rate_limit import Allowance
from harness_site.serving.request_body_buffering_middleware import BODY
from tests.support.api_client import ApiClient, make_token
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


def open_session(token: str, session_id: str) -> Heartbeat:
    """Open a session as a client of its name. Returns its heartbeat."""
    client = ApiClient(token, client=f"client of {session_id}")
    fence = client.post("/sessions", {"session_id": session_id}).json()["run"]["fence"]
    return Heartbeat(f"Bearer {token}", f"client of {session_id}", "127.0.0.1", session_id, fence)


def change(heartbeat: Heartbeat, **fields: Any) -> Heartbeat:
    return Heartbeat(**{**vars(heartbeat), **fields})


def test_one_statement_renews_all_leases() -> None:
    token = make_token(TokenRole.AGENT)
    heartbeats = [open_session(token, f"s{number}") for number in range(5)]
    old = clock.now() - timedelta(seconds=5)
    Run.objects.update(heartbeat_at=old, lease_expires_at=old)
    with CaptureQueriesContext(connection) as queries:
        assert None not in renew_heartbeat_leases_and_charge_rate_limits(heartbeats)
    assert sum(Run._meta.db_table in query["sql"] for query in queries) == 1
    assert all(run.heartbeat_at > old and run.lease_expires_at > clock.now() for run in Run.objects.all())


def test_runs_that_own_nothing_are_left_out() -> None:
    token, auditor = make_token(TokenRole.AGENT), make_token(TokenRole.AUDITOR, name="auditor")
    first, lost, finished = (open_session(token, name) for name in ("first", "lost", "finished"))
    other = ApiClient(token, client="other")
    other.post("/sessions", {"session_id": "lost", "takeover": "It is needed."})
    owner = ApiClient(token, client=finished.client)
    owner.post("/sessions/finished/finish", {"fence": finished.fence, "status": "completed"})
    wrong = [
        lost,
        finished,
        change(first, client="other"),
        change(first, fence=first.fence + 1),
        change(first, session_id="none"),
        change(first, authorization=f"Bearer {auditor}"),
        change(first, authorization="Bearer none"),
        change(first, authorization=""),
    ]
    old = clock.now() - timedelta(seconds=5)
    Run.objects.update(heartbeat_at=old)
    allowances = renew_heartbeat_leases_and_charge_rate_limits([*wrong, first])
    assert allowances[:-1] == [None] * len(wrong)
    assert allowances[-1] is not None
    assert [run.session.session_id for run in Run.objects.filter(heartbeat_at__gt=old)] == ["first"]


def test_heartbeats_count_as_requests(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = open_session(make_token(TokenRole.AGENT), "s")
    settings.API_REQUESTS_PER_MINUTE = 12
    monkeypatch.setattr(in_process_rate_limit, "read_clock", lambda: 0.0)
    in_process_rate_limit.clear_request_counts()
    allowances = renew_heartbeat_leases_and_charge_rate_limits([heartbeat] * 3)
    assert [allowance and allowance.remaining for allowance in allowances] == [1, 0, None]


def describe(**changes: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/sessions/a~1b/heartbeat",
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", b"Bearer x"), (b"harness-client", b"me")],
        "client": ("10.0.0.1", 1),
        BODY: io.BytesIO(b'{"fence": 3}'),
        **changes,
    }


def test_plain_heartbeat_is_read() -> None:
    assert parse_plain_heartbeat_or_none(describe()) == Heartbeat("Bearer x", "me", "10.0.0.1", "a/b", 3)
    under_prefix = describe(path="/harness/api/v1/sessions/a~1b/heartbeat", root_path="/harness")
    assert parse_plain_heartbeat_or_none(under_prefix) == parse_plain_heartbeat_or_none(describe())


UNUSUAL_BODIES = (b"", b"[]", b"{", b"\xff", b'{"fence": true}', b'{"fence": 3, "x": 1}', b"[" * 100_000)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "GET"},
        {"query_string": b"x=1"},
        {"path": "/api/v1/sessions/a/b/heartbeat"},
        {"headers": [(b"host", b"testserver"), (b"idempotency-key", b"k")]},
        {"headers": [(b"host", b"testserver"), (b"content-encoding", b"gzip")]},
        {"headers": [(b"host", b"elsewhere.example"), (b"authorization", b"Bearer x")]},
        {BODY: None},
        *({BODY: io.BytesIO(body)} for body in UNUSUAL_BODIES),
    ],
)
def test_any_other_request_is_answered_by_the_route(changes: dict[str, Any]) -> None:
    scope = describe(**changes)
    assert parse_plain_heartbeat_or_none(scope) is None
    assert scope[BODY] is None or scope[BODY].tell() == 0


def test_heartbeat_without_https_is_redirected_where_https_is_required(settings: Any) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    behind_proxy = describe()["headers"] + [(b"x-forwarded-proto", b"https")]
    assert parse_plain_heartbeat_or_none(describe()) is None
    assert parse_plain_heartbeat_or_none(describe(headers=behind_proxy)) is not None
    settings.SECURE_PROXY_SSL_HEADER = None
    assert parse_plain_heartbeat_or_none(describe(headers=behind_proxy)) is None
    assert parse_plain_heartbeat_or_none(describe(scheme="https")) is not None


def test_cancelled_heartbeat_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves while its lease is renewed cancels its own request, and no other one."""
    is_renewing, may_end = threading.Event(), threading.Event()

    def renew(heartbeats: Sequence[Heartbeat]) -> list[Allowance | None]:
        is_renewing.set()
        assert may_end.wait(PATIENCE)
        return [Allowance(10, 60, 9, 6)] * len(heartbeats)

    async def nothing(*_: Any) -> Any:
        raise AssertionError("Only a heartbeat that renews nothing gets another answer.")

    async def send_three() -> list[int]:
        application, statuses = Heartbeats(nothing), list[int]()

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if "status" in message else [])

        tasks = [asyncio.create_task(application(describe(), nothing, send)) for _ in range(2)]
        await asyncio.to_thread(is_renewing.wait, PATIENCE)
        tasks[0].cancel()
        await asyncio.sleep(0)
        may_end.set()
        await asyncio.wait_for(tasks[1], PATIENCE)
        await asyncio.wait_for(application(describe(), nothing, send), PATIENCE)
        return statuses

    monkeypatch.setattr(heartbeat_module, "renew_heartbeat_leases_and_charge_rate_limits", renew)
    assert asyncio.run(send_three()) == [200, 200]
