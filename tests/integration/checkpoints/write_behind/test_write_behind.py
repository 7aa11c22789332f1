"""Versions written behind the agent's back: in order, all of them, and never called durable before they are."""

import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpoints import (
    Cadence,
    Checkpointer,
    RuntimeSnapshot,
    SyncCheckpointer,
    SyncWriteBehind,
    ToolRegistry,
    WriteBehind,
)
from checkpoints.exceptions import (
    CheckpointerClosed,
    CheckpointsError,
    FileNotWritten,
    InvalidInput,
    NotDurable,
    NotOwner,
    NotRepresentable,
    OwnershipLost,
)
from checkpoints.files.session_files import SyncSessionFiles
from checkpoints.models import Checkpoint, Session, ToolCall, Workspace
from checkpoints.runs import PostLlm, PreToolBatch, RunTerminal, StepStarted
from tests.conftest import Open, StartChild
from tests.integration.checkpoints.situations import lose_run, started, talk
from tests.integration.checkpoints.write_behind import slow
from tests.integration.checkpoints.write_behind.slow import locked
from tests.support.processes import database_url, until

Make = Callable[..., SyncWriteBehind]
SHORT = 0.2  # seconds to wait for a database that takes nothing


@pytest.fixture
def make(cp: SyncCheckpointer) -> Iterator[Make]:
    """Write behind on `cp`, whose session `s` has begun."""
    made: list[SyncWriteBehind] = []

    def make_(**options: Any) -> SyncWriteBehind:
        started(cp)
        made.append(SyncWriteBehind(cp, **options))
        return made[-1]

    yield make_
    for each in made:
        each.close()


def lengths() -> list[int]:
    """How many messages each version has, in order."""
    return list(Checkpoint.objects.order_by("version").values_list("length", flat=True))


def hand_in(writer: SyncWriteBehind, texts: str, **options: Any) -> Any:
    return writer.save_checkpoint("s", talk(texts), {"upto": texts}, 0.25, **options)


