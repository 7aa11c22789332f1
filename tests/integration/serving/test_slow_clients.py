"""Slow clients do not block the site for others."""

import http.client
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from websockets.sync.client import connect as open_websocket
from websockets.typing import Origin

from checkpoints import SyncCheckpointer
from checkpoints.models import Session

#: Seconds; only ever spent by a test that fails.
PATIENCE = 60.0
SLOW = 50
POST = b"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"


def get(port: int, path: str = "/accounts/login/", **headers: str) -> int:
    """Return the status of a page, which must be answered despite slow clients."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def connect(port: int, opening: bytes = b"", *, receive_buffer: int = 0) -> socket.socket:
    client = socket.socket()
    if receive_buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(PATIENCE)
    client.connect(("127.0.0.1", port))
    client.sendall(opening)
    return client


@contextmanager
def dribbling(clients: list[socket.socket]) -> Iterator[threading.Event]:
    """Send a byte a second on each connection until it is closed; the event is set when all are closed."""
    closed, stop = threading.Event(), threading.Event()

    def dribble() -> None:
        open_ = list(clients)
        while open_ and not stop.wait(1.0):
            open_ = [client for client in open_ if _sends(client)]
        if not open_:
            closed.set()

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield closed
    finally:
        stop.set()
        thread.join()


def _sends(client: socket.socket) -> bool:
    """Return whether the server still accepts a byte and has not answered."""
    readable, _, _ = select.select([client], [], [], 0)
    if readable:
        return False
    try:
        client.sendall(b"x")
    except OSError:
        return False
    return True


def answer(client: socket.socket) -> bytes:
    """Return the response of the server before it closed the connection."""
    said = b""
    try:
        while piece := client.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return said


def test_slow_bodies_hold_no_thread(port: int) -> None:
    for _ in range(10):  # a busy machine may need longer for a page than the server waits for a body
        if _is_page_sent_beside_slow_bodies(port):
            return
    raise AssertionError("No page came while slow clients were there.")


def _is_page_sent_beside_slow_bodies(port: int) -> bool:
    """Ask for pages beside slow clients, and return whether these were still there when the first page came."""
    with ExitStack() as open_:
        opening = POST + b"Content-Length: 1000\r\n\r\nx"
        slow = [open_.enter_context(connect(port, opening)) for _ in range(SLOW)]
        with dribbling(slow) as closed:
            statuses = [get(port)]
            are_there = not closed.is_set()
            statuses += [get(port) for _ in range(9)]
            assert closed.wait(PATIENCE)
        assert statuses == [200] * 10
        assert all(answer(client).startswith(b"HTTP/1.1 408") for client in slow)
    return are_there


def test_slow_chunked_bodies_hold_no_thread(port: int) -> None:
    with ExitStack() as open_:
        opening = POST + b"Transfer-Encoding: chunked\r\n\r\nfff\r\nx"
        slow = [open_.enter_context(connect(port, opening)) for _ in range(SLOW)]
        with dribbling(slow) as closed:
            assert get(port) == 200
            assert closed.wait(PATIENCE)


def test_slow_headers_time_out(port: int) -> None:
    with ExitStack() as open_:
        slow = [open_.enter_context(connect(port, b"GET / HTTP/1.1\r\nX: ")) for _ in range(SLOW)]
        silent = [open_.enter_context(connect(port)) for _ in range(SLOW)]
        with dribbling(slow) as closed:
            assert get(port) == 200
            assert closed.wait(PATIENCE)
        assert [answer(client) for client in silent] == [b""] * SLOW


def test_slow_headers_of_a_second_request_time_out(port: int) -> None:
    with connect(port, b"GET /health/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /health/ HTTP/1.1\r\nX: ")
        with dribbling([client]) as closed:
            assert closed.wait(PATIENCE)


def test_connection_limit_does_not_block_new_clients(port: int) -> None:
    with ExitStack() as open_:
        for _ in range(300):
            open_.enter_context(connect(port, POST + b"Content-Length: 1000\r\n\r\nx"))
        assert [get(port) for _ in range(5)] == [200] * 5


def test_header_size_is_limited(port: int) -> None:
    with connect(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000) as client:
        assert answer(client).startswith(b"HTTP/1.1 400")


def test_size_limit_applies_to_headers_in_one_packet(port: int) -> None:
    opening = b"GET /health/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nX: "
    for letters, status in ((40_000, b"400"), (20_000, b"200")):
        with connect(port, opening + b"x" * letters + b"\r\n\r\n") as client:
            assert answer(client).startswith(b"HTTP/1.1 " + status), letters


class TestSizes:
    """Non-members may send a small form, members an evidence file."""

    def test_large_body_of_a_non_member_is_refused_before_it_is_sent(self, port: int) -> None:
        with connect(port, POST + b"Content-Length: 1000000\r\n\r\n") as client:
            assert answer(client).startswith(b"HTTP/1.1 413")

    def test_large_body_for_the_api_is_refused_with_a_problem(self, port: int) -> None:
        for size, limit in ((1_000_000, "65,536"), (99_000_000, "15,728,640")):
            opening = b"POST /api/v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % size
            with connect(port, opening) as client:
                head, _, content = answer(client).partition(b"\r\n\r\n")
            assert b"content-type: application/problem+json" in head
            problem = json.loads(content)
            assert (problem["type"], problem["status"], problem["may_have_happened"]) == ("TooLarge", 413, False)
            assert limit in problem["detail"]

    def test_unknown_session_key_is_refused(self, port: int) -> None:
        with connect(port, POST + b"Cookie: sessionid=abc\r\nContent-Length: 1000000\r\n\r\n") as client:
            assert answer(client).startswith(b"HTTP/1.1 413")

    def test_chunked_body_size_is_counted(self, port: int) -> None:
        chunks = b"".join(b"4000\r\n" + b"x" * 0x4000 + b"\r\n" for _ in range(5))
        with connect(port, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks) as client:
            assert answer(client).startswith(b"HTTP/1.1 413")

    def test_client_that_continues_sending_can_read_the_response(self, port: int) -> None:
        with connect(port, POST + b"Content-Length: 1000000\r\n\r\n") as client:
            client.sendall(b"x" * 1_000_000)
            assert answer(client).startswith(b"HTTP/1.1 413")

    def test_member_may_send_a_larger_body(self, port: int, cookie: str) -> None:
        """The page then refuses the form because it has no CSRF token."""
        opening = POST + f"Cookie: {cookie}\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n".encode()
        with connect(port, opening) as client:
            client.sendall(b"a=" + b"x" * 999_998)
            assert answer(client).startswith(b"HTTP/1.1 403")

    def test_body_size_is_limited_for_members(self, port: int, cookie: str) -> None:
        with connect(port, POST + f"Cookie: {cookie}\r\nContent-Length: 99000000\r\n\r\n".encode()) as client:
            assert answer(client).startswith(b"HTTP/1.1 413")

    def test_small_form_is_received_completely(self, port: int) -> None:
        form = b"username=nobody&password=" + b"p" * 60_000
        for framing in (
            b"Content-Length: %d\r\n\r\n%b" % (len(form), form),
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(form), form),
        ):
            with connect(port, POST + b"Connection: close\r\n" + framing) as client:
                assert answer(client).startswith(b"HTTP/1.1 403")


@pytest.mark.usefixtures("transactional_db")
def test_slow_readers_do_not_block_all_threads(port: int, cookie: str) -> None:
    """Eight exports are not read by their clients, on a site with eight threads."""
    checkpointer = SyncCheckpointer()
    checkpointer.start_session("long")
    checkpointer.save_checkpoint("long", [{"id": f"m{n}", "text": "lamp " * 40_000} for n in range(80)], None, 0.0)
    place = f"/sessions/{Session.objects.get().pk}/export/jsonl/"
    opening = f"GET {place} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n\r\n".encode()
    with ExitStack() as open_:
        slow = [open_.enter_context(connect(port, opening, receive_buffer=4096)) for _ in range(8)]
        assert all(client.recv(12).startswith(b"HTTP/1.1 200") for client in slow)
        assert [get(port) for _ in range(5)] == [200] * 5
        deadline = time.monotonic() + PATIENCE
        while connections(port) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert connections(port) == 0


def connections(port: int) -> int:
    """Return the number of open connections of the server according to the kernel."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_websocket_message_size_is_limited(port: int, cookie: str) -> None:
    lines = [
        "GET /ws/live/ HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"Origin: http://127.0.0.1:{port}",
        f"Cookie: {cookie}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "\r\n",
    ]
    handshake = "\r\n".join(lines)
    with connect(port, handshake.encode()) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 101")
        masked = b"\x81\xff" + struct.pack("!Q", 100_000) + b"\0\0\0\0"
        client.sendall(masked + b"x" * 5000)
        assert struct.pack("!H", 1009) in answer(client)


def test_websocket_stays_open(port: int, cookie: str) -> None:
    """The header timeout does not apply after the handshake."""
    origin = Origin(f"http://127.0.0.1:{port}")
    headers = {"Cookie": cookie}
    with open_websocket(f"ws://127.0.0.1:{port}/ws/live/", origin=origin, additional_headers=headers) as live:
        heartbeat = json.loads(live.recv(timeout=PATIENCE))  # comes after longer than that time
        assert set(heartbeat) == {"at"} or "session" in heartbeat
