"""New sessions of several files, which are inserted together: each table gets its rows by one statement or COPY.

A statement for each row and each session would be a round trip, which on PostgreSQL takes longer than the insertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.db import Error, connections, transaction

from checkpoints.calls.raw_sql_call_seals import AnsweredCalls
from checkpoints.db.clock import read_database_time
from checkpoints.db.execute_cached_row_sql import update_columns_of_rows
from checkpoints.db.hot_statements import SaveBase, insert_versions_and_messages
from checkpoints.db.sqlite_placeholder_conversion_cache import cache_converted_sql_of_cursor
from checkpoints.formats.digests import EMPTY_CHAIN
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.importers.imported_calls import ImportedCallLog, insert_call_rows
from checkpoints.importers.imported_session_and_run import TranscriptOrigin, insert_sessions_with_runs_and_events
from checkpoints.models import Run, Session, ToolCall
from checkpoints.seals import session_heads
from checkpoints.seals.session_heads import WRITTEN_FIELDS
from checkpoints.store import optimistic_lock_on_sealed_heads
from checkpoints.store.database_client_state import Store
from checkpoints.versions import save_version
from checkpoints.versions.save_version import PreparedVersions, VersionToWrite


@dataclass(frozen=True)
class NewSession:
    """Complete session with its run, its versions and its calls, none of which has a key yet.

    `updated_at` is the time of its newest activity; None stands for that of the database.
    """

    origin: TranscriptOrigin
    row: Session
    run: Run
    contents: Sequence[VersionToWrite]
    calls: Sequence[ToolCall]
    call_log: ImportedCallLog
    updated_at: datetime | None


class NewSessionBatch:
    """New sessions of the files of one transaction, which `insert` writes at its end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        #: Number of the file that each session is from, and the session.
        self._sessions: dict[str, tuple[int, NewSession]] = {}
        #: Number of the file that is collected; the savepoint before its first statement in the transaction, and how
        #: many functions were to be called at the commit then.
        self._file: int | None = None
        self._savepoint: tuple[str, int] | None = None

    @contextmanager
    def collect_file_sessions_or_roll_back(self, number: int) -> Iterator[None]:
        """Collect the sessions of one file, while it is read or in the open transaction.

        An error takes back all sessions of the file, and nothing else; if that is not possible, the transaction has to
        be rolled back.

        Args:
            number: Number of the file in the transaction.
        """
        self._file = number
        try:
            yield
        except BaseException:
            self._sessions = {name: found for name, found in self._sessions.items() if found[0] != number}
            self._roll_back_statements_of_file()
            raise
        finally:
            self._file = self._savepoint = None

    def _roll_back_statements_of_file(self) -> None:
        """Take back the statements of the file, whose blocks have marked the transaction for rollback."""
        connection = connections[self._store.using]
        if not connection.in_atomic_block or connection.closed_in_transaction:
            return
        connection.set_rollback(False)
        if self._savepoint is None:
            return
        savepoint, on_commit_count = self._savepoint
        try:
            connection.savepoint_rollback(savepoint)
        except Error:  # the error of the file is the one to report
            connection.set_rollback(True)
        # Django forgets only what was registered in an `atomic` block that is rolled back. A witness must not be told
        # that what was taken back is written.
        del connection.run_on_commit[on_commit_count:]

    def ensure_file_savepoint(self, session_id: str) -> None:
        """Make ready for statements that write to a session now: an error of the file takes them back.

        The savepoint is no `atomic` block, because blocks that are open already end before the file does. Raises
        `ImportOvertaken` if the session is one of the batch, which is not stored yet.
        """
        if session_id in self._sessions:
            raise ImportOvertaken(session_id)
        if self._file is not None and self._savepoint is None:
            using = self._store.using
            self._savepoint = transaction.savepoint(using=using), len(connections[using].run_on_commit)

    def add_session(self, session: NewSession) -> None:
        """Add a session of the file that is collected. Raises `ImportOvertaken` if there is one with its id."""
        assert self._file is not None  # noqa: S101 - files are read and finished while they are collected
        if session.origin.session_id in self._sessions:
            raise ImportOvertaken(session.origin.session_id)
        self._sessions[session.origin.session_id] = self._file, session

    def insert_sessions(self) -> None:
        """Insert all sessions, in the open transaction. Raises `DatabaseError` if one of them exists meanwhile."""
        sessions, self._sessions = [session for _, session in self._sessions.values()], {}
        if not sessions:
            return
        using = self._store.using
        now = read_database_time(using) if any(session.updated_at is None for session in sessions) else None
        for session in sessions:
            columns = save_version.build_session_columns_after_versions(session.contents)
            columns |= {"latest_version": len(session.contents), "updated_at": session.updated_at or now, "revision": 1}
            for name, value in columns.items():
                setattr(session.row, name, value)
        insert_sessions_with_runs_and_events(
            self._store, [(session.origin, session.row, session.run) for session in sessions]
        )
        prepared = [_complete_calls_and_prepare_versions(session) for session in sessions]
        connection = connections[using]
        with connection.cursor() as cursor:
            cache_converted_sql_of_cursor(cursor)
            insert_versions_and_messages(connection, cursor, [(base, rows.versions) for base, rows in prepared])
        insert_call_rows(using, [call for session in sessions for call in session.calls])
        self._write_sealed_heads([rows for _, rows in prepared])

    def _write_sealed_heads(self, prepared: Sequence[PreparedVersions]) -> None:
        """Write the heads of the sessions with their seals, if sealing is on."""
        heads = [head for _, head in prepared if head is not None]
        columns = [[*(head.written[name] for name in WRITTEN_FIELDS), head.session_pk] for head in heads]
        update_columns_of_rows(self._store.using, Session, WRITTEN_FIELDS, columns)
        for head in heads:
            optimistic_lock_on_sealed_heads.record_written_head(connections[self._store.using], head)


def _complete_calls_and_prepare_versions(session: NewSession) -> tuple[SaveBase, PreparedVersions]:
    """Complete the calls of a session that has its key, and build the rows of its versions."""
    row, (first, *others) = session.row, session.contents
    assert row.head_segment_id is not None  # noqa: S101 - inserted with the session
    difference = session.call_log.complete_call_rows_and_sum_seals(row, session.run, session.calls)
    answered = AnsweredCalls(difference=difference)
    contents = [VersionToWrite(first.end, first.state, answered, first.created_at), *others]
    base = SaveBase(row.pk, row.fence, row.head_segment_id, 0, EMPTY_CHAIN, 0)
    return base, save_version.prepare_versions_and_record_expected_head(
        base, contents, session.run.pk, session_heads.build_head_of_new_session_if_sealing(row)
    )
