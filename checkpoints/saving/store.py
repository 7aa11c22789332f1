"""What a checkpointer knows: its database, its workspace, and the sessions it owns."""

from __future__ import annotations

import os
import threading
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from django.db.models import QuerySet

from checkpoints.conf import LEASE_SECONDS
from checkpoints.exceptions import InvalidInput, NotOwner, ReleasedWhenIdle, WorkspaceNotFound
from checkpoints.models import DEFAULT_WORKSPACE, Run, Workspace
from checkpoints.saving.connection import find_connection
from checkpoints.saving.intents import Issued
from checkpoints.saving.open_operations import OpenOperations
from checkpoints.saving.operations import operation
from checkpoints.saving.state import State


def _workspace(slug: str) -> QuerySet[Workspace, int]:
    return Workspace.objects.filter(slug=slug).values_list("pk", flat=True)


class Probing(Protocol):
    """What knows the verify hooks of the tools of one session, or of any where `session_id` is None: a registry."""

    @property
    def session_id(self) -> str | None: ...

    def knows_tool(self, tool: str) -> bool: ...

    def verify_hook(self, tool: str) -> Any | None: ...


class Flushing(Protocol):
    """What writes behind."""

    def flush(self, session_id: str | None = None) -> None: ...

    def unsaved(self, session_id: str | None = None) -> list[dict[str, Any]]: ...


