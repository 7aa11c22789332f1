"""Write-behind writes all versions in order, as they were queued."""

from typing import Any

import pytest

from checkpoints import (
    Cadence,
    Checkpointer,
    RuntimeSnapshot,
    SyncCheckpointer,
    SyncWriteBehind,
    WriteBehind,
)
from checkpoints.exceptions import (
    CheckpointsError,
    InvalidInput,
    NotOwner,
    NotRepresentable,
)
from checkpoints.loop_state import PreToolBatch, StepStarted
from checkpoints.models import Checkpoint, Workspace
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.integration.checkpoints.write_behind.queue_helpers import MakeWriter, save_behind, version_lengths
from tests.integration.checkpoints.write_behind.slow_database import locked_sessions
from tests.support.processes import wait_until


def test_all_versions_are_written_in_order(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    tickets = [save_behind(writer, "abcdef"[:length]) for length in range(1, 7)]
    writer.flush()

    assert [ticket.version for ticket in tickets] == [1, 2, 3, 4, 5, 6]
    assert (version_lengths(), writer.unsaved()) == ([1, 2, 3, 4, 5, 6], [])
    assert cp.load("s", 3)["plan"] == {"upto": "abc"}


def test_ticket_is_not_durable_before_the_write(make_writer: MakeWriter) -> None:
    writer = make_writer()
    with locked_sessions():
        ticket = save_behind(writer, "a")
        assert (ticket.durable, ticket.version, Checkpoint.objects.count()) == (False, None, 0)
        assert [(each["session_id"], each["phase"], each["messages"]) for each in writer.unsaved("s")] == [
            ("s", "turn", 1)
        ]
    writer.flush()
    assert (ticket.durable, ticket.version) == (True, 1)


def test_queued_version_is_a_copy_of_the_transcript(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    transcript = conversation("ab")
    plan = {"goal": ["x"]}
    with locked_sessions():
        save_behind(writer, "a")
        writer.save_checkpoint("s", transcript, plan, 0)
        transcript[0]["role"] = transcript[1]["role"] = "changed"
        transcript.append({"more": 1})
        plan["goal"].append("y")
        writer.save_checkpoint("s", transcript, plan, 0)
    writer.flush()

    assert (cp.load("s", 2)["transcript"], cp.load("s", 2)["plan"]) == (conversation("ab"), {"goal": ["x"]})
    assert (cp.load("s", 3)["transcript"], cp.load("s", 3)["plan"]) == (transcript, plan)


def test_shorter_transcript_is_written_as_queued(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    for texts in ("abc", "xc", "xcd", ""):
        save_behind(writer, texts)
    writer.flush()

    assert [cp.load("s", version)["transcript"] for version in (1, 2, 3, 4)] == [
        conversation("abc"),
        conversation("xc"),
        conversation("xcd"),
        [],
    ]


@pytest.mark.parametrize("bad", [[{"a": float("nan")}], [{"a": b""}], ["text"], "text", [{1: 2}]], ids=repr)
def test_invalid_version_is_refused_when_queued(cp: SyncCheckpointer, make_writer: MakeWriter, bad: Any) -> None:
    writer = make_writer()
    with pytest.raises(NotRepresentable):
        writer.save_checkpoint("s", bad, None, 0)
    save_behind(writer, "a")
    writer.flush()

    assert version_lengths() == [1]


def test_version_of_a_session_that_is_not_owned_is_refused(open_checkpointer: Open) -> None:
    start_session(open_checkpointer())

    with pytest.raises(NotOwner), SyncWriteBehind(open_checkpointer()) as writer:
        save_behind(writer, "a")


def test_newer_snapshot_of_a_step_replaces_an_unsaved_one(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    with locked_sessions():
        first = save_behind(writer, "a", step=1)
        wait_until(lambda: Checkpoint.objects.count() == 0 and len(writer.unsaved()) == 1)
        tickets = [save_behind(writer, "abcd"[:length], step=2) for length in (2, 3)]
        tickets.append(save_behind(writer, "abcd", step=2, phase="post_llm"))
        tickets.append(save_behind(writer, "abcde", step=3, phase="post_llm"))
    writer.flush()

    assert version_lengths()[-3:] == [3, 4, 5]
    assert tickets[0].version == tickets[1].version == tickets[2].version - 1 == tickets[3].version - 2
    assert first.durable is True


@pytest.mark.parametrize("options", [{"coalesce": False}, {}])
def test_versions_are_not_coalesced_by_default(make_writer: MakeWriter, options: dict[str, Any]) -> None:
    writer = make_writer(**options)
    step = {"step": 1} if options else {}
    with locked_sessions():
        for length in (1, 2, 3, 4):
            save_behind(writer, "abcd"[:length], **step)
    writer.flush()

    assert version_lengths() == [1, 2, 3, 4]


@pytest.mark.parametrize("options", [{"queue": 0}, {"queue": True}, {"flush_timeout": 0}, {"flush_timeout": -1}])
def test_invalid_options_are_refused(cp: SyncCheckpointer, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SyncWriteBehind(cp, **options)


def test_checkpointer_has_at_most_one_writer(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    make_writer()

    with pytest.raises(InvalidInput):
        SyncWriteBehind(cp)


@pytest.mark.asyncio
async def test_async_class_behaves_alike(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        async with WriteBehind(cp, cadence=Cadence.every(n=100)) as writer:
            tickets = [await writer.save_checkpoint("s", conversation("abc"[:length]), None, 0) for length in (1, 2, 3)]
            assert len(writer.unsaved("s")) == 1
            await writer.flush("s", timeout=60)
            assert [ticket.version for ticket in tickets] == [1, 1, 1]
            await writer.save_phase("s", PreToolBatch())
            assert ((await cp.load_latest("s")) or {})["version"] == 2
            await writer.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1))
        with pytest.raises(CheckpointsError):
            await writer.save_checkpoint("s", [], None, 0)
        assert (await cp.resume("s")).version == 3
