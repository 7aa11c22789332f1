"""Operations that depend on queued versions write them first, or report that they are not durable."""

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
from tests.integration.checkpoints.session_setups import conversation
from tests.integration.checkpoints.write_behind.queue_helpers import (
    SHORT_TIMEOUT,
    MakeWriter,
    make_payment_tools,
    save_behind,
    version_lengths,
    wait_long_for_database,
)
from tests.integration.checkpoints.write_behind.slow_database import locked_sessions


def test_intent_writes_queued_versions_first(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    ran: list[int] = []
    writer, registry = make_writer(), make_payment_tools(cp, ran)
    for number, texts in enumerate(("a", "ab", "abc"), 1):
        save_behind(writer, texts)
        registry.dispatch("pay", {"order": number}, f"call_{number}")
        assert (writer.unsaved(), len(version_lengths())) == ([], number)
    assert list(ToolCall.objects.order_by("pk").values_list("step", flat=True)) == [1, 2, 3]


def test_tool_does_not_run_on_a_version_that_cannot_be_written(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    ran: list[int] = []
    writer = make_writer(flush_timeout=SHORT_TIMEOUT)
    registry = make_payment_tools(cp, ran)
    with locked_sessions():
        save_behind(writer, "a")
        with pytest.raises(NotDurable) as caught:
            registry.dispatch("pay", {"order": 1}, "call_1")
        with pytest.raises(NotDurable):
            cp.record_tool_call_issued("s", "call_2", "pay", {}, "key")
        with pytest.raises(NotDurable):
            cp.workflow("s", "w")
        assert (registry.dispatch("look", {"order": 1}, "call_3").is_error, ran) == (False, [-1])
        assert [each["messages"] for each in caught.value.unsaved] == [1]
    wait_long_for_database(writer)
    assert (registry.dispatch("pay", {"order": 1}, "call_1").is_error, ran) == (False, [-1, 1])
    assert (version_lengths(), ToolCall.objects.get().step) == ([1], 1)


def test_directly_saved_version_follows_queued_ones(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    with locked_sessions():
        save_behind(writer, "a")
        save_behind(writer, "ab")
        direct = threading.Thread(target=lambda: cp.save_checkpoint("s", conversation("abc"), None, 0))
        direct.start()
    direct.join()

    assert version_lengths() == [1, 2, 3]


def test_read_includes_queued_versions(cp: SyncCheckpointer, make_writer: MakeWriter, tmp_path: Path) -> None:
    writer = make_writer()
    for texts, read in (
        ("a", lambda: (cp.load_latest("s") or {})["version"]),
        ("ab", lambda: cp.load("s", 2)["version"]),
        ("abc", lambda: cp.list_checkpoints("s")[0]["version"]),
        ("abcd", lambda: cp.resume("s").version),
        ("abcde", lambda: cp.export_session("s", tmp_path / "f").version),
        ("abcdef", lambda: cp.fork_session("s", "fork") and len(cp.load("fork", 1)["transcript"])),
    ):
        save_behind(writer, texts)
        assert read() == len(texts)


def test_session_is_not_completed_while_versions_are_not_durable(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer(flush_timeout=SHORT_TIMEOUT)
    with locked_sessions():
        save_behind(writer, "a")
        with pytest.raises(NotDurable):
            cp.finish_session("s", "completed", "done")
    assert Session.objects.get().status == "active"
    wait_long_for_database(writer)
    cp.finish_session("s", "completed", "done")
    assert (version_lengths(), Session.objects.get().status) == ([1], "completed")


@pytest.mark.parametrize("phase", ["run_terminal", "paused"])
def test_finish_and_pause_report_versions_that_are_not_durable(make_writer: MakeWriter, phase: str) -> None:
    writer = make_writer(flush_timeout=SHORT_TIMEOUT)
    with locked_sessions():
        save_behind(writer, "a")
        with pytest.raises(NotDurable) as caught:
            save_behind(writer, "ab", phase=phase)
        assert [each["phase"] for each in caught.value.unsaved] == ["turn", phase]
    wait_long_for_database(writer)
    assert save_behind(writer, "abc", phase=phase).durable is True
    assert version_lengths() == [1, 2, 3]


def test_close_of_the_checkpointer_writes_queued_versions(cp: SyncCheckpointer, make_writer: MakeWriter) -> None:
    writer = make_writer()
    with locked_sessions():
        save_behind(writer, "a")
        save_behind(writer, "ab")
    cp.close()

    assert (version_lengths(), writer.unsaved()) == ([1, 2], [])


def test_second_close_and_use_after_close(make_writer: MakeWriter) -> None:
    writer = make_writer()
    save_behind(writer, "a")
    for _ in range(2):
        writer.close()

    assert version_lengths() == [1]
    with pytest.raises(CheckpointerClosed):
        save_behind(writer, "ab")