@dataclass(frozen=True)
class Head:
    """The end of a session's newest transcript, and the last version number given out."""

    segment_id: int
    length: int
    chain: bytes
    version: int
    #: What that version holds beside its transcript, and a copy of that, where this checkpointer wrote it.
    state: State | None = None
    snapshot: list[Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Unanswered:
    """A save whose answer was lost and that could not be looked for yet: the heads without it and with it."""

    before: Head
    after: Head
    state: State


@dataclass(frozen=True)
class OpenCall:
    """Under which step a call is logged; `args_digest` is of the arguments it was asked for with."""

    step: int
    tool: str
    args_digest: str


@dataclass
class Held:
    """A session this checkpointer owns. Each write names `fence`; `head` is where the last write left it."""

    pk: int
    session_id: str
    run: Run
    fence: int
    key_space: str
    head: Head
    unanswered: Unanswered | None = None
    #: Calls that were asked for before a resume and that the transcript does not answer yet, by id.
    open_calls: dict[str, OpenCall] = field(default_factory=dict)
    #: Calls that were issued through the log and have no result yet, by id.
    issued_calls: dict[str, Issued] = field(default_factory=dict)
    #: Rows of calls that this run answered from the log instead of running them, and how many the runs before it did.
    replayed: set[int] = field(default_factory=set)
    replayed_before: int | None = None
    #: While the gate has not let this run through: nothing that it writes may count.
    at_gate: bool = False
    #: When the session was last used here, as `time.monotonic()` tells.
    last_used: float = field(default_factory=time.monotonic)
    #: Which calls stand for operations that no saved version has answered.
    operations: OpenOperations = field(default_factory=OpenOperations)

    @property
    def run_id(self) -> uuid.UUID:
        return self.run.pk


@dataclass(frozen=True)
class LostAppend:
    """An append without a run whose answer was lost: the version it started from, where it ends, and what it holds."""

    expected: int
    length: int
    chain: bytes
    state: State
    #: By this time of its last message it is told from the same append by somebody else; None where it has none.
    created_at: datetime | None


#: So many sessions that were released for being idle are remembered.
_REMEMBERED = 10_000


class Store:
    """The handle that the functions of this library take first.

    Safe to use from many threads. It does not survive a fork: a child process has to open its own.
    """

    def __init__(
        self,
        using: str = "default",
        workspace: str = DEFAULT_WORKSPACE,
        lease_seconds: float = LEASE_SECONDS,
        idle_release_seconds: float | None = None,
    ) -> None:
        if not lease_seconds > 0:
            raise InvalidInput(f"lease_seconds is {lease_seconds}; it has to be more than 0.")
        find_connection(using)
        if idle_release_seconds is not None and not idle_release_seconds > 0:
            raise InvalidInput(f"idle_release_seconds is {idle_release_seconds}; it has to be more than 0, or None.")
        self.using = using
        self.workspace = workspace
        self.lease = timedelta(seconds=lease_seconds)
        self.idle_release_seconds = idle_release_seconds
        self.token = uuid.uuid4().hex
        self._registries: weakref.WeakKeyDictionary[Probing, None] = weakref.WeakKeyDictionary()
        self._pid = os.getpid()
        self._held: dict[str, Held] = {}
        #: How many operations use a session right now, the handle that is open on it, and what was released as idle.
        self._in_use: Counter[str] = Counter()
        self._handles: dict[str, object] = {}
        self._released_idle: dict[str, None] = {}
        self._workspace_id: int | None = None
        self._lock = threading.Lock()
        #: Rows of calls that this process has issued and not settled, and of those, the ones it executes now.
        self.issued: set[int] = set()
        self.executing: set[int] = set()
        #: Keys of calls that may be logged and that nobody was told of: the answer was lost, nothing has run.
        self.unanswered: set[str] = set()
        #: By session: the append without a run whose answer was lost and could not be looked for yet.
        self.lost_appends: dict[str, LostAppend] = {}
        self._issuing = [threading.Lock() for _ in range(64)]
        #: Called with the id of a session after each version of it that was saved here, and at its end.
        self.after_save: list[Callable[[str], None]] = []
        #: Who writes versions behind the agent's back, where that was chosen.
        self.behind: Flushing | None = None
        _live[self.token] = self

    @property
    def workspace_id(self) -> int:
        """Raises `WorkspaceNotFound`."""
        if self._workspace_id is None:
            with operation(self.using, writes=False):
                self._workspace_id = _workspace(self.workspace).using(self.using).first()
            if self._workspace_id is None:
                raise WorkspaceNotFound(self.workspace)
        return self._workspace_id

    def held(self, session_id: str) -> Held:
        """What this checkpointer knows of a session it owns. Raises `NotOwner`, `ReleasedWhenIdle`."""
        with self._lock:
            held = self._held.get(session_id)
        if held is None or self._pid != os.getpid():
            raise self.not_owner(session_id)
        return held

    def not_owner(self, session_id: str) -> NotOwner:
        """Why a session is not this checkpointer's."""
        return ReleasedWhenIdle(session_id) if session_id in self._released_idle else NotOwner(session_id)

    def holds(self, session_id: str) -> Held | None:
        try:
            return self.held(session_id)
        except NotOwner:
            return None

    def hold(self, held: Held) -> None:
        with self._lock:
            self._held[held.session_id] = held
            self._released_idle.pop(held.session_id, None)

    def drop(self, held: Held) -> None:
        """Forget `held`, unless the session has been taken anew since."""
        with self._lock:
            if self._held.get(held.session_id) is held:
                self._forget(held)

    def add_registry(self, registry: Probing) -> None:
        """Let the gate ask the verify hooks of `registry`; the one that was added last comes first."""
        with self._lock:
            self._registries.pop(registry, None)
            self._registries[registry] = None

    def registries(self) -> list[Probing]:
        """Those that still exist, the newest first."""
        with self._lock:
            return list(self._registries)[::-1]

    # whether a session is in use

    def touch(self, session_id: str) -> None:
        """Note that a session has just been used: it is not idle."""
        with self._lock:
            if session_id in self._held:
                self._held[session_id].last_used = time.monotonic()

    @contextmanager
    def in_use(self, session_id: str | None) -> Iterator[None]:
        """A session is not idle while this lasts, however long that is."""
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
            self.touch(session_id)

    def is_in_use(self, session_id: str) -> bool:
        """Whether an operation that takes or uses the session is going on."""
        return session_id in self._in_use

    def idle(self) -> list[Held]:
        """The sessions that nothing was done with for `idle_release_seconds`."""
        with self._lock:
            return [held for held in self._held.values() if self._is_idle(held)]

    def drop_idle(self, held: Held) -> bool:
        """Forget a session that is still idle, and remember why. False where it has been used meanwhile."""
        with self._lock:
            if self._held.get(held.session_id) is not held or not self._is_idle(held):
                return False
            self._forget(held)
            self._released_idle[held.session_id] = None
            while len(self._released_idle) > _REMEMBERED:
                del self._released_idle[next(iter(self._released_idle))]
            return True

    def _forget(self, held: Held) -> None:
        del self._held[held.session_id]
        self._handles.pop(held.session_id, None)

    def _is_idle(self, held: Held) -> bool:
        if self.idle_release_seconds is None or self._in_use[held.session_id]:
            return False
        return time.monotonic() - held.last_used >= self.idle_release_seconds

    # handles: at most one is open on a session, until it is closed or has lost the session

    def open_handle(self, session_id: str, handle: object) -> bool:
        """Note that `handle` is open on a session. False where another one is."""
        with self._lock:
            return self._handles.setdefault(session_id, handle) is handle

    def close_handle(self, session_id: str, handle: object) -> None:
        with self._lock:
            if self._handles.get(session_id) is handle:
                del self._handles[session_id]

    # what goes on in this process

    def issuing(self, key: str) -> threading.Lock:
        """One call of a key is issued at a time in this process, so that an intent found after a lost answer is
        known to be the caller's own."""
        return self._issuing[hash(key) % len(self._issuing)]

    def flush(self, session_id: str | None = None) -> None:
        """Make durable what waits to be written behind, of a session or of all. Raises `NotDurable`."""
        if self.behind is not None:
            self.behind.flush(session_id)

    def saved(self, session_id: str) -> None:
        """Tell who wants to know that a version is durable."""
        self.touch(session_id)
        for listener in self.after_save:
            listener(session_id)

    def all_held(self) -> list[Held]:
        with self._lock:
            return list(self._held.values()) if self._pid == os.getpid() else []


_live: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()


def live_in_this_process(token: str) -> bool:
    """Whether the store of this process with that token still exists."""
    return token in _live


def live_stores() -> list[Store]:
    return list(_live.values())
