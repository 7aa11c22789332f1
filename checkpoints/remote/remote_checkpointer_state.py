"""State of a client over HTTP: its connections, the sessions it owns, and the heartbeat that renews their leases."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from checkpoints.constants import LEASE_SECONDS
from checkpoints.exceptions import AtGate, CheckpointsError, OwnershipError, SessionFinished, SessionNotFound
from checkpoints.formats import digests
from checkpoints.remote.transport import ServerAnswer, Transport, escape_identifier
from checkpoints.store.checkpointer_state import CheckpointerState, OwnedSession, TranscriptHead

if TYPE_CHECKING:
    from checkpoints.models import Run

logger = logging.getLogger(__name__)

BEATS_PER_LEASE: Final = 3
#: Pause in seconds after a heartbeat that was not answered.
_REPEAT_SECONDS: Final = 1.0


@dataclass(frozen=True)
class RemoteSession:
    """Session on a server."""

    session_id: str

    def __str__(self) -> str:
        return self.session_id


@dataclass
class RemoteRun:
    """Run that owns a session on a server: an `OwningRun`."""

    id: uuid.UUID
    session: RemoteSession
    number: int
    fence: int
    resumed_from_id: uuid.UUID | None
    status: str
    started_at: datetime
    owner_token: str
    host: str = field(default_factory=lambda: socket.gethostname()[:255])
    pid: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        return f"run {self.number}"

    @property
    def pk(self) -> uuid.UUID:
        return self.id


class RemoteCheckpointerState(CheckpointerState):
    """State of a client whose sessions are on a server."""

    def __init__(self, url: str, token: str | None) -> None:
        self.transport = Transport(url, token)
        #: Stored results that the agent has used by their ids, by session: the next call tells the server.
        self.taken: dict[str, list[dict[str, Any]]] = {}
        self._beating = threading.Event()
        self._beat_lock = threading.Lock()
        self._heart: threading.Thread | None = None
        super().__init__(token=self.transport.name)

    def describe_process(self) -> dict[str, Any]:
        """Describe this process for the pages."""
        return {"host": socket.gethostname()[:255], "pid": os.getpid()}

    def send_write_request(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any],
        *,
        session: OwnedSession | None = None,
        key: str | None = None,
        raw: Mapping[str, str] = {},
    ) -> ServerAnswer:
        """Do a write of a run, or of nobody. A session that was lost or has ended is no longer owned."""
        if session is None:
            return self.transport.send_write_request(method, path, fields, key=key, raw=raw)
        with self.keep_session_from_idling(session.session_id):
            try:
                return self.transport.send_write_request(
                    method, path, {**fields, "fence": session.fence}, key=key, raw=raw
                )
            except (OwnershipError, SessionNotFound):
                self.remove_owned_session(session)
                raise

    def flush_and_require_owned_session(self, session_id: str) -> OwnedSession:
        """Return the state of an owned session that may be written to.

        Raises `NotOwner`, `AtGate`, `SessionFinished`, `SessionNotFound`, `NotDurable`.
        """
        self.flush_pending_writes(session_id)
        owned_session = self.find_owned_session(session_id)
        if owned_session is None:
            raise self._load_session_and_build_not_owned_error(session_id)
        if owned_session.at_gate:
            raise AtGate(session_id)
        self.record_last_use_of_session(session_id)
        return owned_session

    def _load_session_and_build_not_owned_error(self, session_id: str) -> CheckpointsError:
        session = self.transport.send_read_request(f"/sessions/{escape_identifier(session_id)}")
        if session["finished"]:
            return SessionFinished(session_id, session["status"])
        return self.build_not_owner_error(session_id)

    def add_session_and_start_heartbeats(
        self, session_id: str, run: Mapping[str, Any], *, at_gate: bool, head: TranscriptHead
    ) -> OwnedSession:
        """Hold a session that the server has given to this client, and keep its lease."""
        owned_session = self.find_owned_session(session_id)
        if owned_session is None or owned_session.fence != run["fence"]:
            started = RemoteRun(
                uuid.UUID(run["run_id"]),
                RemoteSession(session_id),
                run["number"],
                run["fence"],
                None if run["resumed_from"] is None else uuid.UUID(run["resumed_from"]),
                run["status"],
                datetime.fromisoformat(run["started_at"]),
                self.token,
            )
            owned_session = OwnedSession(0, session_id, cast("Run", started), started.fence, "", head)
            self.add_owned_session(owned_session)
        owned_session.run.status = run["status"]
        owned_session.at_gate = at_gate
        owned_session.head = head
        self._start_heartbeat_thread()
        return owned_session

    # heartbeat

    def _start_heartbeat_thread(self) -> None:
        with self._beat_lock:
            if self._heart is None or not self._heart.is_alive():
                self._beating.clear()
                self._heart = threading.Thread(
                    target=_run_heartbeat_thread,
                    args=(weakref.ref(self), self._beating),
                    name="harness-heartbeat-http",
                    daemon=True,
                )
                self._heart.start()

    def renew_leases_and_forget_lost_sessions(self) -> bool:
        """Renew the leases of the sessions. Returns whether all are renewed that are not lost."""
        are_renewed = True
        for owned_session in self.list_owned_sessions():
            try:
                path = f"/sessions/{escape_identifier(owned_session.session_id)}/heartbeat"
                self.transport.renew_lease(path, owned_session.fence)
            except (OwnershipError, SessionNotFound) as error:
                session_id = owned_session.session_id
                # A run that has just ended in order is no longer held, or its last write is not answered yet.
                if self.find_owned_session(session_id) is owned_session and not self.is_session_in_use(session_id):
                    logger.warning("The session %s is lost: %s", session_id, error)
                self.remove_owned_session(owned_session)
            except CheckpointsError as error:
                if self._beating.is_set():  # closed meanwhile
                    break
                are_renewed = False
                logger.warning("Could not renew the lease of %s: %s", owned_session.session_id, error)
        return are_renewed

    def close(self) -> None:
        """End the heartbeat and the connections."""
        self._beating.set()
        self.transport.close()


def _run_heartbeat_thread(reference: weakref.ref[RemoteCheckpointerState], ended: threading.Event) -> None:
    pause = LEASE_SECONDS / BEATS_PER_LEASE
    while not ended.wait(pause):
        store = reference()
        if store is None:
            return
        with store._beat_lock:
            if not store.list_owned_sessions():
                store._heart = None
                return
        pause = LEASE_SECONDS / BEATS_PER_LEASE if store.renew_leases_and_forget_lost_sessions() else _REPEAT_SECONDS
        del store


def build_transcript_head(length: int, chain: bytes, version: int) -> TranscriptHead:
    """Build the end of a transcript as a client knows it."""
    return TranscriptHead(0, length, chain or digests.EMPTY_CHAIN, version)
