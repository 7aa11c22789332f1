"""Ownership of sessions by the tool calls of a framework, whose loop does not know about ownership.

The first guarded call of a session claims it, as the start of a run does, and passes the gate. The adapter releases it
when the framework's own run ends or pauses.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from checkpoints import sync_and_async_flow_runners
from checkpoints.exceptions import OwnershipLost
from checkpoints.sessions import mark_or_require_session_framework
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.store.database_client_state import Store
from checkpoints.store.replayed_call_matching import OpenOperations
from checkpoints.sync_client import SyncCheckpointer

#: Largest number of released sessions whose pairings are kept.
_MAX_PAIRINGS = 1000


class SessionClaims:
    """Claims of one client, the same object for each call of `get_for_client`. Safe to use from many threads."""

    def __init__(self, checkpointer: SyncCheckpointer) -> None:
        """Create the claims of a client; adapters use `get_for_client`.

        Args:
            checkpointer: Blocking client.
        """
        self._checkpointer = weakref.ref(checkpointer)
        self._locks = [threading.Lock() for _ in range(64)]
        self._calls: Counter[str] = Counter()
        #: Sessions that are not claimed again once they are lost.
        self._kept: set[str] = set()
        #: Sessions to release when their last call ends.
        self._ending: set[str] = set()
        #: Frameworks of claimed sessions, as far as they are known.
        self._frameworks: dict[str, str] = {}
        #: Pairings of calls with operations of released sessions, for the save that has the results of these calls.
        self._pairings: dict[str, OpenOperations] = {}

    @classmethod
    def get_for_client(cls, checkpointer: SyncCheckpointer) -> SessionClaims:
        """Return the claims of a client.

        Args:
            checkpointer: Blocking client.

        Returns:
            The claims, the same object for the same client.
        """
        with _creation_lock:
            claims = _claims.get(checkpointer.store)
            if claims is None:
                claims = _claims[checkpointer.store] = cls(checkpointer)
            return claims

    @contextmanager
    def claim_session_for_block(self, session_id: str, description: NewSessionFields | None = None) -> Iterator[None]:
        """Hold a session while a call of it runs; it is claimed, and the gate passed, if it is not owned yet.

        Args:
            session_id: Identifier of the session.
            description: Description of the session if it does not exist.

        Raises:
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            SessionOfOtherFramework: The session is one of another framework than that of the description.
            SessionBusy: A run of another client owns the session and is alive.
            SessionFinished: The session has ended.
        """
        self.claim_session_and_count_running_call(session_id, description)
        try:
            yield
        finally:
            self.end_call_claim(session_id)

    def claim_session_permanently(
        self, session_id: str, description: NewSessionFields, *, takeover: bool | str = False
    ) -> None:
        """Claim a session until `end_permanent_claim`. If it is lost meanwhile, this client does not claim it again.

        Args:
            session_id: Identifier of the session.
            description: Description of the session if it does not exist.
            takeover: Whether it may be taken from a run that is alive, or why.

        Raises:
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            SessionOfOtherFramework: The session is one of another framework than that of the description.
            SessionBusy: A run of another client owns the session and is alive.
            SessionFinished: The session has ended.
        """
        self.claim_session_and_count_running_call(session_id, description, takeover=takeover)
        self._kept.add(session_id)

    def end_permanent_claim(self, session_id: str) -> None:
        """End the claim of `claim_session_permanently`.

        Args:
            session_id: Identifier of the session.
        """
        self._kept.discard(session_id)
        self.end_call_claim(session_id)
        self.release_session_now_or_when_idle(session_id)

    def claim_session_and_count_running_call(
        self, session_id: str, description: NewSessionFields | None = None, *, takeover: bool | str = False
    ) -> None:
        """Claim a session for one call; `end_call_claim` ends that. Arguments and errors are those of
        `claim_session_for_block`.

        `takeover` says whether it may be taken from a run that is alive, or why. A kept session that was lost raises
        `OwnershipLost`.
        """
        checkpointer = self._get_checkpointer()
        with self._get_session_lock(session_id):
            if checkpointer.store.find_owned_session(session_id) is None:
                if session_id in self._kept:
                    raise OwnershipLost(session_id)
                start = checkpointer.backend.start_session_flow(
                    session_id, description or NewSessionFields(), takeover=takeover
                )
                self._create_or_require_session_of_framework(session_id, description)
                sync_and_async_flow_runners.run_flow(start)
                self._inherit_call_pairings(session_id)
            else:
                if description is not None and self._frameworks.get(session_id) != description.framework:
                    self._create_or_require_session_of_framework(session_id, description)
                checkpointer.store.record_last_use_of_session(
                    session_id
                )  # or it could be released as idle before the call
            self._calls[session_id] += 1
            self._ending.discard(session_id)

    def _create_or_require_session_of_framework(self, session_id: str, description: NewSessionFields | None) -> None:
        """Require that a session is one of the framework whose tool is called, before the call or anything is stored.

        Raises `SessionOfOtherFramework`.
        """
        self._frameworks.pop(session_id, None)
        if description is not None and description.framework:
            mark_or_require_session_framework.create_or_require_session_of_framework(
                self._get_checkpointer().store, session_id, description
            )
            self._frameworks[session_id] = description.framework

    def end_call_claim(self, session_id: str) -> None:
        """End the use of a session by one call. The session stays owned, unless it is to be released when it is idle.

        Args:
            session_id: Identifier of the session.
        """
        with self._get_session_lock(session_id):
            self._calls[session_id] -= 1
            if not self._calls[session_id]:
                del self._calls[session_id]
                if session_id in self._ending:
                    self._release_session_and_remember_pairings(session_id)

    def release_session_now_or_when_idle(self, session_id: str) -> bool:
        """Release a session, or let its last running call release it.

        Args:
            session_id: Identifier of the session.

        Returns:
            Whether it was owned and is released now.
        """
        with self._get_session_lock(session_id):
            if session_id in self._calls:
                self._ending.add(session_id)
                return False
            return self._release_session_and_remember_pairings(session_id)

    def _release_session_and_remember_pairings(self, session_id: str) -> bool:
        self._ending.discard(session_id)
        self._frameworks.pop(session_id, None)
        checkpointer = self._get_checkpointer()
        owned_session = checkpointer.store.find_owned_session(session_id)
        if owned_session is None:
            return False
        self._pairings[session_id] = owned_session.operations
        while len(self._pairings) > _MAX_PAIRINGS:
            del self._pairings[next(iter(self._pairings))]
        return checkpointer.release_session(session_id)

    def _inherit_call_pairings(self, session_id: str) -> None:
        """Let a claim know the pairings of the claims before it, whose results no save has yet."""
        earlier = self._pairings.pop(session_id, None)
        owned_session = self._get_checkpointer().store.find_owned_session(session_id)
        if earlier is not None and owned_session is not None:
            owned_session.operations.inherit_call_ids(earlier)

    def find_call_pairings_and_mark_for_reload(self, session_id: str) -> OpenOperations | None:
        """Return which operations the calls of a released session had, for the save that has their results.

        A call that was replayed may have had another call id when it was logged.

        Args:
            session_id: Identifier of the session.

        Returns:
            The pairings; None if this client has not released the session since the last save.
        """
        pairings = self._pairings.get(session_id)
        if pairings is not None:
            pairings.mark_for_reload()
        return pairings

    def forget_call_pairings(self, session_id: str) -> None:
        """Forget the pairings of a session after a save.

        Args:
            session_id: Identifier of the session.
        """
        self._pairings.pop(session_id, None)

    @contextmanager
    def lock_session_claims(self, session_id: str) -> Iterator[None]:
        """Keep other threads of this client from claiming or releasing a session, while one writes to it.

        Between the statement that changes the owner and its end, a writer could not tell its own run from another one.

        Args:
            session_id: Identifier of the session.
        """
        with self._get_session_lock(session_id):
            yield

    def _get_session_lock(self, session_id: str) -> threading.Lock:
        return self._locks[hash(session_id) % len(self._locks)]

    def _get_checkpointer(self) -> SyncCheckpointer:
        checkpointer = self._checkpointer()
        assert checkpointer is not None  # noqa: S101 - who calls has it
        return checkpointer


_claims: weakref.WeakKeyDictionary[Store, SessionClaims] = weakref.WeakKeyDictionary()
_creation_lock = threading.Lock()
