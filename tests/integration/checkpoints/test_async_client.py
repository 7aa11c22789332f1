"""The async checkpointer: same results as the blocking one, and one change of thread for each operation."""

import asyncio
import gc
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection

from checkpoints import Checkpointer, check_pending_tool_calls
from checkpoints.exceptions import CheckpointsError, SessionBusy
from checkpoints.models import Run, Workspace
from tests.integration.checkpoints.session_setups import conversation
from tests.support.async_database import run_in_thread
from tests.support.processes import PATIENCE

pytestmark = pytest.mark.asyncio


async def test_complete_session_from_an_event_loop(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s", "hello")
        assert await cp.save_checkpoint("s", conversation("a"), {"goal": 1}, 0.5) == 1
        assert await cp.append_checkpoint("s", conversation("b"), expected_version=1) == 2
        await cp.record_tool_call_issued("s", "call_1", "pay", {"order": 17}, "key")
        assert [call["status"] for call in await check_pending_tool_calls(cp, "s")] == ["issued"]
        await cp.record_tool_call_result("s", "call_1", "paid", True)
        found = await cp.find_completed_call("key")
        assert (found or {})["result_text"] == "paid"
        assert (await cp.load("s", 1))["transcript"] == conversation("a")
        assert ((await cp.load_latest("s")) or {})["version"] == 2
        assert [listed["version"] for listed in await cp.list_checkpoints("s")] == [2, 1]
        assert (await cp.preview_resume("s"))["version"] == 2
        await cp.finish_session("s", "completed", {"paid": 1})
        point = await cp.resume("s")
        assert (point.finished, point.result, point.version) == (True, {"paid": 1}, 2)


async def test_close_releases_the_session(workspace: Workspace) -> None:
    async with Checkpointer() as first:
        await first.start_session("s")
        async with Checkpointer() as second:
            with pytest.raises(SessionBusy):
                await second.start_session("s")
    async with Checkpointer() as third:
        await third.start_session("s")
    assert await run_in_thread(lambda: [run.status for run in Run.objects.order_by("number")]) == [
        "released",
        "released",
    ]


async def test_second_close_does_nothing(workspace: Workspace) -> None:
    cp = Checkpointer()
    await cp.close()
    await cp.close()


async def test_use_after_close_raises_typed_error(workspace: Workspace) -> None:
    cp = Checkpointer()
    await cp.close()

    with pytest.raises(CheckpointsError):
        await cp.load_latest("s")


async def test_close_ends_the_threads(workspace: Workspace) -> None:
    before = set(threading.enumerate())
    async with Checkpointer() as cp:
        await asyncio.gather(*[cp.load_latest(f"s{number}") for number in range(20)])
    left = [thread.name for thread in set(threading.enumerate()) - before]

    assert [name for name in left if name.startswith("harness_")] == []


async def test_dropped_client_closes_its_connections(workspace: Workspace) -> None:
    cp = Checkpointer()
    await asyncio.gather(*[cp.load_latest(f"s{number}") for number in range(20)])
    opened = cp._connections
    assert opened
    assert connection.vendor != "sqlite" or _count_open(opened)
    del cp
    async with asyncio.timeout(PATIENCE):
        while _count_open(opened):
            gc.collect()
            await asyncio.sleep(0.01)


def _count_open(connections: Sequence[Any]) -> int:
    return sum(each.connection is not None for each in connections)


async def test_many_concurrent_sessions(workspace: Workspace) -> None:
    async def session(cp: Checkpointer, number: int) -> list[int]:
        session_id = f"s{number}"
        await cp.start_session(session_id)
        return [await cp.save_checkpoint(session_id, conversation("abc"[:turn]), None, 0) for turn in range(1, 4)]

    async with Checkpointer() as cp:
        versions = await asyncio.gather(*[session(cp, number) for number in range(12)])
        assert versions == [[1, 2, 3]] * 12


async def test_concurrent_saves_of_one_session_create_one_version_each(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        transcripts = [conversation("abcdefgh"[:length]) for length in range(8)] * 2
        versions = await asyncio.gather(*[cp.save_checkpoint("s", each, None, 0) for each in transcripts])

        assert sorted(versions) == list(range(1, 17))
        for version, transcript in zip(versions, transcripts, strict=True):
            assert (await cp.load("s", version))["transcript"] == transcript
