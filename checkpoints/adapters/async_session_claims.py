"""Claims of sessions for the tool calls of an async framework. Database work is not interrupted by a cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from checkpoints.adapters.session_claims import SessionClaims
from checkpoints.adapters.sync_or_async_client import get_sync_client, run_on_thread
from checkpoints.async_client import Checkpointer
from checkpoints.sessions.new_session_fields import NewSessionFields
from checkpoints.sync_client import SyncCheckpointer

T = TypeVar("T")


class AsyncClaims:
    """Claims of one client, blocking or async, for async code."""

    def __init__(self, checkpointer: SyncCheckpointer | Checkpointer) -> None:
        """Create the claims.

        Args:
            checkpointer: Client.
        """
        self._client = checkpointer
        self.claims = SessionClaims.get_for_client(get_sync_client(checkpointer))

    @asynccontextmanager
    async def claim_session_during_call(
        self, session_id: str, description: NewSessionFields, *, release_after: bool
    ) -> AsyncIterator[None]:
        """Hold a session while a call of it runs; it is claimed, and the gate passed, if it is not owned yet.

        Args:
            session_id: Identifier of the session.
            description: Description of the session if it does not exist.
            release_after: Whether the session is released at the end. After an error it always is.

        Raises:
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            SessionBusy: A run of another client owns the session and is alive.
            SessionFinished: The session has ended.
        """
        await self._claim_session_for_call(session_id, description)
        is_kept = False
        try:
            yield
            is_kept = not release_after
        finally:
            await self.run_blocking(partial(self.claims.end_call_claim, session_id))
            if not is_kept:
                await self.release_session_now_or_when_idle(session_id)

    async def _claim_session_for_call(self, session_id: str, description: NewSessionFields) -> None:
        """Claim the session. A claim that ends after a cancellation is given back."""
        claiming = asyncio.ensure_future(
            self.run_blocking(partial(self.claims.claim_session_and_count_running_call, session_id, description))
        )
        try:
            await asyncio.shield(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(partial(self._release_abandoned_claim_on_new_thread, session_id))
            raise

    def _release_abandoned_claim_on_new_thread(self, session_id: str, claiming: asyncio.Future[None]) -> None:
        if not claiming.cancelled() and claiming.exception() is None:
            threading.Thread(
                target=self._end_abandoned_claim_and_release_session, args=(session_id,), daemon=True
            ).start()

    def _end_abandoned_claim_and_release_session(self, session_id: str) -> None:
        try:
            self.claims.end_call_claim(session_id)
            self.claims.release_session_now_or_when_idle(session_id)
        finally:
            get_sync_client(self._client).store.close_thread_connections()

    async def release_session_now_or_when_idle(self, session_id: str) -> None:
        """Release a session, or let its last running call release it.

        Args:
            session_id: Identifier of the session.
        """
        await self.run_blocking(partial(self.claims.release_session_now_or_when_idle, session_id))

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """Run blocking work on a thread.

        Args:
            work: Function without arguments.

        Returns:
            What `work` returns.
        """
        return await run_on_thread(self._client, work)