def test_everything_is_written_in_order(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    tickets = [hand_in(writer, "abcdef"[:length]) for length in range(1, 7)]
    writer.flush()

    assert [ticket.version for ticket in tickets] == [1, 2, 3, 4, 5, 6]
    assert (lengths(), writer.unsaved()) == ([1, 2, 3, 4, 5, 6], [])
    assert cp.load("s", 3)["plan"] == {"upto": "abc"}


def test_nothing_is_called_durable_before_it_is(make: Make) -> None:
    writer = make()
    with locked():
        ticket = hand_in(writer, "a")
        assert (ticket.durable, ticket.version, Checkpoint.objects.count()) == (False, None, 0)
        assert [(each["session_id"], each["phase"], each["messages"]) for each in writer.unsaved("s")] == [
            ("s", "turn", 1)
        ]
    writer.flush()
    assert (ticket.durable, ticket.version) == (True, 1)


def test_version_is_what_was_handed_in_whatever_happens_to_it_later(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    transcript = talk("ab")
    plan = {"goal": ["x"]}
    with locked():
        hand_in(writer, "a")
        writer.save_checkpoint("s", transcript, plan, 0)
        transcript[0]["role"] = transcript[1]["role"] = "changed"
        transcript.append({"more": 1})
        plan["goal"].append("y")
        writer.save_checkpoint("s", transcript, plan, 0)
    writer.flush()

    assert (cp.load("s", 2)["transcript"], cp.load("s", 2)["plan"]) == (talk("ab"), {"goal": ["x"]})
    assert (cp.load("s", 3)["transcript"], cp.load("s", 3)["plan"]) == (transcript, plan)


def test_shorter_transcript_is_kept_as_it_is(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    for texts in ("abc", "xc", "xcd", ""):
        hand_in(writer, texts)
    writer.flush()

    assert [cp.load("s", version)["transcript"] for version in (1, 2, 3, 4)] == [
        talk("abc"),
        talk("xc"),
        talk("xcd"),
        [],
    ]


@pytest.mark.parametrize("bad", [[{"a": float("nan")}], [{"a": b""}], ["text"], "text", [{1: 2}]], ids=repr)
def test_what_cannot_be_kept_is_refused_at_once(cp: SyncCheckpointer, make: Make, bad: Any) -> None:
    writer = make()
    with pytest.raises(NotRepresentable):
        writer.save_checkpoint("s", bad, None, 0)
    hand_in(writer, "a")
    writer.flush()

    assert lengths() == [1]


def test_session_of_another_owner_is_refused_at_once(open_checkpointer: Open) -> None:
    started(open_checkpointer())

    with pytest.raises(NotOwner), SyncWriteBehind(open_checkpointer()) as writer:
        hand_in(writer, "a")


# coalescing


def test_newer_snapshot_of_a_step_takes_the_place_of_an_unsaved_one(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    with locked():
        first = hand_in(writer, "a", step=1)
        until(lambda: Checkpoint.objects.count() == 0 and len(writer.unsaved()) == 1)
        tickets = [hand_in(writer, "abcd"[:length], step=2) for length in (2, 3)]
        tickets.append(hand_in(writer, "abcd", step=2, phase="post_llm"))
        tickets.append(hand_in(writer, "abcde", step=3, phase="post_llm"))
    writer.flush()

    assert lengths()[-3:] == [3, 4, 5]
    assert tickets[0].version == tickets[1].version == tickets[2].version - 1 == tickets[3].version - 2
    assert first.durable is True


@pytest.mark.parametrize("options", [{"coalesce": False}, {}])
def test_versions_are_all_kept_where_nothing_else_was_asked_for(make: Make, options: dict[str, Any]) -> None:
    writer = make(**options)
    step = {"step": 1} if options else {}
    with locked():
        for length in (1, 2, 3, 4):
            hand_in(writer, "abcd"[:length], **step)
    writer.flush()

    assert lengths() == [1, 2, 3, 4]


# what depends on a version writes it first


def paying(cp: SyncCheckpointer, ran: list[int]) -> ToolRegistry:
    registry = ToolRegistry(checkpointer=cp, session_id="s")
    registry.tool(name="pay")(lambda order: ran.append(order))
    registry.tool(name="look", side_effects={"read"})(lambda order: ran.append(-order))
    return registry


def test_intent_writes_what_comes_before_it(cp: SyncCheckpointer, make: Make) -> None:
    ran: list[int] = []
    writer, registry = make(), paying(cp, ran)
    for number, texts in enumerate(("a", "ab", "abc"), 1):
        hand_in(writer, texts)
        registry.dispatch("pay", {"order": number}, f"call_{number}")
        assert (writer.unsaved(), len(lengths())) == ([], number)
    assert list(ToolCall.objects.order_by("pk").values_list("step", flat=True)) == [1, 2, 3]


def test_tool_does_not_run_on_a_version_that_cannot_be_written(cp: SyncCheckpointer, make: Make) -> None:
    ran: list[int] = []
    writer = make(flush_timeout=SHORT)
    registry = paying(cp, ran)
    with locked():
        hand_in(writer, "a")
        with pytest.raises(NotDurable) as caught:
            registry.dispatch("pay", {"order": 1}, "call_1")
        with pytest.raises(NotDurable):
            cp.record_tool_call_issued("s", "call_2", "pay", {}, "key")
        with pytest.raises(NotDurable):
            cp.workflow("s", "w")
        assert (registry.dispatch("look", {"order": 1}, "call_3").is_error, ran) == (False, [-1])
        assert [each["messages"] for each in caught.value.unsaved] == [1]
    assert (registry.dispatch("pay", {"order": 1}, "call_1").is_error, ran) == (False, [-1, 1])
    assert (lengths(), ToolCall.objects.get().step) == ([1], 1)


def test_version_that_is_saved_directly_comes_after_those_that_wait(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    with locked():
        hand_in(writer, "a")
        hand_in(writer, "ab")
        direct = threading.Thread(target=lambda: cp.save_checkpoint("s", talk("abc"), None, 0))
        direct.start()
    direct.join()

    assert lengths() == [1, 2, 3]


def test_reader_sees_what_was_handed_in(cp: SyncCheckpointer, make: Make, tmp_path: Path) -> None:
    writer = make()
    for texts, read in (
        ("a", lambda: (cp.load_latest("s") or {})["version"]),
        ("ab", lambda: cp.load("s", 2)["version"]),
        ("abc", lambda: cp.list_checkpoints("s")[0]["version"]),
        ("abcd", lambda: cp.resume("s").version),
        ("abcde", lambda: cp.export_session("s", tmp_path / "f").version),
        ("abcdef", lambda: cp.fork_session("s", "fork") and len(cp.load("fork", 1)["transcript"])),
    ):
        hand_in(writer, texts)
        assert read() == len(texts)


def test_end_is_not_called_completed_while_something_is_not_durable(cp: SyncCheckpointer, make: Make) -> None:
    writer = make(flush_timeout=SHORT)
    with locked():
        hand_in(writer, "a")
        with pytest.raises(NotDurable):
            cp.finish_session("s", "completed", "done")
    assert Session.objects.get().status == "active"
    cp.finish_session("s", "completed", "done")
    assert (lengths(), Session.objects.get().status) == ([1], "completed")


@pytest.mark.parametrize("phase", ["run_terminal", "paused"])
def test_end_and_pause_are_durable_or_said_not_to_be(make: Make, phase: str) -> None:
    writer = make(flush_timeout=SHORT)
    with locked():
        hand_in(writer, "a")
        with pytest.raises(NotDurable) as caught:
            hand_in(writer, "ab", phase=phase)
        assert [each["phase"] for each in caught.value.unsaved] == ["turn", phase]
    assert hand_in(writer, "abc", phase=phase).durable is True
    assert lengths() == [1, 2, 3]


def test_closing_the_checkpointer_writes_everything(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    with locked():
        hand_in(writer, "a")
        hand_in(writer, "ab")
    cp.close()

    assert (lengths(), writer.unsaved()) == ([1, 2], [])


def test_closing_twice_and_using_it_then(make: Make) -> None:
    writer = make()
    hand_in(writer, "a")
    for _ in range(2):
        writer.close()

    assert lengths() == [1]
    with pytest.raises(CheckpointerClosed):
        hand_in(writer, "ab")


# back-pressure


def test_full_queue_makes_the_agent_wait_and_loses_nothing(make: Make) -> None:
    writer = make(queue=2)
    passed: list[int] = []

    def work() -> None:
        for length in range(1, 9):
            hand_in(writer, "abcdefgh"[:length])
            passed.append(length)

    agent = threading.Thread(target=work)
    with locked():
        agent.start()
        until(lambda: len(writer.unsaved()) == 2)
        agent.join(SHORT)
        assert (agent.is_alive(), passed) == (True, [1, 2])
    agent.join()
    writer.flush()

    assert lengths() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_queue_that_stays_full_refuses_what_it_cannot_take(make: Make) -> None:
    writer = make(queue=2, flush_timeout=SHORT)
    with locked():
        hand_in(writer, "a")
        hand_in(writer, "ab")
        with pytest.raises(NotDurable, match="the queue is full"):
            hand_in(writer, "abc")
    writer.flush()
    assert lengths() == [1, 2]


def test_one_session_does_not_starve_another(cp: SyncCheckpointer, make: Make) -> None:
    writer = make(queue=4)
    for session_id in ("t", "u"):
        started(cp, session_id)
    for length in range(1, 9):
        for session_id in ("s", "t", "u"):
            writer.save_checkpoint(session_id, talk("abcdefgh"[:length]), None, 0)
    writer.flush()

    assert [cp.load_latest(session_id)["version"] for session_id in ("s", "t", "u")] == [8, 8, 8]  # type: ignore[index]


# what goes wrong


def test_run_that_lost_its_session_is_told_what_is_not_durable(open_checkpointer: Open) -> None:
    first = started(open_checkpointer())
    writer = SyncWriteBehind(first)
    hand_in(writer, "a")
    writer.flush()
    lose_run(open_checkpointer)
    ticket = hand_in(writer, "ab")
    with pytest.raises(NotDurable) as caught:
        writer.flush("s")

    assert isinstance(caught.value.__cause__, OwnershipLost)
    assert ([each["messages"] for each in caught.value.unsaved], ticket.durable, lengths()) == ([2], False, [1])
    with pytest.raises(NotOwner):
        hand_in(writer, "abc")
    writer.close()


def test_trouble_of_one_session_leaves_the_others_alone(open_checkpointer: Open) -> None:
    first = started(open_checkpointer())
    started(first, "t")
    writer = SyncWriteBehind(first)
    lose_run(open_checkpointer)
    hand_in(writer, "a")
    writer.save_checkpoint("t", talk("a"), None, 0)
    writer.flush("t")

    with pytest.raises(NotDurable):
        writer.flush()
    writer.close()
    assert list(Checkpoint.objects.values_list("session__session_id", flat=True)) == ["t"]


def test_file_that_cannot_be_written_is_told_and_the_version_is_durable(
    cp: SyncCheckpointer, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "folder").touch()
    writer = make()
    SyncSessionFiles(cp, tmp_path / "folder", autosave=True)
    ticket = hand_in(writer, "a")

    with pytest.raises(FileNotWritten):
        writer.flush()
    assert (ticket.version, lengths()) == (1, [1])


@pytest.mark.parametrize("options", [{"queue": 0}, {"queue": True}, {"flush_timeout": 0}, {"flush_timeout": -1}])
def test_options_that_make_no_sense_are_refused(cp: SyncCheckpointer, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        SyncWriteBehind(cp, **options)


def test_checkpointer_is_written_behind_once(cp: SyncCheckpointer, make: Make) -> None:
    make()

    with pytest.raises(InvalidInput):
        SyncWriteBehind(cp)


def test_killed_agent_was_told_the_truth(start_child: StartChild) -> None:
    child = start_child(slow.save_and_die, url=database_url(), versions=40)
    told = [child.expect("tickets") for _ in range(40)]
    child.tell()
    assert child.died_by() == signal.SIGKILL

    claimed = [version for version in told[-1] if version is not None]
    assert claimed == list(range(1, len(claimed) + 1))
    assert lengths()[: len(claimed)] == claimed
    assert lengths() == list(range(1, len(lengths()) + 1))


def test_script_that_forgets_to_close_loses_nothing(start_child: StartChild) -> None:
    assert start_child(slow.end_without_closing, url=database_url(), versions=40).result() == "over"

    assert lengths() == list(range(1, 41))


# phases


def test_phases_are_written_behind(cp: SyncCheckpointer, make: Make) -> None:
    answer = {"role": "assistant", "tool_calls": [{"id": "call_1", "name": "pay", "args": {}}]}
    snapshot = RuntimeSnapshot(step=1, total_cost_usd=0.5, pending_llm_response=answer)
    writer = make()
    with locked():
        writer.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1), transcript=talk("a"), plan={"goal": 1})
        writer.save_phase("s", PostLlm(model="m"), snapshot=snapshot)
        writer.save_phase("s", PreToolBatch(tool_call_count=1))
        assert len(writer.unsaved()) == 3
    point = cp.resume("s")

    assert (point.snapshot, point.transcript, point.plan) == (snapshot, talk("a"), {"goal": 1})
    assert (point.budget_spent_usd, point.version) == (0.5, 3)
    end = writer.save_phase("s", RunTerminal(state="completed", terminal_result=5))
    assert end.version == 4


def test_phase_without_a_transcript_to_go_by_is_saved_directly(cp: SyncCheckpointer, make: Make) -> None:
    started(cp).save_checkpoint("s", talk("a"), {"goal": 1}, 0.5)
    ticket = make().save_phase("s", PreToolBatch())

    assert (ticket.version, cp.load("s", 2)["plan"], lengths()) == (2, {"goal": 1}, [1, 1])


def test_phase_goes_on_from_what_was_saved_directly(cp: SyncCheckpointer, make: Make) -> None:
    writer = make()
    hand_in(writer, "a")
    cp.save_checkpoint("s", talk("abc"), {"goal": 2}, 0.5)
    ticket = writer.save_phase("s", PreToolBatch())
    hand_in(writer, "abcd")
    writer.flush()

    assert (ticket.version, cp.load("s", 3)["transcript"], cp.load("s", 3)["plan"]) == (3, talk("abc"), {"goal": 2})
    assert cp.load("s", 4)["transcript"] == talk("abcd")


def test_snapshots_of_a_step_coalesce_by_themselves(make: Make) -> None:
    writer = make()
    with locked():
        hand_in(writer, "a")
        for calls in range(5):
            writer.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1, tool_calls=calls))
    writer.flush()

    assert lengths() == [1, 1]


# cadences


def cadenced(make: Make, cadence: Cadence, phases: list[str]) -> list[str]:
    """The texts at which versions are written by themselves, and then by a flush."""
    writer = make(cadence=cadence)
    texts = "abcdefghijklmnop"
    for number, phase in enumerate(phases, 1):
        hand_in(writer, texts[:number], phase=phase)
        until(lambda: all(each["kept_back"] for each in writer.unsaved()))
    by_itself = lengths()
    writer.flush()
    return [*map(str, by_itself), "flush", *map(str, lengths()[len(by_itself) :])]


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
def test_cadence_says_which_snapshots_are_saved(make: Make, cadence: Cadence, phases: list[str], written: str) -> None:
    assert cadenced(make, cadence, phases) == written.split()


def test_snapshot_is_saved_when_its_time_has_come(make: Make) -> None:
    writer = make(cadence=Cadence.every(seconds=0.1))
    hand_in(writer, "a")
    ticket = hand_in(writer, "ab")

    until(lambda: ticket.durable)
    assert lengths() == [2]


def test_intent_writes_what_is_kept_back(cp: SyncCheckpointer, make: Make) -> None:
    ran: list[int] = []
    writer = make(cadence=Cadence.every(n=100))
    hand_in(writer, "a")
    hand_in(writer, "ab")
    paying(cp, ran).dispatch("pay", {"order": 1}, "call_1")

    assert (lengths(), ToolCall.objects.get().step, ran) == ([2], 1, [1])


def test_light_phase_does_not_take_the_place_of_a_snapshot(cp: SyncCheckpointer, make: Make) -> None:
    snapshot = RuntimeSnapshot(step=1, pending_llm_response={"content": "x"})
    writer = make(cadence=Cadence.every(n=100))
    writer.save_phase("s", PostLlm(), snapshot=snapshot, transcript=talk("a"))
    writer.save_phase("s", PreToolBatch())

    assert cp.resume("s").pending_response == {"content": "x"}


def test_sessions_that_keep_something_back_do_not_fill_the_queue_for_ever(cp: SyncCheckpointer, make: Make) -> None:
    writer = make(cadence=Cadence.every(n=100), queue=1)
    for session_id in ("s", "t", "u"):
        started(cp, session_id)
        writer.save_checkpoint(session_id, talk("a"), None, 0)
    writer.flush()

    assert Checkpoint.objects.count() == 3


@pytest.mark.parametrize("options", [{}, {"n": 0}, {"n": 1.5}, {"seconds": 0}, {"seconds": -1}, {"seconds": True}])
def test_cadence_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Cadence.every(**options)


# async


@pytest.mark.asyncio
async def test_async_twin(workspace: Workspace) -> None:
    async with Checkpointer() as cp:
        await cp.start_session("s")
        async with WriteBehind(cp, cadence=Cadence.every(n=100)) as writer:
            tickets = [await writer.save_checkpoint("s", talk("abc"[:length]), None, 0) for length in (1, 2, 3)]
            assert len(writer.unsaved("s")) == 1
            await writer.flush("s", timeout=60)
            assert [ticket.version for ticket in tickets] == [1, 1, 1]
            await writer.save_phase("s", PreToolBatch())
            assert ((await cp.load_latest("s")) or {})["version"] == 2
            await writer.save_phase("s", StepStarted(), snapshot=RuntimeSnapshot(step=1))
        with pytest.raises(CheckpointsError):
            await writer.save_checkpoint("s", [], None, 0)
        assert (await cp.resume("s")).version == 3
