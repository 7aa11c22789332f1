"""Copies of the states of a framework, and forks of conversations, beside writes to their source and crosswise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, connections

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import SessionExists
from checkpoints.framework_states import conversation_log, remove_and_copy_states, state_store
from checkpoints.framework_states.conversation_log import NewEntry, NewRecord
from checkpoints.framework_states.state_store import NewState
from checkpoints.models import Blob, FrameworkState, Session
from checkpoints.sessions.new_session_fields import NewSessionFields
from tests.conftest import Open
from tests.support.processes import wait_until


def save_state(cp: SyncCheckpointer, session_id: str, number: int) -> None:
    text = f"{number:04}"
    value = ("json", text.encode())
    new = NewState("", text, "", "", ("json", b"{}"), ("json", b"{}"), {"a": number}, {"a": value}, ["a"])
    state_store.save_state_and_transcript_version(cp.store, session_id, new, description=NewSessionFields())


def run_with_own_connection(work: Callable[[], Any]) -> Any:
    try:
        return work()
    finally:
        connections.close_all()


@contextmanager
def beside_first_statement(part: str, work: Callable[[], Any]) -> Iterator[list[Future[Any]]]:
    """Start work on a thread after the first statement of this thread that contains `part`.

    The statement's thread goes on when the work has ended or waits for a lock. Yields a list that gets the future.
    """
    started: list[Future[Any]] = []

    def execute_and_start(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if part in sql and not started:
            started.append(pool.submit(run_with_own_connection, work))
            if connection.vendor == "postgresql":  # SQLite has one writer at a time
                wait_until(lambda: started[0].done() or count_lock_waits() == 1)
        return result

    with ThreadPoolExecutor() as pool, connection.execute_wrapper(execute_and_start):
        yield started


def count_lock_waits() -> int:
    with ThreadPoolExecutor() as pool:
        return int(pool.submit(run_with_own_connection, _query_lock_waits).result())


def _query_lock_waits() -> Any:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return cursor.fetchone()[0]


def test_copy_beside_a_write_to_its_source_is_complete(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    save_state(cp, "s", 1)
    other = open_checkpointer()
    with beside_first_statement(f'FROM "{Blob._meta.db_table}"', lambda: save_state(other, "s", 2)) as writes:
        remove_and_copy_states.copy_states_to_session(cp.store, "s", "copy")
    writes[0].result()
    copied = list(state_store.iterate_states(cp.store, "copy"))
    assert [(state.state_id, state.values) for state in copied] == [("0001", {"a": ("json", b"0001")})]
    assert len(list(state_store.iterate_states(cp.store, "s"))) == 2


def test_two_copies_in_opposite_directions_both_end(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    for session_id in ("a", "b"):
        cp.start_session(session_id)
        cp.release_session(session_id)
    save_state(cp, "b", 1)
    other = open_checkpointer()
    lock = f'UPDATE "{Session._meta.db_table}"' if connection.vendor == "sqlite" else "FOR UPDATE"

    def copy_back() -> None:
        with pytest.raises(SessionExists):
            remove_and_copy_states.copy_states_to_session(other.store, "a", "b")

    with beside_first_statement(lock, copy_back) as copies:
        remove_and_copy_states.copy_states_to_session(cp.store, "b", "a")
        if not copies:  # SQLite, which locks no rows
            copy_back()
    for copy in copies:
        copy.result()
    assert [state.state_id for state in state_store.iterate_states(cp.store, "a")] == ["0001"]


def write_entry(cp: SyncCheckpointer, session_id: str, entry_id: str, parent_id: str | None) -> None:
    message = {"id": entry_id, "role": "user", "content": entry_id}
    conversation_log.write_record_and_entries(
        cp.store,
        session_id,
        NewRecord("framework", entry_id, ("json", b"{}"), entry_id, {}),
        [NewEntry(entry_id, parent_id, message)],
        expected_revision=parent_id and f"{session_id}1",
        description=NewSessionFields(),
    )


def test_two_conversations_that_fork_each_other_both_end(cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    for session_id in ("a", "b"):
        write_entry(cp, session_id, f"{session_id}1", None)
    other = open_checkpointer()
    record = f'UPDATE "{FrameworkState._meta.db_table}"'

    def write_after_a() -> None:
        write_entry(other, "b", "b2", "a1")

    with beside_first_statement(record, write_after_a) as writes:
        write_entry(cp, "a", "a2", "b1")
    writes[0].result()
    for entry_id, expected in (("a2", ["b1", "a2"]), ("b2", ["a1", "b2"])):
        entries = conversation_log.read_entries_up_to(cp.store, entry_id)
        assert [entry.entry_id for entry in entries] == expected
