"""Phases that are written behind, and their cadence."""

from typing import Any

import pytest

from checkpoints import (
    Cadence,
    RuntimeSnapshot,
    SyncCheckpointer,
)
from checkpoints.exceptions import (
    InvalidInput,
)
from checkpoints.loop_state import PostLlm, PreToolBatch, RunTerminal, StepStarted
from checkpoints.models import Checkpoint, ToolCall
from tests.integration.checkpoints.session_setups import conversation, start_session
from tests.integration.checkpoints.write_behind.queue_helpers import (
    MakeWriter,
    make_payment_tools,
    save_behind,
    version_lengths,
)
from tests.integration.checkpoints.write_behind.slow_database import locked_sessions
from tests.support.processes import wait_until


def test_phases_are_written_behind(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    answer = {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {}}]}
    snapshot = RuntimeSnapshot(step=1, total_cost_usd=0.5, pending_llm_response=answer)
    writer = make_writer()
    with locked_sessions():
        writer.save_phase(
            "s", StepStarted(), snapshot=RuntimeSnapshot(step=1), transcript=conversation("a"), plan={"goal": 1}
        )
        writer.save_phase("s", PostLlm(model="m"), snapshot=snapshot)
        writer.save_phase("s", PreToolBatch(tool_call_count=1))
        assert len(writer.unsaved()) == 3
    point = cp.resume("s")

    assert (point.snapshot, point.transcript, point.plan) == (snapshot, conversation("a"), {"goal": 1})
    assert (point.budget_spent_usd, point.version) == (0.5, 3)
    end = writer.save_phase("s", RunTerminal(state="completed", terminal_result=5))
    assert end.version == 4


def test_phase_without_a_known_transcript_is_saved_directly(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    start_session(cp).save_checkpoint("s", conversation("a"), {"goal": 1}, 0.5)
    ticket = make_writer().save_phase("s", PreToolBatch())

    assert (ticket.version, cp.load("s", 2)["plan"], version_lengths()) == (2, {"goal": 1}, [1, 1])


def test_phase_continues_a_directly_saved_version(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    save_behind(writer, "a")
    cp.save_checkpoint("s", conversation("abc"), {"goal": 2}, 0.5)
    ticket = writer.save_phase("s", PreToolBatch())
    save_behind(writer, "abcd")
    writer.flush()

    assert (ticket.version, cp.load("s", 3)["transcript"], cp.load("s", 3)["plan"]) == (
        3,
        conversation("abc"),
        {"goal": 2},
    )
    assert cp.load("s", 4)["transcript"] == conversation("abcd")


def test_snapshots_of_a_step_are_coalesced(make_writer: MakeWriter) -> None:
    writer = make_writer()
    with locked_sessions():
        save_behind(writer, "a")
        for calls in range(5):
            writer.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1, tool_calls=calls))
    writer.flush()

    assert version_lengths() == [1, 1]


def cadenced(make_writer: MakeWriter, cadence: Cadence, phases: list[str]) -> list[str]:
    """Return the texts at which versions are written by the cadence, and those written by a flush."""
    writer = make_writer(cadence=cadence)
    texts = "abcdefghijklmnop"
    for number, phase in enumerate(phases, 1):
        save_behind(writer, texts[:number], phase=phase)
        wait_until(lambda: all(each["kept_back"] for each in writer.unsaved()))
    by_itself = version_lengths()
    writer.flush()
    return [*map(str, by_itself), "flush", *map(str, version_lengths()[len(by_itself) :])]


TURN = ["post_llm", "post_tool_batch", "turn"]


@pytest.mark.parametrize(
    ("cadence", "phases", "written"),
    [
        (Cadence.every_call(), TURN * 2, "1 2 3 4 5 6 flush"),
        (Cadence.every_turn(), [*TURN * 2, "post_llm"], "3 6 flush 7"),
        (Cadence.every(n=2), [*TURN * 4, "post_llm"], "6 12 flush 13"),
        (Cadence.every(n=3), ["turn"] * 7, "3 6 flush 7"),
        (Cadence.every(n=3), ["turn", "turn", "paused", "turn", "turn"], "3 flush 5"),
        (Cadence.every(seconds=3600), ["turn"] * 4, "flush 4"),
        (Cadence.every(n=2, seconds=3600), ["turn"] * 4, "2 4 flush"),
    ],
)
def test_cadence_selects_the_saved_snapshots(
    make_writer: MakeWriter, cadence: Cadence, phases: list[str], written: str
) -> None:
    assert cadenced(make_writer, cadence, phases) == written.split()


def test_snapshot_is_saved_after_its_interval(make_writer: MakeWriter) -> None:
    writer = make_writer(cadence=Cadence.every(seconds=0.1))
    save_behind(writer, "a")
    ticket = save_behind(writer, "ab")

    wait_until(lambda: ticket.durable)
    assert version_lengths()[-1] == 2  # the first one is saved too, if its interval is over before the second one comes


def test_intent_writes_withheld_snapshots(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    ran: list[int] = []
    writer = make_writer(cadence=Cadence.every(n=100))
    save_behind(writer, "a")
    save_behind(writer, "ab")
    make_payment_tools(cp, ran).dispatch("pay", {"order": 1}, "call_1")

    assert (version_lengths(), ToolCall.objects.get().step, ran) == ([2], 1, [1])


def test_phase_without_snapshot_does_not_replace_a_snapshot(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    snapshot = RuntimeSnapshot(step=1, pending_llm_response={"content": "x"})
    writer = make_writer(cadence=Cadence.every(n=100))
    writer.save_phase("s", PostLlm(), snapshot=snapshot, transcript=conversation("a"))
    writer.save_phase("s", PreToolBatch())

    assert cp.resume("s").pending_response == {"content": "x"}


def test_sessions_with_withheld_snapshots_do_not_fill_the_queue(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer(cadence=Cadence.every(n=100), queue=1)
    for session_id in ("s", "t", "u"):
        start_session(cp, session_id)
        writer.save_checkpoint(session_id, conversation("a"), None, 0)
    writer.flush()

    assert Checkpoint.objects.count() == 3


@pytest.mark.parametrize("options", [{}, {"n": 0}, {"n": 1.5}, {"seconds": 0}, {"seconds": -1}, {"seconds": True}])
def test_invalid_cadence_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Cadence.every(**options)
