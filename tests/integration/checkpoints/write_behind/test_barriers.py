"""What depends on a version writes it first, or is told that it is not durable."""

import threading
from pathlib import Path

import pytest

from checkpoints import (
    SyncCheckpointer,
)
from checkpoints.exceptions import (
    CheckpointerClosed,
    NotDurable,
)
from checkpoints.models import Session, ToolCall
from tests.integration.checkpoints.situations import talk
from tests.integration.checkpoints.write_behind.queue_helpers import LONG, SHORT, Make, hand_in, lengths, paying
from tests.integration.checkpoints.write_behind.slow_database import locked


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
    writer.flush(timeout=LONG)
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
