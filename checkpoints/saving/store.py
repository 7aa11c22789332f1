"""What a checkpointer knows: its database, its workspace, and the sessions it owns."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from django.db.models import QuerySet

from checkpoints.conf import LEASE_SECONDS
from checkpoints.exceptions import InvalidInput, NotOwner, WorkspaceNotFound
from checkpoints.models import DEFAULT_WORKSPACE, Run, Workspace
from checkpoints.prepared import Prepared
from checkpoints.saving.connection import find_connection
from checkpoints.saving.intents import Issued
from checkpoints.saving.operations import operation
from checkpoints.saving.state import State


@Prepared
def _workspace(slug: str) -> QuerySet[Workspace, int]:
    return Workspace.objects.filter(slug=slug).values_list("pk", flat=True)


class Probing(Protocol):
    """What knows the verify hooks of tools: a tool registry."""

    def verify_hook(self, tool: str) -> Any | None: ...


class Flushing(Protocol):
    """What writes behind."""

    def flush(self, session_id: str | None = None) -> None: ...


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

    @property
    def run_id(self) -> uuid.UUID:
        return self.run.pk


class Store:
    """The handle that the functions of this library take first.

    Safe to use from many threads. It does not survive a fork: a child process has to open its own.
    """

    def __init__(
        self, using: str = "default", workspace: str = DEFAULT_WORKSPACE, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        if not lease_seconds > 0:
            raise InvalidInput(f"lease_seconds is {lease_seconds}; it has to be more than 0.")
        find_connection(using)
        self.using = using
        self.workspace = workspace
        self.lease = timedelta(seconds=lease_seconds)
        self.token = uuid.uuid4().hex
        self.registries: weakref.WeakSet[Probing] = weakref.WeakSet()
        self._pid = os.getpid()
        self._held: dict[str, Held] = {}
        self._workspace_id: int | None = None
        self._lock = threading.Lock()
        #: Rows of calls that this process has issued and not settled, and of those, the ones it executes now.
        self.issued: set[int] = set()
        self.executing: set[int] = set()
        #: Keys of calls that may be logged and that nobody was told of: the answer was lost, nothing has run.
        self.unanswered: set[str] = set()
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
                self._workspace_id = _workspace.first(self.workspace, using=self.using)
            if self._workspace_id is None:
                raise WorkspaceNotFound(self.workspace)
        return self._workspace_id

    def held(self, session_id: str) -> Held:
        """What this checkpointer knows of a session it owns. Raises `NotOwner`."""
        with self._lock:
            held = self._held.get(session_id)
        if held is None or self._pid != os.getpid():
            raise NotOwner(session_id)
        return held

    def holds(self, session_id: str) -> Held | None:
        try:
            return self.held(session_id)
        except NotOwner:
            return None

    def hold(self, held: Held) -> None:
        with self._lock:
            self._held[held.session_id] = held

    def drop(self, held: Held) -> None:
        """Forget `held`, unless the session has been taken anew since."""
        with self._lock:
            if self._held.get(held.session_id) is held:
                del self._held[held.session_id]

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
