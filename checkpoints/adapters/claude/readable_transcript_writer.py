"""Readable transcript of a session whose lines the Claude Agent SDK writes, by the reader of imported files."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from checkpoints.adapters.claude.transcript_keys import TranscriptKey, build_line_key_or_empty
from checkpoints.adapters.claude.transcript_line_delta_encoding import Line
from checkpoints.calls import call_queries, raw_sql_call_seals
from checkpoints.db import clock
from checkpoints.db.hot_statements import ChangedRow, NewRows, SaveBase
from checkpoints.enums import IMPORTED_MARK, SETTLED_CALL_STATUSES
from checkpoints.exceptions import InvalidInput, SessionNotFound
from checkpoints.formats import parse_message_parts
from checkpoints.formats.parse_message_parts import ResultPart
from checkpoints.framework_states import state_store, write_cached_session_in_one_statement
from checkpoints.framework_states.write_cached_session_in_one_statement import CachedSession
from checkpoints.importers import imported_session_and_run
from checkpoints.importers.claude_code import transcript_reader
from checkpoints.importers.claude_code.transcript_reader import ClaudeCodeReader
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.imported_calls import ImportedCallLog
from checkpoints.importers.imported_session_and_run import MIRROR_FORMAT, SessionEnd, TranscriptOrigin
from checkpoints.importers.session_writer import ImportedTurn, ImportWriter
from checkpoints.importers.transcript_reader_interface_and_builder import ImportContext, TranscriptFormat
from checkpoints.models import Run, Segment, Session, ToolCall
from checkpoints.sessions.mark_or_require_session_framework import get_framework
from checkpoints.sessions.new_session_fields import FRAMEWORK_MARK, NewSessionFields
from checkpoints.store.checkpointer_state import OwnedSession, TranscriptHead
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import CallFingerprint, OpenOperations, get_call_fingerprint
from checkpoints.versions import save_version
from checkpoints.versions.opaque_bytes_as_message_differences import StoredMessage
from checkpoints.versions.save_version import VersionToWrite

AGENT_NAME: Final = transcript_reader.AGENT_NAME
#: Name of the framework in errors and in the metadata of its sessions.
FRAMEWORK: Final = "Claude Agent SDK"
#: Sessions that a transaction has locked, by identifier, each with its state if the client owns it.
LockedSessions = dict[str, tuple[Session, OwnedSession | None]]
FORMAT: Final = TranscriptFormat(MIRROR_FORMAT, AGENT_NAME, lambda value: 0, ClaudeCodeReader)
#: Number of the run of calls that are only read from the transcript: before all runs that own the session.
_READ_RUN_NUMBER: Final = 0
#: Beginnings of the results that the program makes up for calls whose result its transcript does not have.
_BEGINNINGS_OF_RESULTS_BY_PROGRAM: Final = ("[Tool call interrupted: ", "[Tool call result not in this copy: ")
#: Fields of a line of this type describe the subagent, as the file beside a transcript does.
_SUBAGENT_TYPE: Final = "agent_metadata"


class TranscriptMirror:
    """Reader of the lines of one session, which remembers how far it has read.

    It writes in the transaction of its caller, which has locked the session. If that is rolled back, it has to be
    thrown away.
    """

    def __init__(
        self,
        store: Store,
        key: TranscriptKey,
        agent: str,
        subagent: Mapping[str, Any],
        is_tool_logged_by_policies: Callable[[str], bool],
    ) -> None:
        """Create the mirror of a session.

        Args:
            store: State of the client.
            key: Key of the transcript.
            agent: Name of the agent for lists and filters; empty for that of the format.
            subagent: What is known about the subagent whose transcript it is.
            is_tool_logged_by_policies: Function that says of the name of a tool whether its calls are logged by hooks.
        """
        self.key = key
        self._is_tool_logged_by_policies = is_tool_logged_by_policies
        #: Number of lines that it has read, and the version of the session and the digest of its transcript after that.
        self.size, self.version, self.chain = 0, 0, b""
        #: Keys of the lines that it has read, and the last one of these lines.
        self.keys = set[str]()
        self.last_line: Line = {}
        self.subagent = dict(subagent)
        #: Messages that the transaction of the caller has stored.
        self.written: list[StoredMessage] = []
        #: Header of the log of the lines, and the revision of the session, after the last write.
        self.header: dict[str, Any] = {}
        self.revision: int | None = None
        self._transaction = MirrorTransaction(store)
        self._writers: list[ReadableTranscriptWriter] = []
        self._repeats = False
        context = ImportContext(
            store=store,
            report=ImportReport(),
            format=FORMAT,
            path=None,
            name=key.relative_path,
            modified_at=clock.now(),
            session_id=key.root_session_id,
            agent=agent,
            live=True,
            subagent=self.subagent,
            open_writer=self._lock_session_and_create_writer,
        )
        self._reader = ClaudeCodeReader(context)

    def _lock_session_and_create_writer(self, store: Store, origin: TranscriptOrigin) -> ReadableTranscriptWriter:
        written = self.written if origin.session_id == self.key.session_id else []
        self._transaction.lock_session_and_write_queued_version()
        writer = ReadableTranscriptWriter(store, origin, self._is_tool_logged_by_policies, self._transaction, written)
        writer.repeats = self._repeats
        self._writers.append(writer)
        return writer

    def begin_writing_under_callers_lock(self, row: Session, owned_session: OwnedSession | None) -> None:
        """Begin to write in another transaction, which has locked the session `row` of the transcript."""
        self.written.clear()
        self._transaction.begin_writing_under_callers_lock(row, owned_session)

    def begin_optimistic_writing(self, known: CachedSession, exits: ExitStack) -> None:
        """Begin to write to the session as it is known. `exits` ends the transaction if one is needed.

        Every method may raise `SessionChanged` from then on.
        """
        self.written.clear()
        self._transaction.begin_optimistic_writing(known, exits)

    @property
    def can_write_optimistically(self) -> bool:
        """Whether there is no more to write than a version. Otherwise the session is locked."""
        return self._transaction.can_write_optimistically

    def lock_session_and_write_queued_version(self) -> None:
        """Lock the session, if it is not locked yet, and write the version there."""
        self._transaction.lock_session_and_write_queued_version()

    def write_queued_version_and_rows_optimistically(self, rows: Sequence[NewRows | ChangedRow]) -> None:
        """Write the version, if there is one, and rows beside it in one statement."""
        self._transaction.write_queued_version_and_rows_optimistically(rows)

    @property
    def session_row(self) -> Session:
        """The session of the transcript."""
        return self._transaction.locked[self.key.session_id][0]

    def pass_lines_to_reader(self, lines: Iterable[Line], *, repeats: bool = False) -> None:
        """Read the next lines; `repeats` says that they were read before, by another process or an earlier mirror.

        A line that has no exact form in a message is left out: the log has it.
        """
        self._repeats = repeats
        for writer in self._writers:
            writer.repeats = repeats
        for line in lines:
            self.size += 1
            self.keys.add(build_line_key_or_empty(line))
            self.last_line = line
            if is_subagent_description(line):
                continue
            try:
                self._reader.add_value(self.size, line)
            except InvalidInput:
                continue

    def flush(self) -> None:
        """Write everything that was read, and describe the session. More lines may follow."""
        self._reader.flush()


def is_subagent_description(line: Any) -> bool:
    """Return whether a line only describes the subagent."""
    return isinstance(line, dict) and line.get("type") == _SUBAGENT_TYPE


def find_last_subagent_fields_or_empty_dict(lines: Iterable[Any]) -> dict[str, Any]:
    """Return what the last description among the lines says about the subagent; empty without a description."""
    described = [line for line in lines if is_subagent_description(line)]
    return {name: value for name, value in described[-1].items() if name != "type"} if described else {}


class SessionChanged(Exception):
    """Somebody else has written to a session since this client has. Nothing was written; the mirror is of no use."""


@dataclass(frozen=True)
class _PendingVersion:
    """Version that is to be written: what it continues from, its content, and its run."""

    head: TranscriptHead
    content: VersionToWrite
    run_id: UUID | None


class MirrorTransaction:
    """Writes of a mirror: in a transaction of its caller, or in one statement if it is only a version.

    Attributes:
        locked: Sessions that are locked, and the session of the transcript.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.locked: LockedSessions = {}
        self._known: CachedSession | None = None
        self._pending: _PendingVersion | None = None
        self._exits = ExitStack()

    def begin_writing_under_callers_lock(self, row: Session, owned_session: OwnedSession | None) -> None:
        """Begin to write in a transaction that has locked the session `row`."""
        self._known = self._pending = None
        self.locked.clear()
        self.locked[row.session_id] = (row, owned_session)

    def begin_optimistic_writing(self, known: CachedSession, exits: ExitStack) -> None:
        """Begin to write to a session that is not locked yet."""
        self.begin_writing_under_callers_lock(copy.copy(known.row), None)
        self._known, self._exits = known, exits

    def can_write_version_optimistically(self, session_id: str) -> bool:
        """Return whether the next version of a session may be written at the end, without a lock."""
        known = self._known
        return known is not None and self._pending is None and known.row.session_id == session_id

    def queue_version(self, pending: _PendingVersion) -> None:
        """Let a version be written at the end of the transaction."""
        self._pending = pending

    @property
    def can_write_optimistically(self) -> bool:
        """Whether the session is not locked."""
        return self._known is not None

    def write_queued_version_and_rows_optimistically(self, rows: Sequence[NewRows | ChangedRow]) -> None:
        """Write the version, if there is one, and rows beside it in one statement. Raises `SessionChanged`."""
        known, pending = self._known, self._pending
        self._known = self._pending = None
        if known is None:
            raise SessionChanged
        session_id = known.row.session_id
        after = (
            write_cached_session_in_one_statement.try_write_rows_of_cached_session(self._store, session_id, known, rows)
            if pending is None
            else write_cached_session_in_one_statement.try_write_version_of_cached_session(
                self._store, session_id, known, pending.content, pending.run_id, rows
            )
        )
        if after is None:
            raise SessionChanged

    def lock_session_and_write_queued_version(self) -> None:
        """Lock the session until the end of the transaction, if it is not locked yet. Raises `SessionChanged`."""
        known, pending = self._known, self._pending
        if known is None:
            return
        self._known = self._pending = None
        session_id = known.row.session_id
        try:
            row, owned_session = self._exits.enter_context(
                state_store.lock_or_create_session(self._store, session_id, None)
            )
        except SessionNotFound as error:
            raise SessionChanged from error
        if owned_session is not None or (row.pk, row.revision) != (known.row.pk, known.row.revision):
            raise SessionChanged
        self.locked[session_id] = (row, None)
        if pending is None:
            return
        head, end = pending.head, pending.content.end
        base = SaveBase(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version)
        version, _ = save_version.write_versions_if_session_at_base(
            self._store.using, base, [pending.content], pending.run_id, None
        )
        if version is None:
            raise SessionChanged
        row.latest_version, row.message_count, row.head_chain = version, end.length, end.chain


