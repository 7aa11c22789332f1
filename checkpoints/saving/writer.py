"""The queue of what waits to be written, and the thread that writes it."""

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
from checkpoints.ids import checked_number
from checkpoints.saving import checkpoints
from checkpoints.saving.cadence import TURNS, Cadence
from checkpoints.saving.frozen import Frozen
from checkpoints.saving.state import State
from checkpoints.saving.store import Store
from checkpoints.saving.waiting import FIRST_PAUSE, LONGEST_PAUSE, Entry, Line, Ticket, Wanted

logger = logging.getLogger(__name__)

#: The writer's thread and its connection end after so many seconds without work.
LINGER = 5.0
_TRANSIENT = (StorageBusy, StorageUnavailable)


class Behind:
    """Safe to use from many threads. The thread and its connection end when there is nothing to do for a while."""

    def __init__(self, store: Store, *, cadence: Cadence, coalesce: bool, queue: int, flush_timeout: float) -> None:
        checked_number("queue", queue, least=1)
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
        self._lines: dict[str, Line] = {}
        self._writer: threading.Thread | None = None
        self._closed = False
        store.behind = self
        _open.add(self)

    # handing in

    def offer(self, wanted: Wanted) -> Ticket:
        """Take a snapshot as it is now; wait for room where the queue is full.

        Raises what could not be written of this session before, and `NotDurable` where the queue stays full.
        """
        deadline = time.monotonic() + self.flush_timeout
        self.store.touch(wanted.session_id)
        with self._changed:
            while True:
                self._refuse_closed()
                line = self._line(wanted.session_id)
                self._raise_trouble(wanted.session_id)
                replaced = self._replaced(line, wanted)
                if replaced is not None or self._count() < self.queue:
                    return self._placed(line, wanted, replaced)
                self._release_kept(self._lines)
                if not self._changed.wait(deadline - time.monotonic()):
                    raise NotDurable(self._waiting(), "the queue is full, and the database does not take them")

    def newest(self, session_id: str) -> tuple[Frozen, State] | None:
        """What was handed in last for a session, unless something else has been saved since."""
        held = self.store.holds(session_id)
        with self._changed:
            line = self._lines.get(session_id)
            if line is None or line.state is None or held is None:
                return None
            known = line.entries or line.version == held.head.version
            return (line.newest, line.state) if known else None

    def _line(self, session_id: str) -> Line:
        if session_id not in self._lines:
            over = [key for key, line in self._lines.items() if not line.entries and self.store.holds(key) is None]
            for key in over:
                del self._lines[key]
            self._lines[session_id] = Line()
        return self._lines[session_id]

    def _replaced(self, line: Line, wanted: Wanted) -> Entry | None:
        """The waiting entry whose place this one takes: one that is kept back, or an older one of the same step."""
        last = line.entries[-1] if line.entries else None
        if last is None or (line.writing and len(line.entries) == 1):
            return None
        if line.kept_back:
            return None if wanted.light and not last.light else last
        same = wanted.step is not None and (wanted.step, wanted.state.phase) == (last.step, last.state.phase)
        return last if same and self.coalesce else None

    def _placed(self, line: Line, wanted: Wanted, replaced: Entry | None) -> Ticket:
        ticket = Ticket(wanted.session_id)
        frozen = line.newest if wanted.transcript is None else line.newest.followed_by(wanted.transcript)
        entry = Entry(wanted.session_id, frozen, wanted.state, wanted.step, wanted.light, [ticket])
        if replaced is not None:
            entry.tickets += replaced.tickets
            entry.since = replaced.since
            line.entries.pop()
        line.newest, line.state = frozen, wanted.state
        line.turns += wanted.state.phase in TURNS
        line.entries.append(entry)
        line.kept_back = not self.cadence.due(wanted.state.phase, line.turns)
        if not line.kept_back:
            line.turns = 0
        self._wake()
        return ticket

    def _wake(self) -> None:
        self._changed.notify_all()
        if self._writer is None or not self._writer.is_alive():
            self._writer = threading.Thread(target=self._write_all, name="harness-write-behind", daemon=True)
            self._writer.start()

    # waiting for it to be durable

    def flush(self, session_id: str | None = None, timeout: float | None = None) -> None:
        """Wait until everything of a session, or of all, is durable: at most `timeout` seconds.

        Raises `NotDurable` with what is not. What can never be written is forgotten with that; the rest is tried on.
        """
        if threading.current_thread() is self._writer:
            return
        deadline = time.monotonic() + (self.flush_timeout if timeout is None else timeout)
        with self._changed:
            lines = {key: line for key, line in self._lines.items() if session_id in (None, key)}
            self._release_kept(lines)
            while any(line.entries and line.trouble is None for line in lines.values()):
                self._wake()
                if not self._changed.wait(deadline - time.monotonic()) or time.monotonic() >= deadline:
                    break
            for key in lines:
                self._raise_trouble(key)
            if waiting := self._waiting(session_id):
                raise NotDurable(waiting, self._last_error(lines.values()))

    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """What is not durable yet: session_id, phase, step, messages, waited_seconds, kept_back."""
        with self._changed:
            return self._waiting(session_id)

    def close(self) -> None:
        """Flush and take nothing more. Raises `NotDurable`."""
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            if self.store.behind is self:
                self.store.behind = None

    def _refuse_closed(self) -> None:
        if self._closed:
            raise CheckpointerClosed

    def _release_kept(self, lines: Iterable[str]) -> None:
        for key in lines:
            self._lines[key].kept_back = False
            self._lines[key].turns = 0
        self._changed.notify_all()

    def _raise_trouble(self, session_id: str) -> None:
        """Report, once, what went wrong behind the caller's back."""
        line = self._lines.get(session_id)
        if line is None:  # somebody else was told
            return
        complaint, line.complaint = line.complaint, None
        if line.trouble is not None:
            lost = line.as_dicts()
            del self._lines[session_id]
            self._changed.notify_all()
            raise NotDurable(lost, str(line.trouble)) from line.trouble
        if complaint is not None:
            raise complaint

    def _last_error(self, lines: Iterable[Line]) -> str:
        errors = [line.last_error for line in lines if line.last_error is not None]
        return str(errors[-1]) if errors else "the time was up"

    def _count(self) -> int:
        return sum(len(line.entries) for line in self._lines.values())

    def _waiting(self, session_id: str | None = None) -> list[dict[str, Any]]:
        lines = [line for key, line in self._lines.items() if session_id in (None, key)]
        return [told for line in lines for told in line.as_dicts()]

    # the writer

    def _write_all(self) -> None:
        try:
            while (entry := self._next()) is not None:
                self._write(entry)
        finally:
            connections[self.store.using].close()

    def _next(self) -> Entry | None:
        """The oldest entry that may be written now; None when there has been nothing to do for a while."""
        until = time.monotonic() + LINGER
        with self._changed:
            while True:
                now = time.monotonic()
                for line in self._lines.values():
                    if line.kept_back and self._overdue(line.entries[-1], now):
                        line.kept_back, line.turns = False, 0
                ready = [line for line in self._lines.values() if line.ready() and line.not_before <= now]
                if ready:
                    line = min(ready, key=lambda each: each.entries[0].since)
                    line.writing = True
                    return line.entries[0]
                busy = any(line.entries and line.trouble is None for line in self._lines.values())
                if not busy and (now >= until or self._closed):
                    self._writer = None
                    return None
                self._changed.wait(min(self._pauses(now), default=max(until - now, 0.01)))

    def _overdue(self, entry: Entry, now: float) -> bool:
        return self.cadence.seconds is not None and now - entry.since >= self.cadence.seconds

    def _pauses(self, now: float) -> Iterable[float]:
        """How long until something may be written that may not be now."""
        for line in self._lines.values():
            if line.ready():
                yield max(line.not_before - now, 0.001)
            elif line.kept_back and self.cadence.seconds is not None:
                yield max(line.entries[-1].since + self.cadence.seconds - now, 0.001)

    def _write(self, entry: Entry) -> None:
        error: Exception | None = None
        version: int | None = None
        try:
            version = checkpoints.save(self.store, entry.session_id, entry.frozen.messages, entry.state)
        except Exception as raised:  # whatever it is, the agent is told when it asks next
            error = raised
        with self._changed:
            self._written(self._lines[entry.session_id], version, error)
            self._changed.notify_all()

    def _written(self, line: Line, version: int | None, error: Exception | None) -> None:
        line.writing = False
        if isinstance(error, FileError):  # the version is there; its copy in a file is not
            line.complaint, error = error, None
            held = self.store.holds(line.entries[0].session_id)
            version = 0 if held is None else held.head.version
        line.last_error = error
        if error is None:
            line.pause, line.version = FIRST_PAUSE, version
            for ticket in line.entries.popleft().tickets:
                ticket.version = version
        elif isinstance(error, _TRANSIENT):
            line.not_before = time.monotonic() + line.pause
            line.pause = min(line.pause * 2, LONGEST_PAUSE)
        else:
            line.trouble = error


_open: weakref.WeakSet[Behind] = weakref.WeakSet()


@atexit.register
def _flush_at_exit() -> None:
    """A script that ends without closing does not lose what it handed in, or its log says what."""
    for behind in list(_open):
        try:
            behind.flush()
        except Exception as error:
            logger.error("At the end of the process: %s", error)
