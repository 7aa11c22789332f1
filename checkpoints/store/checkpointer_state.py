"""State of a client in this process, of a database or of a server: the sessions it owns, and what it does with them."""

from __future__ import annotations

import os
import threading
import time
import uuid
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from checkpoints.exceptions import InvalidInput, NotOwner, OpenedInAnotherProcess, ReleasedWhenIdle
from checkpoints.store.call_intent_and_outcome_types import IssuedCall
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.store.version_state_types import VersionState

if TYPE_CHECKING:
    from checkpoints.models import Run
    from checkpoints.seals.row_seals import SealStart
    from checkpoints.seals.session_heads import SessionHead


class VerifyHookProvider(Protocol):
    """Provider of verify hooks for the tools of one session, or of any session if `session_id` is None: a registry."""

    @property
    def session_id(self) -> str | None: ...

    def knows_tool(self, tool: str) -> bool: ...

    def get_verify_hook(self, tool: str) -> Any | None: ...


class PendingWrites(Protocol):
    """Background writer of versions."""

    def flush(self, session_id: str | None = None) -> None: ...

    def list_unsaved_versions(self, session_id: str | None = None) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class TranscriptHead:
    """End of a session's newest transcript, and the last version number assigned."""

    segment_id: int
    length: int
    chain: bytes
    version: int
    #: State of that version beside its transcript, and a copy of it, if this checkpointer wrote it.
    state: VersionState | None = None
    snapshot: list[Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class UnconfirmedSave:
    """Save whose answer was lost and that could not be read back yet: the heads without it and with it."""

    before: TranscriptHead
    after: TranscriptHead
    state: VersionState


class ChangingCallColumns(NamedTuple):
    """Sealed columns of a call that hot statements change, in the order of the seal."""

    status: str
    reason: str = ""
    result: str | None = None
    result_digest: str = ""
    error_type: str = ""
    error_message: str = ""
    revision: int = 1
    interrupted_at: datetime | None = None
    settled_at: datetime | None = None
    answered_version: int | None = None
    replay_count: int = 0
    #: None as long as the seal does not cover the key.
    id: int | None = None


class SealedCall(NamedTuple):
    """Call as it was sealed last, with what its later seals and writes need.

    Attributes:
        columns: Columns that change.
        seal: Its seal; None if it has none.
        term: Number as which it counts in the sum of its session.
        start: Beginning of its later seals.
        run_id: Run that issued it.
        key: Its idempotency key.
        is_answerable: Whether a version answers it once it is settled.
    """

    columns: ChangingCallColumns
    seal: bytes | None
    term: int
    start: SealStart
    run_id: uuid.UUID
    key: str
    is_answerable: bool


@dataclass(frozen=True)
class OpenCallRecord:
    """Step under which a call is logged; `args_digest` is of the arguments it was requested with."""

    step: int
    tool: str
    args_digest: str


@dataclass
class OwnedSession:
    """Session this checkpointer owns. Each write names `fence`; `head` is the transcript's end after the last write."""

    pk: int
    session_id: str
    run: Run
    fence: int
    key_space: str
    head: TranscriptHead
    unanswered: UnconfirmedSave | None = None
    #: Calls that were requested before a resume and that the transcript does not answer yet, by id.
    open_calls: dict[str, OpenCallRecord] = field(default_factory=dict)
    #: Calls that were issued through the log and have no result yet, by id.
    issued_calls: dict[str, IssuedCall] = field(default_factory=dict)
    #: Calls that this run has issued, by row, if sealing is on.
    sealed_calls: OrderedDict[int, SealedCall] = field(default_factory=OrderedDict)
    #: Head of the session after the last statement of this run, if sealing is on.
    sealed_head: SessionHead | None = None
    #: Number and seal of the newest head that this run knows to be stored: as it was taken, and after its own writes.
    newest_head: tuple[int, bytes | None] = (0, None)
    #: Hashes of the keys of the live calls that this run knows to be in the log, if sealing is on.
    live_keys: set[int] = field(default_factory=set)
    #: Sessions whose calls this run has answered from the log, by the hash of the call's key, if sealing is on.
    other_sessions: dict[int, int] = field(default_factory=dict)
    #: Rows of calls that this run answered from the log instead of running them, and their number in earlier runs.
    replayed: set[int] = field(default_factory=set)
    replayed_before: int | None = None
    #: Whether this run is still at the gate: it may write nothing then.
    at_gate: bool = False
    #: Time of the last use of the session here, by `time.monotonic()`.
    last_used: float = field(default_factory=time.monotonic)
    #: Pairings of calls with operations that no saved version has answered.
    operations: OpenOperations = field(default_factory=OpenOperations)

    @cached_property
    def run_id(self) -> uuid.UUID:
        return self.run.pk


#: Number of sessions released for being idle that are remembered.
_MAX_REMEMBERED_IDLE = 10_000


class CheckpointerState:
    """State that a client of a database and a client of a server have in common.

    Safe to use from many threads. It does not survive a fork: a child process has to open its own.
    """

    #: Whether the sessions are in a database of this process: then this is a `Store`.
    has_database: ClassVar[bool] = False

    def __init__(self, idle_release_seconds: float | None = None, *, token: str = "") -> None:
        """Create the state of a client. `token` is its name, a random one by default.

        The heartbeat sees the state from the end of this on: subclasses call it when their attributes are there.
        """
        if idle_release_seconds is not None and not idle_release_seconds > 0:
            raise InvalidInput(f"idle_release_seconds is {idle_release_seconds}; it has to be more than 0, or None.")
        self.idle_release_seconds = idle_release_seconds
        self.token = token or uuid.uuid4().hex
        self._registries: weakref.WeakKeyDictionary[VerifyHookProvider, None] = weakref.WeakKeyDictionary()
        self._pid = os.getpid()
        self._held: dict[str, OwnedSession] = {}
        #: Number of operations that use a session now, the handle that is open on it, and sessions released as idle.
        self._in_use: Counter[str] = Counter()
        self._handles: dict[str, object] = {}
        self._released_idle: dict[str, None] = {}
        self._lock = threading.Lock()
        #: Rows of calls that this process has issued and not settled, and of those, the ones it executes now.
        self.issued: set[int] = set()
        self.executing: set[int] = set()
        #: Keys of calls that may be logged although the answer was lost: nothing has run.
        self.unanswered: set[str] = set()
        self._issuing = [threading.Lock() for _ in range(64)]
        #: Listeners, called with the id of a session after each version of it that was saved here, and at its end.
        self.after_save: list[Callable[[str], None]] = []
        #: Constructor of the call log of a session, from the store and the id of the session. The backend sets it.
        self.open_call_log: Callable[[Any, str], Any]
        #: Background writer of versions, if there is one.
        self.behind: PendingWrites | None = None
        _live_stores[self.token] = self

    def close_thread_connections(self) -> None:
        """Close the connections to the database that this thread has opened, before the thread ends or waits."""

    def get_owned_session(self, session_id: str) -> OwnedSession:
        """Return the state of an owned session. Raises `NotOwner`, `ReleasedWhenIdle`."""
        owned_session = self.find_owned_session(session_id)
        if owned_session is None:
            raise self.build_not_owner_error(session_id)
        return owned_session

    def build_not_owner_error(self, session_id: str) -> NotOwner:
        """Build the error that says why this checkpointer does not own a session."""
        if self._pid != os.getpid():
            return OpenedInAnotherProcess(session_id)
        return ReleasedWhenIdle(session_id) if session_id in self._released_idle else NotOwner(session_id)

    def require_own_process(self, session_id: str) -> None:
        """Raise `OpenedInAnotherProcess` in a process that was forked from the one that made this state.

        Its connections are those of the other process, which would read the answers to this one.
        """
        if self._pid != os.getpid():
            raise OpenedInAnotherProcess(session_id)

    def find_owned_session(self, session_id: str) -> OwnedSession | None:
        with self._lock:
            owned_session = self._held.get(session_id)
        return owned_session if self._pid == os.getpid() else None

    def add_owned_session(self, owned_session: OwnedSession) -> None:
        with self._lock:
            self._held[owned_session.session_id] = owned_session
            self._released_idle.pop(owned_session.session_id, None)

    def remove_owned_session(self, owned_session: OwnedSession) -> None:
        """Forget `owned_session`, unless the session has been taken again since."""
        with self._lock:
            if self._held.get(owned_session.session_id) is owned_session:
                self._remove_owned_session_under_lock(owned_session)

    def add_verify_hook_provider(self, registry: VerifyHookProvider) -> None:
        """Let the gate ask the verify hooks of `registry`; the one added last is asked first."""
        with self._lock:
            self._registries.pop(registry, None)
            self._registries[registry] = None

    def list_verify_hook_providers(self) -> list[VerifyHookProvider]:
        """List the registries that still exist, newest first."""
        with self._lock:
            return list(self._registries)[::-1]

    # use of a session

    def record_last_use_of_session(self, session_id: str) -> None:
        """Record that a session has just been used, so that it is not idle."""
        with self._lock:
            if session_id in self._held:
                self._held[session_id].last_used = time.monotonic()

    @contextmanager
    def keep_session_from_idling(self, session_id: str | None) -> Iterator[None]:
        """Keep a session from being idle while the context lasts."""
        if session_id is None:
            yield
            return
        with self._lock:
            self._in_use[session_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_use[session_id] -= 1
                if not self._in_use[session_id]:
                    del self._in_use[session_id]
            self.record_last_use_of_session(session_id)

    def is_session_in_use(self, session_id: str) -> bool:
        """Return whether an operation that takes or uses the session is in progress."""
        return session_id in self._in_use

    def list_idle_sessions(self) -> list[OwnedSession]:
        """List the sessions that were not used for `idle_release_seconds`."""
        with self._lock:
            return [
                owned_session
                for owned_session in self._held.values()
                if self._is_session_unused_for_idle_release_time(owned_session)
            ]

    def remove_session_if_idle(self, owned_session: OwnedSession) -> bool:
        """Forget a session that is still idle, and remember the reason. Returns False if it has been used meanwhile."""
        with self._lock:
            if self._held.get(
                owned_session.session_id
            ) is not owned_session or not self._is_session_unused_for_idle_release_time(owned_session):
                return False
            self._remove_owned_session_under_lock(owned_session)
            self._released_idle[owned_session.session_id] = None
            while len(self._released_idle) > _MAX_REMEMBERED_IDLE:
                del self._released_idle[next(iter(self._released_idle))]
            return True

    def _remove_owned_session_under_lock(self, owned_session: OwnedSession) -> None:
        del self._held[owned_session.session_id]
        self._handles.pop(owned_session.session_id, None)

    def _is_session_unused_for_idle_release_time(self, owned_session: OwnedSession) -> bool:
        if self.idle_release_seconds is None or self._in_use[owned_session.session_id]:
            return False
        return time.monotonic() - owned_session.last_used >= self.idle_release_seconds

    # handles: at most one is open on a session, until it is closed or has lost the session

    def try_register_session_handle(self, session_id: str, handle: object) -> bool:
        """Record that `handle` is open on a session. Returns False if another one is."""
        with self._lock:
            return self._handles.setdefault(session_id, handle) is handle

    def unregister_session_handle(self, session_id: str, handle: object) -> None:
        with self._lock:
            if self._handles.get(session_id) is handle:
                del self._handles[session_id]

    # state of this process

    def get_issuing_lock_of_key(self, key: str) -> threading.Lock:
        """Lock that lets this process issue one call of a key at a time.

        An intent that is found after a lost answer is then known to be the caller's own.
        """
        return self._issuing[hash(key) % len(self._issuing)]

    def flush_pending_writes(self, session_id: str | None = None) -> None:
        """Write the pending versions of a session, or of all. Raises `NotDurable`."""
        if self.behind is not None:
            self.behind.flush(session_id)

    def notify_save_listeners(self, session_id: str) -> None:
        """Call the listeners for durable versions."""
        self.record_last_use_of_session(session_id)
        for listener in self.after_save:
            listener(session_id)

    def list_owned_sessions(self) -> list[OwnedSession]:
        if self._pid != os.getpid():  # a thread of the other process may hold the lock of this copy for ever
            return []
        with self._lock:
            return list(self._held.values())


_live_stores: weakref.WeakValueDictionary[str, CheckpointerState] = weakref.WeakValueDictionary()


def is_client_state_with_token_alive(token: str) -> bool:
    """Return whether the store of this process with that token still exists."""
    return token in _live_stores


def list_live_client_states() -> list[CheckpointerState]:
    """List the states of the clients that still exist, while other threads may create some."""
    return [state for reference in _live_stores.valuerefs() if (state := reference()) is not None]
