"""The pieces of the harness over this library, one by one."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection

from checkpoints import Checkpointer
from checkpoints.exceptions import CallAlreadySettled, LateResultRefused
from checkpoints.models import Workspace
from tests.minimal_harness import agents
from tests.minimal_harness.harness import (
    Message,
    Plan,
    Step,
    TextBlock,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolResult,
    Transcript,
    deserialize_plan,
    deserialize_transcript,
    serialize_plan,
    serialize_transcript,
)
from tests.support.processes import database_url

pytestmark = pytest.mark.asyncio
TRANSCRIPT = Transcript(
    [
        Message("user", [TextBlock("Mail Bob.")], id="m0", created_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        Message("assistant", [TextBlock("Yes."), ToolCall("call_1", "send_email", {"to": "bob"})], id="m1"),
        Message("user", [ToolResult("call_1", "sent", is_error=False)], id="m2"),
    ]
)
PLAN = Plan("mail", [Step("find bob", done=True, evidence=["address book"]), Step("mail bob")])


async def test_objects_of_the_loop_come_back_equal(workspace: Workspace) -> None:
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s", "Mail Bob.", "You are a test.")
        version = await checkpointer.save_checkpoint(
            session_id="s", transcript=serialize_transcript(TRANSCRIPT), plan=serialize_plan(PLAN), budget_spent_usd=0.1
        )
        latest = await checkpointer.load_latest("s")

    assert latest is not None
    assert (latest["version"], latest["budget_spent_usd"]) == (version, 0.1) == (1, 0.1)
    assert deserialize_transcript(latest["transcript"]) == TRANSCRIPT
    assert deserialize_plan(latest["plan"]) == PLAN


async def test_unknown_kind_of_block_does_not_make_the_session_unreadable(workspace: Workspace) -> None:
    unknown = {"role": "assistant", "blocks": [{"kind": "hologram", "beams": 3}]}
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        await checkpointer.save_checkpoint("s", [unknown], asdict(PLAN), 0.0)
        latest = await checkpointer.load_latest("s")

    assert latest is not None
    assert latest["transcript"] == [unknown]


async def test_every_version_stays(workspace: Workspace) -> None:
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        for turn in range(1, 4):
            part = serialize_transcript(Transcript(TRANSCRIPT.messages[:turn]))
            assert await checkpointer.save_checkpoint("s", part, None, turn / 10) == turn
        first = await checkpointer.load("s", 1)

    assert (deserialize_transcript(first["transcript"]).messages, first["budget_spent_usd"]) == (
        TRANSCRIPT.messages[:1],
        0.1,
    )


async def test_intent_comes_before_the_effect_and_the_result_after(workspace: Workspace) -> None:
    seen: list[str] = []
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")

        def look() -> str:
            """The tool runs on the loop's thread, where Django's database is out of bounds."""
            with ThreadPoolExecutor(1) as elsewhere:
                (call,) = elsewhere.submit(checkpointer.sync.pending_tool_calls, "s").result()
                elsewhere.submit(lambda: connection.close()).result()
            seen.append(call["status"])
            return "done"

        registry = ToolRegistry({"act": Tool(look)}, checkpointer, "s")
        assert await registry.adispatch("act", {}, "call_1") == ToolResult("call_1", "done")
        assert (seen, await checkpointer.pending_tool_calls("s")) == (["issued"], [])


async def test_completed_call_is_not_run_again(workspace: Workspace, tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        registry = ToolRegistry(agents.mailing(str(outbox)), checkpointer, "s")
        results = [await registry.adispatch("send_email", {"to": "bob"}, f"call_{number}") for number in range(3)]

    assert results == [ToolResult(f"call_{number}", "sent to bob") for number in range(3)]
    assert outbox.read_text() == "bob\n"


async def test_failed_call_is_run_again(workspace: Workspace) -> None:
    tries = iter(["", "done"])

    def run() -> str:
        return next(tries) or str(1 / 0)

    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        registry = ToolRegistry({"act": Tool(run)}, checkpointer, "s")
        assert [(await registry.adispatch("act", {}, "call_1")).is_error for _ in range(2)] == [True, False]


async def test_reading_tool_is_not_logged(workspace: Workspace) -> None:
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        registry = ToolRegistry({"look": Tool(lambda: "seen", frozenset({"read"}))}, checkpointer, "s")
        assert await registry.adispatch("look", {}, "call_1") == ToolResult("call_1", "seen")
        assert await checkpointer.find_completed_call(registry.idempotency_key("look", {})) is None


async def test_second_settlement_is_refused(workspace: Workspace) -> None:
    async with Checkpointer() as checkpointer:
        await checkpointer.start_session("s")
        await checkpointer.record_tool_call_issued("s", "call_1", "act", {}, "key")
        await checkpointer.record_tool_call_result("s", "call_1", "done", True)
        with pytest.raises(LateResultRefused):
            await checkpointer.record_tool_call_result("s", "call_1", "failed after all", False)
        with pytest.raises(CallAlreadySettled):
            await checkpointer.record_tool_call_issued("s", "call_1", "act", {}, "key")


async def test_whole_loop_runs_in_a_process_of_its_own_connections(workspace: Workspace, tmp_path: Path) -> None:
    outbox = tmp_path / "outbox"
    async with Checkpointer(database_url()) as checkpointer:
        ended = await agents.resume_main(checkpointer, str(outbox), turns=2)

    assert ended == {"pending": [], "version": None, "summary": "All mails are out.", "spent": 0.75}
    assert outbox.read_text() == "person 1\nperson 2\n"