class ReadableTranscriptWriter(ImportWriter):
    """Writer of the versions of a mirrored session, which is written beside the runs of its guarded tool calls.

    Calls of guarded tools are not added to the log, and those in it are closed by the version that answers them.
    """

    replaces_last_message_if_it_grows = True
    stores_lines = True

    def __init__(
        self,
        store: Store,
        origin: TranscriptOrigin,
        is_tool_logged_by_policies: Callable[[str], bool],
        mirror_transaction: MirrorTransaction,
        written: list[StoredMessage],
    ) -> None:
        """Create a writer.

        Args:
            store: State of the client.
            origin: Transcript that it writes.
            is_tool_logged_by_policies: Function that says of the name of a tool whether its calls are logged by hooks.
            mirror_transaction: Writes of the mirror.
            written: List that gets the messages that are stored.
        """
        super().__init__(store, origin)
        self._written = written
        self._is_tool_logged_by_policies = is_tool_logged_by_policies
        self._transaction = mirror_transaction
        self._owned_session: OwnedSession | None = None
        #: Kinds of the calls in the transcript, by call id.
        self._kinds: Mapping[str, CallFingerprint] = {}

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        if self._transaction.can_write_optimistically:  # a version is noted, and nothing is written
            yield
        else:
            with super().open_transaction():
                yield

    def load_existing_transcript(self, calls: ImportedCallLog) -> None:
        sessions = Session.objects.using(self.store.using).filter(workspace_id=self.store.workspace_id)
        session_id = self.origin.session_id
        if session_id in self._transaction.locked or sessions.filter(session_id=session_id).exists():
            row, run = self._lock_writable_session_and_get_run()
            self._restore_from_stored_session(row, run, calls)

    def _create_session(self, first: datetime) -> tuple[Session, Run]:
        row, run = self._lock_writable_session_and_get_run()
        self._head = TranscriptHead(row.head_segment_id or 0, row.message_count, bytes(row.head_chain), 0)
        return row, run

    def _lock_writable_session_and_get_run(self) -> tuple[Session, Run]:
        """Lock the session until the end of the caller's transaction; it is created if it does not exist."""
        using, session_id = self.store.using, self.origin.session_id
        if session_id not in self._transaction.locked:
            description = NewSessionFields(agent=self.origin.agent, labels=self.origin.labels, framework=FRAMEWORK)
            with state_store.lock_or_create_session(self.store, session_id, description) as locked:
                self._transaction.locked[session_id] = locked
        row, owned_session = self._transaction.locked[session_id]
        if row.head_segment_id is None:
            row.head_segment = Segment.objects.using(using).create(session=row)
            Session.objects.using(using).filter(pk=row.pk).update(head_segment=row.head_segment)
        run = (
            self._run
            if self._run is not None and self._run.session_id == row.pk
            else self._get_or_create_import_run(row)
        )
        self._row, self._run, self._owned_session = row, run, owned_session
        return row, run

    def _get_or_create_import_run(self, row: Session) -> Run:
        # In a fork, the run that stands for the copying has the number 0.
        number = _READ_RUN_NUMBER if row.forked_from_id is None else _READ_RUN_NUMBER - 1
        run = Run.objects.using(self.store.using).filter(session=row, number=number).first()
        if run is None:
            run = imported_session_and_run.build_import_run(row, number, row.created_at)
            run.save(using=self.store.using, force_insert=True)
        return run

    def load_messages_by_key_within_size(self, keys: Sequence[str], size: int) -> list[tuple[str, str, str]]:
        self._transaction.lock_session_and_write_queued_version()
        return super().load_messages_by_key_within_size(keys, size)

    def write_turns(self, turns: Any, calls: ImportedCallLog, *, first: datetime) -> bool:
        made = [call for turn in turns for call in turn.calls]
        if made or calls.has_unwritten_late_results() or not self._can_write_turns_optimistically(turns, first):
            self._transaction.lock_session_and_write_queued_version()
        self._kinds = calls.kinds
        if made and self._row is not None:
            rows = ToolCall.objects.using(self.store.using).filter(session=self._row)
            logged = rows.filter(call_id__in={call.call_id for call in made}).exclude(side_effects=IMPORTED_MARK)
            known = set(logged.values_list("call_id", flat=True))
            for turn in turns:
                turn.calls = [
                    call
                    for call in turn.calls
                    if call.call_id not in known and not self._is_tool_logged_by_policies(call.tool)
                ]
        is_new = super().write_turns(turns, calls, first=first)
        if self._row is not None and first < self._row.created_at:
            Session.objects.using(self.store.using).filter(pk=self._row.pk).update(created_at=first)
            self._row.created_at = first
        return is_new

    def _can_write_turns_optimistically(self, turns: Sequence[ImportedTurn], first: datetime) -> bool:
        """Return whether turns are one version that continues the transcript, answers no call, and changes no more."""
        return (
            len(turns) == 1
            and turns[0].keep is None
            and self._row is not None
            and self._run is not None
            and self._run.session_id == self._row.pk
            and first >= self._row.created_at
            and self._transaction.can_write_version_optimistically(self.origin.session_id)
            and not turns[0].new_result_counts
        )

    def _write_versions(
        self, row: Session, run: Run, head: TranscriptHead, turns: Sequence[ImportedTurn], difference: int
    ) -> TranscriptHead:
        """Write one version after the other: which calls one of them answers depends on those before it."""
        owned_session = self._owned_session
        run_id = None if owned_session is None else owned_session.run_id
        for turn in turns:
            results = turn.new_result_counts - _count_placeholder_results_by_call_id(turn)
            rows = self._list_pks_of_answered_calls(row, results) if results else []
            answered = raw_sql_call_seals.compute_answered_call_seals(
                self.store.using, owned_session, rows, head.version + 1
            )
            answered.difference += difference
            difference = 0
            self._written.extend(
                StoredMessage(head.segment_id, message.position, message.body) for message in turn.messages
            )
            if self._transaction.can_write_version_optimistically(self.origin.session_id):
                content = VersionToWrite(
                    turn.build_transcript_end(),
                    turn.get_version_state(),
                    answered,
                    turn.messages[-1].created_at,
                )
                self._transaction.queue_version(_PendingVersion(head, content, run_id))
                head = TranscriptHead(head.segment_id, content.end.length, content.end.chain, head.version + 1)
            else:
                head = self._write_versions_with_answers(row, head, [turn], run_id, answered)
            row.latest_version, row.message_count, row.head_chain = head.version, head.length, head.chain
            if owned_session is not None:
                sync = partial(_advance_owned_session_in_memory, owned_session, head, rows, results)
                transaction.on_commit(sync, using=self.store.using)
        return head

    def _list_pks_of_answered_calls(self, row: Session, results: Counter[str]) -> list[int]:
        """List the rows of the calls that new results answer.

        A result of a call that is not in the log is one that was taken from an earlier call of the same kind.
        """
        store, owned_session = self.store, self._owned_session
        if owned_session is not None:
            read = partial(call_queries.list_unanswered_tool_calls, store, row.pk)
            return owned_session.operations.list_row_keys_answered_by_results(results, read)
        open_calls = call_queries.list_unanswered_tool_calls(store, row.pk)
        rows = OpenOperations().list_row_keys_answered_by_results(results, lambda: open_calls)
        kinds = Counter(self._kinds[call_id] for call_id in results if call_id in self._kinds)
        for call in open_calls:
            if call.call_id in results and kinds[get_call_fingerprint(call)]:
                kinds[get_call_fingerprint(call)] -= 1
        for call in open_calls:
            kind = get_call_fingerprint(call)
            if call.pk not in rows and kinds[kind] > 0 and call.status in SETTLED_CALL_STATUSES:
                kinds[kind] -= 1
                rows.append(call.pk)
        return rows

    def update_session_and_close_calls_at_end(self, end: SessionEnd, calls: ImportedCallLog) -> None:
        if self._row is None or self._run is None:
            return
        if (
            self._transaction.can_write_optimistically
            and not calls.has_unwritten_late_results()
            and not self._build_changed_session_columns_or_empty(end)
        ):
            return
        self._transaction.lock_session_and_write_queued_version()
        with self.open_transaction():
            row, using = self._row, self.store.using
            if self.origin.session_id in self._transaction.locked:
                row = self._row = self._transaction.locked[self.origin.session_id][0]
            else:
                row.refresh_from_db(using=using)
            calls.write_late_results_and_discard_unanswered(live=True)
            columns = self._build_changed_session_columns_or_empty(end)
            if columns:
                rows = Session.objects.using(using).filter(pk=row.pk)
                rows.update(**columns, updated_at=Now(), revision=F("revision") + 1)
                for name, value in columns.items():
                    setattr(row, name, value)

    def _build_changed_session_columns_or_empty(self, end: SessionEnd) -> dict[str, Any]:
        """Build the columns that describe the session; empty if none of them has changed."""
        if self._row is not None and (framework := get_framework(self._row)):  # a session without a mark gets none
            self.origin.metadata[FRAMEWORK_MARK] = framework
        columns = imported_session_and_run.build_transcript_derived_columns(self.origin, end, "agent", "labels")
        return columns if any(getattr(self._row, name) != value for name, value in columns.items()) else {}


def _count_placeholder_results_by_call_id(turn: ImportedTurn) -> Counter[str]:
    """Count the results, by call id, that the program made up for calls that died: the model has not read theirs."""
    found = Counter[str]()
    for message in turn.messages:
        if any(beginning in message.body for beginning in _BEGINNINGS_OF_RESULTS_BY_PROGRAM):
            for part in parse_message_parts.parse_message_parts(message.body):
                text = parse_message_parts.parts_to_text(part.parts) if isinstance(part, ResultPart) else ""
                if isinstance(part, ResultPart) and text.startswith(_BEGINNINGS_OF_RESULTS_BY_PROGRAM):
                    found[part.call_id] += 1
    return found


def _advance_owned_session_in_memory(
    owned_session: OwnedSession, head: TranscriptHead, answered_rows: list[int], results: Counter[str]
) -> None:
    """Let the run of this client go on from a version that was written beside it."""
    owned_session.head, owned_session.sealed_head = head, None
    raw_sql_call_seals.forget_sealed_calls(owned_session, answered_rows)
    owned_session.operations.drop_answered_operations(results)
    for call_id in results:
        owned_session.open_calls.pop(call_id, None)
