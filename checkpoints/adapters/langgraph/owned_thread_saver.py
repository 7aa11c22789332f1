"""Checkpointer that is the only writer of one thread."""

from __future__ import annotations

from checkpoints.adapters.langgraph.saver import HarnessSaver
from checkpoints.exceptions import OwnershipLost
from checkpoints.sessions import ownership
from checkpoints.sessions.session_description import SessionDescription


class OwnedThreadSaver(HarnessSaver):
    """Saver that owns one thread, as its only writer, until another one claims the thread or `release` ends that."""

    _must_own = True

    def __init__(self, saver: HarnessSaver, thread_id: str) -> None:
        """Claim a thread; `HarnessSaver.claim_write_ownership` does that.

        Args:
            saver: Saver of the same database.
            thread_id: Identifier of the thread.
        """
        store = saver.sync_checkpointer.store
        super().__init__(
            type(saver.checkpointer)(
                using=store.using, workspace=store.workspace, lease_seconds=store.lease.total_seconds()
            ),
            serde=saver.serde,
            agent=saver.agent,
            transcript_channel=saver.transcript_channel,
            policies=saver.policies,
            review_interrupts=saver.review_interrupts,
        )
        self.thread_id = thread_id
        self._claims.claim_session_permanently(
            thread_id, SessionDescription(agent=self.agent), takeover="another writer claimed the thread"
        )

    def check_write_ownership(self) -> None:
        """Check that no other writer has claimed the thread. Raises `OwnershipLost`."""
        store = self.sync_checkpointer.store
        owned_session = store.find_owned_session(self.thread_id)
        if owned_session is None or not ownership.renew_ownership(store, owned_session):
            raise OwnershipLost(self.thread_id)

    async def acheck_write_ownership(self) -> None:
        """Check that no other writer has claimed the thread, async. Raises `OwnershipLost`."""
        await self._run_blocking(self.check_write_ownership)

    def release(self) -> None:
        """Release the thread, so that any process may write to it."""
        self._claims.end_permanent_claim(self.thread_id)

    async def arelease(self) -> None:
        """Release the thread, async."""
        await self._run_blocking(self.release)
