"""Peers with the async checkpointer."""

import pytest

from checkpoints import Checkpointer
from checkpoints.models import Workspace
from checkpoints.peers import Accepted, Cancelled, Duplicate, Early, Join, Notice, Paused, PeerCall, Swept, Told

pytestmark = pytest.mark.asyncio


async def test_waiting_for_other_agents_from_an_event_loop(workspace: Workspace) -> None:
    async with Checkpointer() as cp, Checkpointer() as other:
        await cp.start_session("s", agent="desk")
        assert await other.accept_response("c1", "early") == Early("c1")
        calls = [PeerCall("c1", "stock"), PeerCall("c2", "courier", {"ask": 2}, deadline=60, sent=False)]
        assert await cp.pause_for_peers("s", {"step": 1}, [Join("j", calls)]) == Paused("s", 1, (), ready=False)
        sent = []

        async def send(notice: Notice) -> None:
            sent.append((notice.kind, notice.peer, notice.request))

        assert await other.tell_peers(send) == Told(("c2",))
        assert sent == [("request", "courier", {"ask": 2})]
        await other.extend_deadline("c2", 120)
        assert await other.sweep_deadlines() == Swept()
        assert await other.accept_response("c2", "yes") == Accepted("c2", "s", "j", True, 2, 2)
        assert await other.accept_response("c2", "yes") == Duplicate("c2", "s", same=True, ready=True)
        assert [row["session_id"] for row in await other.list_paused(ready=True)] == ["s"]
        task = await other.take_paused("s")
        assert (task.state, list(task.results)) == ({"step": 1}, ["c1", "c2"])
        assert [call["status"] for call in await other.peer_calls("s")] == ["answered", "answered"]
        assert await other.save_checkpoint("s", [{"a": 1}], None, 0) == 1


async def test_cancelling_from_an_event_loop(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        await cp.pause_for_peers("s", {}, [Join("j", [PeerCall("c1", "stock"), PeerCall("c2", "stock")])])

        async def tell(notice: Notice) -> None:
            if notice.call_id == "c1":
                raise ConnectionError("no route")

        told = await cp.cancel_paused("s", tell=tell)
        assert (told.told, dict(told.failed)) == (("c2",), {"c1": "ConnectionError: no route"})
        assert await cp.accept_response("c1", "yes") == Cancelled("c1", "s")
