"""Exports whose client disconnects: the server stops the work and releases its resources."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.sessions.backends.base import SessionBase
from django.db import connection
from django.test import Client

from checkpoints.enums import AuditKind, Role
from checkpoints.models import AuditEvent
from examples.demo.demo_processes import start_site_and_wait_until_ready
from harness_site.asgi import THREADS
from tests.integration.serving.test_slow_clients import PATIENCE, connect, get
from tests.support.factories import make_checkpoint, make_message, make_run, make_session, make_user
from tests.support.processes import database_url
from tests.support.site_process import free_port

PIECE = "a line of a long result\n" * 8_000
MESSAGES = 40
NAME = "test-broken-exports"


@pytest.fixture
def server(transactional_db: None, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A server with its log, which lets a client block a thread for longer than a test waits for a page.

    On PostgreSQL its connections have a name.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    port, log = free_port(), tmp_path / "site.log"
    environment = {
        **inherited,
        "HARNESS_DATABASE_URL": database_url(),
        "PGAPPNAME": NAME,
        "HARNESS_WRITE_SECONDS": "600",
    }
    site = start_site_and_wait_until_ready(port, log, lambda: False, environment)
    yield port, log
    site.stop()


def break_off(port: int, path: str, cookie: str) -> int:
    """Read the beginning of a response and reset the connection; return the bytes that arrived."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode()
    with connect(port, request, receive_buffer=4_096) as client:
        received = client.recv(4_096)
        assert received.startswith(b"HTTP/1.1 200"), received[:200]
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return len(received)


def count_busy_connections() -> int:
    """Count the connections of the server that run a statement or hold a transaction open."""
    if connection.vendor == "sqlite":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND datname = current_database() "
            "AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_aborted_exports_release_their_resources(server: tuple[int, Path]) -> None:
    port, log = server
    reader = Client()
    reader.force_login(make_user(name="erin", role=Role.ADMIN))
    browser_session: SessionBase = reader.session
    cookie = f"sessionid={browser_session.session_key}"
    session = make_session()
    make_run(session=session)
    for _ in range(MESSAGES):
        make_message(session=session, text=PIECE)
    make_checkpoint(session=session)
    for _ in range(100):
        make_session(title="x" * 5_000)
    exports = [f"/sessions/{session.pk}/export/{form}/" for form in ("jsonl", "html", "print")]
    exports += ["/sessions/export/", "/audit/export/", "/calls/export/"]
    for _ in range(THREADS // 2):
        for path in exports:
            assert break_off(port, path, cookie) < 20_000
    assert [get(port, f"/sessions/{session.pk}/", Cookie=cookie) for _ in range(THREADS)] == [200] * THREADS
    deadline = time.monotonic() + PATIENCE
    while count_busy_connections() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert count_busy_connections() == 0
    kinds = AuditEvent.objects.filter(kind=AuditKind.EXPORTED)
    assert kinds.count() == len(exports) * (THREADS // 2)
    text = log.read_text()
    assert "Traceback" not in text, text[-3_000:]
    assert "broke off" not in text
