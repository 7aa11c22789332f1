"""Waiting for other agents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from checkpoints import flows
from checkpoints.async_checkpointer.hopping import Hopping
from checkpoints.peers import cancelling, deadlines, listing, taking, telling
from checkpoints.peers.answers import Answer
from checkpoints.peers.telling import Tell
from checkpoints.peers.values import Deadline, Join, Paused, Swept, TakenTask, Told
from checkpoints.tools.registry import ToolRegistry


class Peers(Hopping):
    async def pause_for_peers(self, session_id: str, state: dict[str, Any], joins: Iterable[Join]) -> Paused:
        return await self.hop(partial(self.sync.pause_for_peers, session_id, state, joins))

    async def accept_response(
        self,
        peer_call_id: str,
        result: Any,
        *,
        session_id: str | None = None,
        peer: str | None = None,
        token: str | None = None,
    ) -> Answer:
        return await self.hop(
            partial(self.sync.accept_response, peer_call_id, result, session_id=session_id, peer=peer, token=token)
        )

    async def take_paused(
        self,
        session_id: str,
        registry: ToolRegistry | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - how long to wait for people, not for this code
        takeover: bool | str = False,
    ) -> TakenTask:
        if registry is not None:
            registry.bind(self, session_id)
        flow = taking.take_flow(self.store, session_id, wait=wait, timeout=timeout, takeover=takeover)
        return await flows.adrive(flow, self.hop)

    async def extend_deadline(self, peer_call_id: str, deadline: Deadline) -> datetime:
        return await self.hop(partial(self.sync.extend_deadline, peer_call_id, deadline))

    async def cancel_paused(self, session_id: str, *, tell: Tell | None = None, reason: str = "") -> Told:
        return await flows.adrive(cancelling.cancel_flow(self.store, session_id, tell=tell, reason=reason), self.hop)

    async def tell_peers(self, tell: Tell, *, limit: int = telling.LIMIT) -> Told:
        return await flows.adrive(telling.tell_flow(self.store, tell, limit=limit), self.hop)

    async def sweep_deadlines(self, *, limit: int = deadlines.LIMIT) -> Swept:
        return await self.hop(partial(self.sync.sweep_deadlines, limit=limit))

    async def list_paused(
        self, *, ready: bool | None = None, agent: str | None = None, limit: int = listing.LIMIT
    ) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.list_paused, ready=ready, agent=agent, limit=limit))

    async def peer_calls(self, session_id: str) -> list[dict[str, Any]]:
        return await self.hop(partial(self.sync.peer_calls, session_id))
