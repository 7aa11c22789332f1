"""Background thread that writes the queued snapshots of all sessions."""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

from django.db import connections

from checkpoints.exceptions import (
    CheckpointerClosed,
    FileError,
    InvalidInput,
    NotDurable,
    StorageBusy,
    StorageUnavailable,
)
from checkpoints.generate_and_validate_ids import validate_integer
from checkpoints.store.database_client_state import Store
from checkpoints.store.version_state_types import VersionState
from checkpoints.versions import save_version
from checkpoints.versions.queued_snapshots import (
    FIRST_RETRY_PAUSE,
    LONGEST_RETRY_PAUSE,
    FrozenTranscript,
    QueueEntry,
    SessionQueue,
    SnapshotRequest,
    Ticket,
)
from checkpoints.versions.save_cadence import TURN_PHASES, Cadence

logger = logging.getLogger(__name__)

#: Seconds without work after which the writer's thread and its connection end.
IDLE_THREAD_SECONDS = 5.0
_TRANSIENT_ERRORS = (StorageBusy, StorageUnavailable)


class BackgroundWriter:
    """Background writer of versions, safe to use from many threads.

    Its thread and connection end after some time without work.
    """

    def __init__(self, store: Store, *, cadence: Cadence, coalesce: bool, queue: int, flush_timeout: float) -> None:
        validate_integer("queue", queue, minimum=1)
        if not flush_timeout > 0:
            raise InvalidInput(f"flush_timeout is {flush_timeout!r}; it has to be a number of seconds above 0.")
        if store.behind is not None:
            raise InvalidInput("This checkpointer is written behind already.")
        self.store = store
        self.cadence = cadence
        self.coalesce = coalesce
        self.queue = queue
        self.flush_timeout = flush_timeout
        self._changed = threading.Condition()
        self._lines: dict[str, SessionQueue] = {}
        self._writer: threading.Thread | None = None
        self._closed = False
        store.behind = self
        _open_writers.add(self)

    # handing in

    def enqueue_snapshot(self, request: SnapshotRequest) -> Ticket:
        """Queue a snapshot as it is now; wait for room if the queue is full.

        Raises the error of an earlier snapshot of this session, and `NotDurable` if the queue stays full.
        """
        deadline = time.monotonic() + self.flush_timeout
        self.store.record_last_use_of_session(request.session_id)
        with self._changed:
            while True:
                self._require_not_closed()
                line = self._get_or_create_queue_and_drop_unused(request.session_id)
                self._raise_stored_error_and_drop_failed_queue(request.session_id)
                replaced_entry = self._find_replaceable_entry(line, request)
                if replaced_entry is not None or self._count_entries() < self.queue:
                    return self._append_or_replace_queue_entry(line, request, replaced_entry)
                self._release_held_back_entries(self._lines)
                if not self._changed.wait(deadline - time.monotonic()):
                    raise NotDurable(
                        self._list_unsaved_entries(), "the queue is full, and the database does not take them"
                    )

    def find_last_enqueued_snapshot(self, session_id: str) -> tuple[FrozenTranscript, VersionState] | None:
        """Return the snapshot that was handed in last for a session, unless another version has been saved since."""
        owned_session = self.store.find_owned_session(session_id)
        with self._changed:
            line = self._lines.get(session_id)
            if line is None or line.state is None or owned_session is None:
                return None
            is_current = line.entries or line.version == owned_session.head.version
            return (line.newest, line.state) if is_current else None

    def _get_or_create_queue_and_drop_unused(self, session_id: str) -> SessionQueue:
        if session_id not in self._lines:
            unused_keys = [
                key
                for key, line in self._lines.items()
                if not line.entries and self.store.find_owned_session(key) is None
            ]
            for key in unused_keys:
                del self._lines[key]
            self._lines[session_id] = SessionQueue()
        return self._lines[session_id]

    def _find_replaceable_entry(self, line: SessionQueue, request: SnapshotRequest) -> QueueEntry | None:
        """Return the waiting entry that a snapshot replaces: one that is held back, or an older one of the same
        step."""
        last = line.entries[-1] if line.entries else None
        if last is None or (line.writing and len(line.entries) == 1):
            return None
        if line.kept_back:
            return None if request.light and not last.light else last
        is_same_step = request.step is not None and (request.step, request.state.phase) == (last.step, last.state.phase)
        return last if is_same_step and self.coalesce else None

    def _append_or_replace_queue_entry(
        self, line: SessionQueue, request: SnapshotRequest, replaced_entry: QueueEntry | None
    ) -> Ticket:
        ticket = Ticket(request.session_id)
        transcript = line.newest if request.transcript is None else line.newest.freeze_transcript(request.transcript)
        entry = QueueEntry(request.session_id, transcript, request.state, request.step, request.light, [ticket])
        if replaced_entry is not None:
            entry.tickets += replaced_entry.tickets
            entry.since = replaced_entry.since
            line.entries.pop()
        line.newest, line.state = transcript, request.state
        line.turns += request.state.phase in TURN_PHASES
        line.entries.append(entry)
        line.kept_back = not self.cadence.is_due(request.state.phase, line.turns)
        if not line.kept_back:
            line.turns = 0
        self._start_or_wake_writer_thread()
        return ticket

    def _start_or_wake_writer_thread(self) -> None:
        self._changed.notify_all()
        if self._writer is None or not self._writer.is_alive():
            self._writer = threading.Thread(target=self._run_writer_thread, name="harness-write-behind", daemon=True)
            self._writer.start()

    # flushing

    def flush(self, session_id: str | None = None, timeout: float | None = None) -> None:
        """Wait until everything of a session, or of all, is durable: at most `timeout` seconds.

        Raises `NotDurable` with the versions that are not. Those that can never be written are dropped then; the
        others are retried.
        """
        if threading.current_thread() is self._writer:
            return
        deadline = time.monotonic() + (self.flush_timeout if timeout is None else timeout)
        with self._changed:
            lines = {key: line for key, line in self._lines.items() if session_id in (None, key)}
            self._release_held_back_entries(lines)
            while any(line.entries and line.trouble is None for line in lines.values()):
                self._start_or_wake_writer_thread()
                if not self._changed.wait(deadline - time.monotonic()) or time.monotonic() >= deadline:
                    break
            for key in lines:
                self._raise_stored_error_and_drop_failed_queue(key)
            if unsaved := self._list_unsaved_entries(session_id):
                raise NotDurable(unsaved, self._describe_last_error(lines.values()))

    def list_unsaved_versions(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """List the versions that are not durable yet: session_id, phase, step, messages, waited_seconds, kept_back."""
        with self._changed:
            return self._list_unsaved_entries(session_id)

    def close(self) -> None:
        """Flush and accept nothing more. Raises `NotDurable`."""
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            if self.store.behind is self:
                self.store.behind = None

    def _require_not_closed(self) -> None:
        if self._closed:
            raise CheckpointerClosed

    def _release_held_back_entries(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            self._lines[session_id].kept_back = False
            self._lines[session_id].turns = 0
        self._changed.notify_all()

    def _raise_stored_error_and_drop_failed_queue(self, session_id: str) -> None:
        """Raise the error of the background thread for a session, once."""
        line = self._lines.get(session_id)
        if line is None:  # another thread has raised the error
            return
        complaint, line.complaint = line.complaint, None
        if line.trouble is not None:
            unsaved = line.to_dicts()
            del self._lines[session_id]
            self._changed.notify_all()
            raise NotDurable(unsaved, str(line.trouble)) from line.trouble
        if complaint is not None:
            raise complaint

    def _describe_last_error(self, lines: Iterable[SessionQueue]) -> str:
        errors = [line.last_error for line in lines if line.last_error is not None]
        return str(errors[-1]) if errors else "the time was up"

    def _count_entries(self) -> int:
        return sum(len(line.entries) for line in self._lines.values())

    def _list_unsaved_entries(self, session_id: str | None = None) -> list[dict[str, Any]]:
        lines = [line for key, line in self._lines.items() if session_id in (None, key)]
        return [entry for line in lines for entry in line.to_dicts()]

    # writer thread

    def _run_writer_thread(self) -> None:
        try:
            while (entry := self._wait_for_next_entry()) is not None:
                self._write_entry(entry)
        finally:
            connections[self.store.using].close()

    def _wait_for_next_entry(self) -> QueueEntry | None:
        """Wait for the oldest entry that may be written; None after some time without work."""
        until = time.monotonic() + IDLE_THREAD_SECONDS
        with self._changed:
            while True:
                now = time.monotonic()
                for line in self._lines.values():
                    if line.kept_back and self._is_held_back_entry_due(line.entries[-1], now):
                        line.kept_back, line.turns = False, 0
                ready = [
                    line for line in self._lines.values() if line.is_first_entry_writable() and line.not_before <= now
                ]
                if ready:
                    line = min(ready, key=lambda candidate: candidate.entries[0].since)
                    line.writing = True
                    return line.entries[0]
                busy = any(line.entries and line.trouble is None for line in self._lines.values())
                if not busy and (now >= until or self._closed):
                    self._writer = None
                    return None
                self._changed.wait(min(self._iterate_seconds_until_due(now), default=max(until - now, 0.01)))

    def _is_held_back_entry_due(self, entry: QueueEntry, now: float) -> bool:
        return self.cadence.seconds is not None and now - entry.since >= self.cadence.seconds

    def _iterate_seconds_until_due(self, now: float) -> Iterable[float]:
        """Iterate over the seconds until entries that may not be written now become due."""
        for line in self._lines.values():
            if line.is_first_entry_writable():
                yield max(line.not_before - now, 0.001)
            elif line.kept_back and self.cadence.seconds is not None:
                yield max(line.entries[-1].since + self.cadence.seconds - now, 0.001)

    def _write_entry(self, entry: QueueEntry) -> None:
        error: Exception | None = None
        version: int | None = None
        try:
            version = save_version.save_next_version_of_transcript(
                self.store, entry.session_id, entry.frozen.messages, entry.state
            )
        except Exception as raised:  # stored, and raised at the agent's next call
            error = raised
        with self._changed:
            self._apply_write_result_to_queue(self._lines[entry.session_id], version, error)
            self._changed.notify_all()

    def _apply_write_result_to_queue(self, line: SessionQueue, version: int | None, error: Exception | None) -> None:
        line.writing = False
        if isinstance(error, FileError):  # the version is stored; its copy in a file is not
            line.complaint, error = error, None
            owned_session = self.store.find_owned_session(line.entries[0].session_id)
            version = 0 if owned_session is None else owned_session.head.version
        line.last_error = error
        if error is None:
            line.pause, line.version = FIRST_RETRY_PAUSE, version
            for ticket in line.entries.popleft().tickets:
                ticket.version = version
        elif isinstance(error, _TRANSIENT_ERRORS):
            line.not_before = time.monotonic() + line.pause
            line.pause = min(line.pause * 2, LONGEST_RETRY_PAUSE)
        else:
            line.trouble = error


_open_writers: weakref.WeakSet[BackgroundWriter] = weakref.WeakSet()


@atexit.register
def _flush_writers_at_exit() -> None:
    """Flush at the end of a process that did not close its writer, or log the versions that were lost."""
    for writer in list(_open_writers):
        try:
            writer.flush()
        except Exception as error:
            logger.error("At the end of the process: %s", error)
