"""Database part of an import: the existing state of a session, and the turns that are added to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from checkpoints.calls.raw_sql_call_seals import AnsweredCalls
from checkpoints.db.hot_statements import NewMessage, SaveBase
from checkpoints.db.sql_names_and_values import quote_column, quote_table
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.enums import SessionStatus
from checkpoints.exceptions import CheckpointCorrupted, StorageError
from checkpoints.formats import digests
from checkpoints.formats.canonical_json import parse_json
from checkpoints.importers import imported_session_and_run
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.importers.imported_calls import ImportedCallLog
from checkpoints.importers.imported_session_and_run import SessionEnd, TranscriptOrigin
from checkpoints.importers.new_session_batch import NewSession, NewSessionBatch
from checkpoints.models import Message, Run, Session, ToolCall
from checkpoints.seals import session_heads
from checkpoints.seals.session_heads import SessionHead
from checkpoints.store import optimistic_lock_on_sealed_heads
from checkpoints.store.checkpointer_state import TranscriptHead
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import VersionState
from checkpoints.versions import new_messages_and_segments, read_messages_along_segments, save_version
from checkpoints.versions.save_version import TranscriptEnd, VersionToWrite

#: Largest number of keys of messages in one query.
_KEYS_IN_QUERY: Final = 100


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Message of the current transcript: its key, its role, and the chain after it."""

    key: str
    role: str
    chain: bytes


@dataclass
class ImportedTurn:
    """Messages that become one version. `keep`: it branches off after that number of messages."""

    keep: int | None = None
    messages: list[NewMessage] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    characters: int = 0
    state: VersionState | None = None
    #: Results in the messages that are not new, by call id.
    repeated_results: Counter[str] = field(default_factory=Counter)

    def build_transcript_end(self) -> TranscriptEnd:
        """Return the end of the transcript after this turn."""
        last = self.messages[-1]
        return TranscriptEnd(self.messages, last.position + 1, last.chain)

    @cached_property
    def new_result_counts(self) -> Counter[str]:
        """Number of new results of calls in the messages, by call id; the turn has ended."""
        said = [parse_json(message.body) for message in self.messages]
        return replace(self.build_transcript_end(), said=said, repeated=self.repeated_results).new_result_counts

    def get_version_state(self) -> VersionState:
        """Return the state of the version; the turn has ended."""
        assert self.state is not None  # noqa: S101 - given when the turn ended
        return self.state

    def set_all_times(self, at: datetime) -> None:
        """Give the first known time to messages and calls that came before it."""
        self.messages = [message._replace(created_at=at) for message in self.messages]
        for call in self.calls:
            call.issued_at = at
            call.interrupted_at, call.settled_at = call.interrupted_at and at, call.settled_at and at


