"""Methods of the blocking client for runs that wait for other agents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from checkpoints import constants, sync_and_async_flow_runners
from checkpoints.client_backend import ClientOfBackend
from checkpoints.peers.agent_call_and_result_types import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.peers.deliver_notices import SendNotice
from checkpoints.peers.response_acceptance_outcomes import Answer
from checkpoints.tools.registry_and_dispatch import ToolRegistry


class PeerMethods(ClientOfBackend):
    """Pauses of runs, responses of other agents, and deadlines."""

    def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        """Pause a session until other agents have answered.

        The state, the joins and their calls are stored and the session is released in one transaction. Any process can
        continue with `take_paused` once a join is complete. Secrets in the state and in requests are encrypted.
        Responses that came before are counted.

        Args:
            session_id: Identifier of a session this client owns.
            state: JSON object that `take_paused` gives back.
            joins: Groups of calls to other agents, with their deadlines.

        Returns:
            The number of the pause, the joins that early responses have completed already, and whether `take_paused`
            can take the session now.

        Raises:
            NotOwner: This client does not own the session.
            OwnershipLost: Another run has taken the session over.
            PeerCallExists: A call with one of the identifiers exists already.
            SecretsLocked: There are secrets and no key to encrypt them with.
            CallInProgress: A tool call of the session is running.
            ReviewRequired: A person has to decide about a call first.
            NotRepresentable: A value has no exact JSON form.
        """
        return self.backend.pause_for_peers(session_id, state, joins)

    def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        """Match another agent's response to its call, store it and count it, in one transaction.

        Args:
            peer_call_id: Identifier of the call.
            result: JSON value that is the response.
            session_id: Session the sender claims to answer; compared with that of the call. None: not compared.
            peer: Agent the sender claims to be; compared with the one that was called. None: not compared.
            token: Token the sender was given; compared with that of the call. None: not compared.

        Returns:
            `Accepted`, `Duplicate`, `Early`, `Late`, `Cancelled`, `Foreign` or `Unknown`.

        Raises:
            NotRepresentable: `result` has no exact JSON form.
            TooLarge: `result` is larger than its limit.
        """
        return self.backend.accept_response(peer_call_id, result, session_id=session_id, peer=peer, token=token)

    def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        takeover: bool | str = False,
    ) -> TakenTask:
        """Own a paused session whose join is complete, pass the gate as `resume` does, and get the responses.

        Until this run saves its next version or pauses again, another run can take the same task after this one was
        lost.

        Args:
            session_id: Identifier of the session.
            registry: Tools of the agent; it is bound to this session.
            wait: Whether to wait at the gate until people have decided, instead of raising `ReviewRequired` at once.
            timeout: Longest wait at the gate in seconds. None waits without limit.
            takeover: True, or a reason for the audit trail, ends a run that still gives signs of life.

        Returns:
            The stored state, the responses, and where to continue.

        Raises:
            StillWaiting: No join is complete yet.
            NotPaused: The session does not wait for other agents.
            SecretsLocked: The key that the secrets were encrypted with is missing.
            SessionNotFound: There is no such session.
            SessionBusy: Another run owns the session and is alive.
            ReviewRequired: A person has to decide about interrupted calls first.
            ApprovalRequired: A person has to approve calls first.
            CheckpointCorrupted: The newest version cannot be read.
            SchemaFromFuture: A newer version of this library wrote it.
            OwnershipLost: Another run took the session over meanwhile.
        """
        if registry is not None:
            registry.bind(self, session_id)
        return sync_and_async_flow_runners.run_flow(
            self.backend.take_paused_task_flow(session_id, wait=wait, timeout=timeout, takeover=takeover)
        )

    def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        """Extend the deadline of a call to another agent. A deadline never becomes earlier.

        Args:
            peer_call_id: Identifier of the call.
            deadline: Seconds or a duration from now, or a point in time.

        Returns:
            The deadline that now holds.

        Raises:
            PeerCallNotFound: There is no such call.
            PeerCallOver: The call has ended.
            InvalidInput: `deadline` is not a usable time.
        """
        return self.backend.extend_deadline(peer_call_id, deadline)

    def cancel_paused(self, session_id: str, *, tell: SendNotice | None = None, reason: str = "") -> Told:
        """End a session that waits for other agents as cancelled, and notify them.

        Args:
            session_id: Identifier of the session.
            tell: Function that sends one notice to one agent, sync or async. None leaves that to `tell_peers`.
            reason: Why, for the audit trail and for the agents.

        Returns:
            The calls whose agents were notified, and the error for each of the others, which `tell_peers` tries again.

        Raises:
            SessionNotFound: There is no such session.
            NotPaused: The session does not wait for other agents.
            SessionBusy: A run owns the session and is alive.
            SessionFinished: The session has ended.
        """
        return sync_and_async_flow_runners.run_flow(
            self.backend.cancel_paused_session_and_notify_agents_flow(session_id, tell=tell, reason=reason)
        )

    def tell_peers(self, tell: SendNotice, *, limit: int = constants.BATCH_LIMIT) -> Told:
        """Send the notices to other agents that are due, each at least once.

        These are requests of calls that were stored with `sent=False`, and notices that a call was cancelled or given
        up. Any number of processes may do this at the same time.

        Args:
            tell: Function that sends one notice to one agent, sync or async. A notice whose function raises stays due.
            limit: Largest number of notices.

        Returns:
            The calls whose agents were notified, and the error for each of the others, which stay due.
        """
        return sync_and_async_flow_runners.run_flow(self.backend.deliver_agent_notices_flow(tell, limit=limit))

    def sweep_deadlines(self, *, limit: int = constants.BATCH_LIMIT) -> Swept:
        """Give up calls to other agents whose deadline has passed. Any number of processes may do this at once.

        Args:
            limit: Largest number of calls.

        Returns:
            The calls that were given up, and the sessions and joins that this completed.
        """
        return self.backend.sweep_deadlines(limit=limit)

    def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = constants.BATCH_LIMIT
    ) -> list[dict[str, Any]]:
        """List sessions that wait for other agents, or whose responses are not used yet.

        Args:
            ready: True: only those that `take_paused` can take now. False: only the others. None: all.
            agent: Only sessions of this agent.
            limit: Largest number of entries.

        Returns:
            One dict per session: session_id, agent, ready, driven, and the joins that are `complete` and `open`.

        Raises:
            InvalidInput: `limit` is not a fitting number.
        """
        return self.backend.list_paused(ready=ready, agent=agent, limit=limit)

    def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        """List the calls of a session to other agents, oldest first.

        Args:
            session_id: Identifier of the session.

        Returns:
            One dict per call: call_id, peer, join_id, pause, status, created_at, deadline, settled_at, result_json,
            late_at, late_result_json, to_tell.

        Raises:
            SessionNotFound: There is no such session.
        """
        return self.backend.list_peer_calls(session_id)
