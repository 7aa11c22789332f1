"""Lock on the sessions table, and child processes that die with queued versions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from checkpoints import SyncCheckpointer, SyncWriteBehind
from checkpoints.models import Session
from tests.support.processes import die, send_to_parent, wait_for_parent


@contextmanager
def locked_sessions() -> Iterator[None]:
    """Lock all sessions against writes until the block ends."""
    holding, over = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                list(Session.objects.select_for_update())
                holding.set()
                over.wait()
        finally:
            connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


# in child processes


def queue_versions_and_die(url: str, versions: int) -> None:
    """Queue versions, report the state of each ticket, and die while some are not written."""
    cp = SyncCheckpointer.open(url)
    cp.start_session("s")
    writer = SyncWriteBehind(cp)
    transcript: list[dict[str, Any]] = []
    tickets = []
    for number in range(versions):
        transcript.append({"n": number})
        tickets.append(writer.save_checkpoint("s", transcript, None, 0))
        send_to_parent("tickets", [ticket.version for ticket in tickets])
    wait_for_parent()
    die()


def exit_without_closing(url: str, versions: int) -> str:
    """Queue versions and exit without closing the checkpointer."""
    cp = SyncCheckpointer.open(url)
    cp.start_session("s")
    writer = SyncWriteBehind(cp)
    transcript: list[dict[str, Any]] = []
    for number in range(versions):
        transcript.append({"n": number})
        writer.save_checkpoint("s", transcript, None, 0)
    return "over"