class ImportWriter:
    """Writer of one session. Nothing is written before the first turn, so that an empty transcript creates no
    session."""

    #: Whether the last message is replaced if it comes again with more content.
    replaces_last_message_if_it_grows = False
    #: Whether the lines of the transcript are stored as they are, beside the messages.
    stores_lines = False
    #: Whether what is read now was recorded before, so that nothing of it is written.
    repeats = False

    def __init__(self, store: Store, origin: TranscriptOrigin, batch: NewSessionBatch | None = None) -> None:
        """Create a writer. If there is a `batch`, a session that is new and complete is added to it, not written."""
        self.store, self.origin = store, origin
        self._batch = batch
        self.known: set[str] = set()
        self.path: list[MessagePlace] = []
        #: Path of the file that the session was first imported from; empty if it is new.
        self.source_path = ""
        self._row: Session | None = None
        self._run: Run | None = None
        self._head: TranscriptHead | None = None
        self._sealed_head: SessionHead | None = None
        #: Whether the session was created since its row was last updated.
        self._is_created = False
        #: Whether this import has written versions of the session.
        self._has_new_versions = False
        #: Whether the session is in the batch, as it is at its end.
        self._is_in_batch = False
        #: End of the transcript if the next turns are its last ones, and the end with which the session was created.
        self.known_end: SessionEnd | None = None
        self._written_end: SessionEnd | None = None

    def load_existing_transcript(self, calls: ImportedCallLog) -> None:
        """Load what earlier imports wrote. Raises `ImportRefused`."""
        store = self.store
        with database_operation(store.using, writes=False) as connection:
            with connection.cursor() as cursor:
                cursor.execute(_build_find_session_pk_by_session_id_sql(), [store.workspace_id, self.origin.session_id])
                found = cursor.fetchone()
            if found is None:  # the usual case of a first import
                return
            row = Session.objects.using(store.using).get(pk=found[0])
            runs = list(Run.objects.using(store.using).filter(session=row).order_by("number"))
            self.source_path = imported_session_and_run.require_unchanged_import_and_get_path(row, runs, self.origin)
            self._restore_from_stored_session(row, runs[0], calls)

    def _restore_from_stored_session(self, row: Session, run: Run, calls: ImportedCallLog) -> None:
        with database_operation(self.store.using, writes=False) as connection:
            self._row, self._run, self._head = row, run, save_version.get_session_transcript_head(row)
            # Through the segments, whose index leads to them; messages have no index of their session.
            messages = Message.objects.using(self.store.using).filter(segment__session=row)
            self.known = set(messages.values_list("message_id", flat=True).iterator())
            fields = ("message_id", "role", "chain")
            rows = read_messages_along_segments.read_message_field_rows(
                connection, self._head.segment_id, self._head.length, fields
            )
            self.path = [MessagePlace(key, role, bytes(chain)) for key, role, chain in rows]
            calls.load_existing_calls(row)

    def load_last_message_body(self) -> Any:
        """Load the last message that an earlier import wrote; None if there is none."""
        if self._head is None or self._head.length == 0:
            return None
        length = self._head.length
        with database_operation(self.store.using, writes=False) as connection:
            rows = read_messages_along_segments.read_message_field_rows(
                connection, self._head.segment_id, length, ("body",), length - 1
            )
        return parse_json(rows[0][0])

    def load_messages_by_key_within_size(self, keys: Sequence[str], size: int) -> list[tuple[str, str, str]]:
        """Load messages of any version of the session: the key, the role and the body of each, in the order of `keys`.

        Of the last ones, no more than `size` characters of bodies. A key without a message is left out. Raises
        `CheckpointCorrupted` if a body is not the one that was written.
        """
        using, found = self.store.using, list[tuple[str, str, str]]()
        with database_operation(using, writes=False) as connection:
            messages = Message.objects.using(using).filter(segment__session=self._row)
            for end in range(len(keys), 0, -_KEYS_IN_QUERY):
                page = keys[max(0, end - _KEYS_IN_QUERY) : end]
                # The last row of a message that has grown is the complete one.
                rows = {message.message_id: message for message in messages.filter(message_id__in=page).order_by("pk")}
                for message in [rows[key] for key in reversed(page) if key in rows]:
                    size -= len(message.body)
                    if size < 0:
                        return found[::-1]
                    self._require_stored_message_matches_own_digest(connection, message)
                    found.append((message.message_id, message.role, message.body))
        return found[::-1]

    def _require_stored_message_matches_own_digest(self, connection: BaseDatabaseWrapper, message: Message) -> None:
        place, position = (connection, message.segment_id), message.position
        before = digests.EMPTY_CHAIN
        for (chain,) in read_messages_along_segments.read_message_field_rows(
            *place, position, ("chain",), max(0, position - 1)
        ):
            before = bytes(chain)
        if digests.extend_hash_chain(before, message.body) != bytes(message.chain):
            name = "a message of its transcript"
            raise CheckpointCorrupted(self.origin.session_id, name, "it does not match its digest")

    @contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Open a transaction for several writes, which commits once, or continue the open one: an error ends all of
        it."""
        with database_operation(self.store.using), transaction.atomic(using=self.store.using, savepoint=False):
            yield

    def write_turns(self, turns: Sequence[ImportedTurn], calls: ImportedCallLog, *, first: datetime) -> bool:
        """Write turns and their calls, all or none. Returns whether that created the session."""
        is_new = self._row is None
        if is_new and self._try_add_to_batch(turns, calls, first):
            return True
        try:
            with self.open_transaction():
                self._ensure_file_savepoint()
                row, run = self._create_session(first) if is_new else self._lock_writable_session_and_get_run()
                if self._sealed_head is None:
                    self._sealed_head = optimistic_lock_on_sealed_heads.lock_head_and_seal_if_unsealed(
                        self.store.using, row.pk
                    )
                for group in _split_at_branches(turns):
                    self._write_turn_group(row, run, group, calls)
                self._has_new_versions = True
                calls.insert_calls_and_late_results(row, [call for turn in turns for call in turn.calls])
        except StorageError as error:
            if isinstance(error.__cause__, IntegrityError):
                raise ImportOvertaken(self.origin.session_id) from error
            raise
        finally:
            self._sealed_head = None
        return is_new

    def _try_add_to_batch(self, turns: Sequence[ImportedTurn], calls: ImportedCallLog, first: datetime) -> bool:
        """Add the new session to the batch, if there is one and the turns are the whole session. Returns whether it
        was added. Raises `ImportOvertaken`."""
        end = self.known_end
        if self._batch is None or end is None or end.live or any(turn.keep is not None for turn in turns):
            return False
        row, run = imported_session_and_run.build_session_and_run(self.store, self.origin, first, end)
        made = _set_steps_and_list_calls(turns, after=0)
        updated_at = self._find_activity_time_if_not_recent(end)
        self._batch.add_session(
            NewSession(self.origin, row, run, _build_versions_to_write(turns), made, calls, updated_at)
        )
        self._row, self._run, self._is_in_batch = row, run, True
        return True

    def _ensure_file_savepoint(self) -> None:
        if self._batch is not None:
            self._batch.ensure_file_savepoint(self.origin.session_id)

    def _create_session(self, first: datetime) -> tuple[Session, Run]:
        end = None if self.known_end is None or self.known_end.live else self.known_end
        self._row, self._run = imported_session_and_run.build_session_and_run(self.store, self.origin, first, end)
        imported_session_and_run.insert_sessions_with_runs_and_events(self.store, [(self.origin, self._row, self._run)])
        self._written_end = end
        self._head = save_version.get_session_transcript_head(self._row)
        self._sealed_head = session_heads.build_head_of_new_session_if_sealing(self._row)
        self._is_created = True
        return self._row, self._run

    def _lock_writable_session_and_get_run(self) -> tuple[Session, Run]:
        """Lock the session, which has to be as this import left it, and reopen it if it was finished."""
        assert self._row is not None and self._run is not None  # noqa: S101, PT018 - set together
        sessions = Session.objects.using(self.store.using).filter(pk=self._row.pk)
        row = sessions.select_for_update().first()
        if row is None or row.owner_id not in (None, self._run.pk):  # the save itself detects other differences
            raise ImportOvertaken(self.origin.session_id)
        save_version.require_session_ends_with_newest_version(self.store.using, row)
        if row.finished:
            row.status = SessionStatus.ACTIVE
            sessions.update(status=SessionStatus.ACTIVE)
        self._row = row
        return row, self._run

    def _write_turn_group(self, row: Session, run: Run, turns: Sequence[ImportedTurn], calls: ImportedCallLog) -> None:
        """Write consecutive turns, of which only the first one may begin a branch, and complete the rows of their
        calls."""
        head = self._get_or_branch_head_for_turn(row, turns[0].keep)
        difference = calls.complete_call_rows_and_sum_seals(
            row, run, _set_steps_and_list_calls(turns, after=head.version)
        )
        self._head = self._write_versions(row, run, head, turns, difference)

    def _write_versions(
        self, row: Session, run: Run, head: TranscriptHead, turns: Sequence[ImportedTurn], difference: int
    ) -> TranscriptHead:
        """Write the versions that the turns become, and add `difference` to the sum of the session.

        Returns the end of the transcript after them. Raises `ImportOvertaken` if the session is not at `head`.
        """
        return self._write_versions_with_answers(row, head, turns, run.pk, AnsweredCalls(difference=difference))

    def _write_versions_with_answers(
        self,
        row: Session,
        head: TranscriptHead,
        turns: Sequence[ImportedTurn],
        run_id: UUID | None,
        answered: AnsweredCalls,
    ) -> TranscriptHead:
        contents = _build_versions_to_write(turns)
        contents[0] = replace(contents[0], answered=answered)
        version, self._sealed_head = save_version.write_versions_if_session_at_base(
            self.store.using,
            SaveBase(row.pk, row.fence, head.segment_id, head.length, head.chain, head.version),
            contents,
            run_id,
            self._sealed_head,
            updated_at=self._find_activity_time_if_not_recent(self._written_end),
        )
        if version is None:
            raise ImportOvertaken(self.origin.session_id)
        end = contents[-1].end
        return TranscriptHead(head.segment_id, end.length, end.chain, version)

    def _find_activity_time_if_not_recent(self, end: SessionEnd | None) -> datetime | None:
        """Return the time of the newest activity at `end` if it is known and not recent."""
        return (
            None
            if end is None or imported_session_and_run.is_transcript_end_recent(self.store.using, end)
            else end.last
        )

    def _get_or_branch_head_for_turn(self, row: Session, keep: int | None) -> TranscriptHead:
        """Return the start of a turn: the end of the transcript, or a new segment after its first `keep` messages."""
        assert self._head is not None  # noqa: S101 - set with the session
        if keep is None:
            return self._head
        segment = new_messages_and_segments.create_branch_segment(self.store.using, row.pk, self._head, keep)
        Session.objects.using(self.store.using).filter(pk=row.pk).update(head_segment=segment)
        return TranscriptHead(segment.pk, self._head.length, self._head.chain, self._head.version)

    def update_session_and_close_calls_at_end(self, end: SessionEnd, calls: ImportedCallLog) -> None:
        """Update what is only known at the end: title, metadata, status, cost, times. Equal values are not written."""
        if self._row is None or self._run is None or self._is_in_batch:
            return
        with self.open_transaction():
            self._ensure_file_savepoint()
            row, run = self._row, self._run
            if not self._is_created:
                row.refresh_from_db(using=self.store.using)
            calls.write_late_results_and_discard_unanswered(live=end.live)
            was_written, self._is_created, self._written_end = self._written_end is end, False, None
            if was_written:
                return
            imported_session_and_run.update_imported_session_and_run_at_end(
                self.store, row, run, self.origin, end, has_new_versions=self._has_new_versions
            )


@cache
def _build_find_session_pk_by_session_id_sql() -> str:
    """SQL that finds the key of a session, built once: compiling the query would take longer than it."""
    conditions = " AND ".join(f"{quote_column(Session, name)} = %s" for name in ("workspace", "session_id"))
    return f"SELECT {quote_column(Session, 'id')} FROM {quote_table(Session)} WHERE {conditions}"  # noqa: S608 - names of models


def _build_versions_to_write(turns: Sequence[ImportedTurn]) -> list[VersionToWrite]:
    return [
        VersionToWrite(
            turn.build_transcript_end(), turn.get_version_state(), AnsweredCalls(), turn.messages[-1].created_at
        )
        for turn in turns
    ]


def _set_steps_and_list_calls(turns: Sequence[ImportedTurn], *, after: int) -> list[ToolCall]:
    """Set the version that the calls of each turn belong to, and return them. `after` is the version before."""
    for version, turn in enumerate(turns, after + 1):
        for call in turn.calls:
            call.step = version
    return [call for turn in turns for call in turn.calls]


def _split_at_branches(turns: Sequence[ImportedTurn]) -> list[list[ImportedTurn]]:
    """Split turns into groups that continue one after the other; each group but the first begins a branch."""
    groups: list[list[ImportedTurn]] = []
    for turn in turns:
        if turn.keep is not None or not groups:
            groups.append([])
        groups[-1].append(turn)
    return groups
