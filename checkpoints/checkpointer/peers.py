"""Waiting for other agents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from checkpoints import flows
from checkpoints.peers import accepting, cancelling, deadlines, listing, pausing, taking, telling
from checkpoints.peers.accepting import Response
from checkpoints.peers.answers import Answer
from checkpoints.peers.telling import Tell
from checkpoints.peers.values import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.saving.store import Store
from checkpoints.tools.registry import ToolRegistry


class Peers:
    store: Store

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        """Stop to wait for other agents: store `state`, the joins and their calls, and give the session up, in one
        transaction. Whichever process is there when a join is complete goes on with `take_paused`.

        Secrets in the state and in requests are sealed. Responses that came before are counted. Raises `NotOwner`,
        `OwnershipLost`, `PeerCallExists`, `SecretsLocked`, `CallInProgress`, `ReviewRequired`, `NotRepresentable`.
        """
        return pausing.pause(self.store, session_id, state, joins)

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        """Match another agent's response to its call, store and count it, in one transaction: `Accepted`, `Duplicate`,
        `Early`, `Late`, `Cancelled`, `Foreign` or `Unknown`.

        What is said of the sender is held against the call: its session, the agent it was made to, its token.
        """
        response = Response.of(peer_call_id, result, session_id, peer, token)
        return accepting.accept(self.store, response)

    def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> TakenTask:
        """Own a session whose join is complete, pass the gate as `resume` does, and get the answers.

        Until this run saves its next version or pauses again, another one can take the same after it was lost. Raises
        `StillWaiting`, `NotPaused`, `SecretsLocked`, and what `resume` raises.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return flows.drive(taking.take_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover))

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        """Wait for a call at least until `deadline` (seconds or a duration from now, or a moment); returns its deadline
        then. Raises `PeerCallNotFound`, `PeerCallOver`."""
        return deadlines.extend(self.store, peer_call_id, deadline)

    def cancel_paused(self, session_id: str, *, tell: Tell | None = None, reason: str = "") -> Told:
        """End a session that waits for other agents as cancelled, and tell each of them through `tell`.

        Who could not be told is told by `tell_peers`. Raises `NotPaused`, `SessionBusy`, `SessionFinished`.
        """
        return flows.drive(cancelling.cancel_flow(self.store, session_id, tell=tell, reason=reason))

    def tell_peers(self, tell: Tell, *, limit: int = telling.LIMIT) -> Told:
        """Tell other agents through `tell` what they have to know: requests of calls that were stored with
        `sent=False`, and that a call was cancelled or given up. Each at least once, by any number of processes."""
        return flows.drive(telling.tell_flow(self.store, tell, limit=limit))

    def sweep_deadlines(self, *, limit: int = deadlines.LIMIT) -> Swept:
        """Give up calls of this workspace whose deadline has passed. Any number of processes may do this at once."""
        return deadlines.sweep(self.store, limit=limit)

    def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = listing.LIMIT
    ) -> list[dict[str, Any]]:
        """Sessions that wait for other agents or whose answers are not used yet: session_id, agent, ready, driven, and
        the joins that are `complete` and `open`. `ready=True`: those that `take_paused` can take now."""
        return listing.paused(self.store, ready=ready, agent=agent, limit=limit)

    def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        """The calls of a session to other agents, oldest first: call_id, peer, join_id, pause, status, created_at,
        deadline, settled_at, result_json, late_at, late_result_json, to_tell. Raises `SessionNotFound`."""
        return listing.calls_of(self.store, session_id)
