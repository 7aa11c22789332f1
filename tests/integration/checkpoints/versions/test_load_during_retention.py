"""Reads of a version that is removed between the statements for its row and for its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from django.db import connection, connections

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import CheckpointCorrupted, SessionNotFound, VersionNotFound
from checkpoints.models import Message
from checkpoints.versions import load_version
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session


@pytest.fixture
def writer(open_checkpointer: Open) -> SyncCheckpointer:
    """Owner of a session with one version of three messages."""
    writer = start_session(open_checkpointer())
    writer.save_checkpoint("s", conversation("abc"), {"n": 1}, 0)
    return writer


@contextmanager
def before_messages_are_read(work: Callable[[], Any]) -> Iterator[None]:
    """Run `work` once, on another connection, before this thread reads messages."""
    left = [work]

    def on_statement(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if left and f'FROM "{Message._meta.db_table}"' in sql:
            beside = Thread(target=in_thread, args=(left.pop(),))
            beside.start()
            beside.join()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(on_statement):
        yield
    assert not left


def in_thread(work: Callable[[], Any]) -> None:
    try:
        work()
    finally:
        connections.close_all()


def replace(writer: SyncCheckpointer) -> None:
    """Replace the conversation, and prune the previous version."""
    new = "xy" if (writer.load_latest("s") or {})["version"] == 1 else "z"
    writer.save_checkpoint("s", conversation(new), {"n": 2}, 0)
    assert writer.prune("s", keep_last=1).messages > 0


def test_latest_returns_the_newer_version(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    with before_messages_are_read(lambda: replace(writer)):
        latest = cp.load_latest("s") or {}

    assert (latest["version"], latest["plan"], latest["transcript"]) == (2, {"n": 2}, conversation("xy"))


def test_tail_returns_the_newer_version(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    with before_messages_are_read(lambda: replace(writer)):
        tail = load_version.load_latest_version_with_last_messages(cp.store, "s", 1) or {}

    assert (tail["version"], tail["transcript"], tail["message_count"]) == (2, conversation("xy")[1:], 2)


def test_removed_version_is_not_found(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    with before_messages_are_read(lambda: replace(writer)), pytest.raises(VersionNotFound):
        cp.load("s", 1)


def test_message_page_is_of_the_newer_version(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    with before_messages_are_read(lambda: replace(writer)):
        page = cp.messages("s", after=1)
    assert [each["message"] for each in page] == conversation("xy")[1:]

    with before_messages_are_read(lambda: replace(writer)), pytest.raises(VersionNotFound):
        cp.messages("s", version=2)


def test_deleted_session_has_no_version(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    writer.close()
    with before_messages_are_read(lambda: writer.delete_session("s")):
        assert cp.load_latest("s") is None


def test_version_of_a_deleted_session_is_not_found(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    writer.close()
    with before_messages_are_read(lambda: writer.delete_session("s")), pytest.raises(SessionNotFound):
        cp.load("s", 1)


def test_existing_version_without_messages_is_damaged(writer: SyncCheckpointer, cp: SyncCheckpointer) -> None:
    Message.objects.filter(session__session_id="s", position=1).delete()

    reads: list[Callable[[], Any]] = [
        lambda: cp.load_latest("s"),
        lambda: cp.load("s", 1),
        lambda: load_version.load_latest_version_with_last_messages(cp.store, "s", 3),
        lambda: cp.messages("s"),
    ]
    for read in reads:
        with pytest.raises(CheckpointCorrupted, match="2 of 3 messages"):
            read()
