"""A database that takes nothing for a while, and agents that die while something waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from checkpoints import SyncCheckpointer, SyncWriteBehind
from checkpoints.models import Session
from tests.support.processes import die, heed, say


@contextmanager
def locked() -> Iterator[None]:
    """Nobody can write to any session until the block is left."""
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


def save_and_die(url: str, versions: int) -> None:
    """Hand in versions, say of each what its ticket says, and die with some of them waiting."""
    cp = SyncCheckpointer.open(url)
    cp.start_session("s")
    writer = SyncWriteBehind(cp)
    transcript: list[dict[str, Any]] = []
    tickets = []
    for number in range(versions):
        transcript.append({"n": number})
        tickets.append(writer.save_checkpoint("s", transcript, None, 0))
        say("tickets", [ticket.version for ticket in tickets])
    heed()
    die()


def end_without_closing(url: str, versions: int) -> str:
    """A script that forgets to close."""
    cp = SyncCheckpointer.open(url)
    cp.start_session("s")
    writer = SyncWriteBehind(cp)
    transcript: list[dict[str, Any]] = []
    for number in range(versions):
        transcript.append({"n": number})
        writer.save_checkpoint("s", transcript, None, 0)
    return "over"
