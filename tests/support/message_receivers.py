"""Receivers of the site's messages: an HTTP server and an SMTP server, each minimal.

Run them with `tests.support.processes.Child`. Each says `listening` with its port, and appends what it receives to a
file, one line of JSON for each message.
"""

import asyncio
import json
import ssl
from contextlib import suppress
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.processes import append_line, send_to_parent, wait_for_parent


def http_receiver(file: str, status: int = 200, *, asking: bool = False, certificate: str = "") -> None:
    """Answer every request with `status`; 302 redirects to itself.

    With `asking` it says `got` and answers when the parent tells it to. With a `certificate` it speaks TLS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            append_line(file, json.dumps({"path": self.path, "headers": dict(self.headers.items()), "body": body}))
            if asking:
                send_to_parent("got")
                wait_for_parent()
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        server.socket = _build_tls_context(certificate).wrap_socket(server.socket, server_side=True)
    send_to_parent("listening", server.server_port)
    server.serve_forever()


def smtp_receiver(
    file: str, port: int = 0, *, asking: bool = False, certificate: str = "", offering: bool = False
) -> None:
    """Accept every message, except for recipients that begin with `nobody`.

    With `asking` it says `got` and answers when the parent tells it to. With a `certificate` it speaks TLS: at once, or
    with `offering` after STARTTLS.
    """
    asyncio.run(_serve_smtp(file, port, asking, _build_tls_context(certificate) if certificate else None, offering))


async def _serve_smtp(file: str, port: int, asking: bool, tls: ssl.SSLContext | None, offering: bool) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await _answer_smtp_commands(reader, writer, file, asking, tls if offering else None)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, ssl=None if offering else tls)
    send_to_parent("listening", server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _build_tls_context(certificate: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def _answer_smtp_commands(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    file: str,
    asking: bool,
    starttls_context: ssl.SSLContext | None,
) -> None:
    writer.write(b"220 here\r\n")
    recipients: list[str] = []
    while line := await reader.readline():
        command = line.decode().strip().upper()
        if command == "DATA":
            writer.write(b"354 go on\r\n")
            data = await reader.readuntil(b"\r\n.\r\n")
            secure = writer.get_extra_info("ssl_object") is not None
            message = _parse_email(data[:-5].replace(b"\r\n..", b"\r\n."))
            append_line(file, json.dumps({**message, "recipients": recipients, "secure": secure}))
            recipients = []
            if asking:
                send_to_parent("got")
                await asyncio.to_thread(wait_for_parent)
            writer.write(b"250 taken\r\n")
        elif command.startswith("EHLO") and starttls_context:
            writer.write(b"250-here\r\n250 STARTTLS\r\n")
        elif command == "STARTTLS" and starttls_context:
            writer.write(b"220 go on\r\n")
            await writer.start_tls(starttls_context)
        elif command.startswith("RCPT TO:<NOBODY"):
            writer.write(b"550 there is nobody of this name\r\n")
        elif command.startswith("RCPT TO:<"):
            recipients.append(command.removeprefix("RCPT TO:<").partition(">")[0].lower())
            writer.write(b"250 fine\r\n")
        elif command == "QUIT":
            writer.write(b"221 good-bye\r\n")
            return
        else:
            writer.write(b"250 fine\r\n")


def _parse_email(data: bytes) -> dict[str, Any]:
    message = message_from_bytes(data, policy=policy.default)
    text, page = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    return {
        "to": message["To"],
        "subject": message["Subject"].strip(),  # a folded header may begin with a space
        "id": message["Message-ID"],
        "delivery": message["X-Harness-Delivery"],
        "text": text.get_content(),
        "html": "" if page is None else page.get_content(),
        "headers": [line for line in data.partition(b"\r\n\r\n")[0].decode().split("\r\n") if line[:1].strip()],
    }


def read_received_messages(file: Path) -> list[dict[str, Any]]:
    """Return the received messages in order."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_deliver_and_collect_on_request(environment: dict[str, str], work: str) -> int:
    """Run `deliver` or `collect` like a web process of this environment, when the parent says so."""
    import os

    os.environ |= {**environment, "DJANGO_SETTINGS_MODULE": "harness_site.settings"}
    import django

    django.setup()
    from harness_site.notifications.create_due_notices import create_due_notices
    from harness_site.notifications.send_due_deliveries import send_due_deliveries

    send_to_parent("ready")
    wait_for_parent()
    return create_due_notices() if work == "collect" else send_due_deliveries().sent
