"""An idle session is released by its live owner, if `idle_release_seconds` is set."""

import threading
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from checkpoints import SyncCheckpointer, SyncWriteBehind, ToolRegistry
from checkpoints.constants import LEASE_SECONDS
from checkpoints.exceptions import InvalidInput, NotOwner, ReleasedWhenIdle, SessionBusy
from checkpoints.models import AuditEvent, Run
from checkpoints.remote.remote_checkpointer_state import RemoteCheckpointerState, build_transcript_head
from checkpoints.sessions import heartbeat, take_and_release_ownership
from checkpoints.store.checkpointer_state import OwnedSession
from checkpoints.versions.save_cadence import Cadence
from tests.conftest import Open
from tests.integration.checkpoints.session_setups import call_statuses, conversation, start_session
from tests.support.processes import wait_until

#: Seconds after which a session that a test has made idle counts as idle.
IDLE = 1000.0


def make_idle(cp: SyncCheckpointer, session_id: str = "s") -> None:
    """Make a session look unused for a long time."""
    cp.store.get_owned_session(session_id).last_used -= 2 * IDLE


@pytest.fixture
def idle_cp(open_checkpointer: Open) -> SyncCheckpointer:
    return start_session(open_checkpointer(idle_release_seconds=IDLE))


def test_heartbeat_releases_idle_sessions(open_checkpointer: Open) -> None:
    first = start_session(open_checkpointer(idle_release_seconds=0.2))
    wait_until(lambda: Run.objects.get().status == "released")

    assert open_checkpointer().start_session("s").number == 2
    with pytest.raises(ReleasedWhenIdle, match="idle"):
        first.save_checkpoint("s", conversation("a"), None, 0)
    assert AuditEvent.objects.get(kind="run_released").actor == "run 1"


def test_heartbeat_leaves_sessions_of_a_server_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote = RemoteCheckpointerState("http://127.0.0.1:9", "token")
    head = build_transcript_head(0, b"", 0)
    run: Any = SimpleNamespace(pk=uuid4())
    remote.add_owned_session(OwnedSession(0, "s", run, 1, "", head))
    monkeypatch.setitem(heartbeat._threads, "of a server", threading.current_thread())
    monkeypatch.setattr(remote, "using", "of a server", raising=False)
    monkeypatch.setattr(remote, "remote_process", None, raising=False)

    assert (
        heartbeat._renew_leases_release_idle_and_get_pause(
            "of a server", {}, take_and_release_ownership.release_idle_sessions
        )
        == 0
    )


def test_idle_session_is_kept_without_the_option(cp: SyncCheckpointer) -> None:
    start_session(cp)
    make_idle(cp)

    assert take_and_release_ownership.release_idle_sessions(cp.store) == []
    assert LEASE_SECONDS < IDLE


def test_each_write_method_reports_the_idle_release(idle_cp: SyncCheckpointer) -> None:
    make_idle(idle_cp)
    assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == ["s"]

    registry = ToolRegistry(checkpointer=idle_cp, session_id="s")
    registry.tool(name="pay", side_effects={"mutate"})(lambda order: "paid")
    for write in (
        lambda: idle_cp.save_checkpoint("s", conversation("a"), None, 0),
        lambda: idle_cp.append_checkpoint("s", conversation("a"), expected_version=0),
        lambda: idle_cp.record_tool_call_issued("s", "call_1", "pay", {}, "key"),
        lambda: registry.dispatch("pay", {"order": 1}, "call_1"),
        lambda: idle_cp.finish_session("s", "completed"),
    ):
        with pytest.raises(ReleasedWhenIdle):
            write()
    assert idle_cp.resume("s").version == 0
    assert idle_cp.append_checkpoint("s", conversation("a"), expected_version=0) == 1


def test_write_that_had_started_is_refused_with_the_reason(idle_cp: SyncCheckpointer) -> None:
    held = idle_cp.store.get_owned_session("s")
    make_idle(idle_cp)
    take_and_release_ownership.release_idle_sessions(idle_cp.store)
    idle_cp.store._held["s"] = held  # as a thread has it that looked before the release

    with pytest.raises(ReleasedWhenIdle):
        idle_cp.save_checkpoint("s", conversation("a"), None, 0)


def test_used_session_is_kept(idle_cp: SyncCheckpointer) -> None:
    for use in (
        lambda: idle_cp.save_checkpoint("s", conversation("a"), None, 0),
        lambda: idle_cp.resume("s"),
        lambda: idle_cp.start_session("s"),
    ):
        make_idle(idle_cp)
        use()
        assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == []


@pytest.mark.parametrize("effect", ["mutate", "read"])
def test_session_of_a_running_call_is_not_idle(idle_cp: SyncCheckpointer, effect: str) -> None:
    inside, leave = threading.Event(), threading.Event()
    registry = ToolRegistry(checkpointer=idle_cp, session_id="s")

    @registry.tool(side_effects={effect})
    def look(order: int) -> str:
        inside.set()
        leave.wait(60)
        return "seen"

    def dispatch() -> None:
        registry.dispatch("look", {"order": 1}, "call_1")
        connection.close()

    thread = threading.Thread(target=dispatch)
    thread.start()
    inside.wait(60)
    make_idle(idle_cp)
    released = take_and_release_ownership.release_idle_sessions(idle_cp.store)
    leave.set()
    thread.join(60)

    assert released == []
    assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == []
    make_idle(idle_cp)
    assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == ["s"]


def test_call_of_the_log_without_a_result_keeps_the_session(idle_cp: SyncCheckpointer) -> None:
    idle_cp.record_tool_call_issued("s", "call_1", "pay", {}, "key")
    make_idle(idle_cp)

    assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == []
    assert call_statuses() == [("call_1", 1, "issued")]


def test_queued_version_keeps_the_session(idle_cp: SyncCheckpointer) -> None:
    with SyncWriteBehind(idle_cp, cadence=Cadence.every(n=100, seconds=1000)) as writer:
        ticket = writer.save_checkpoint("s", conversation("a"), None, 0)
        make_idle(idle_cp)
        assert take_and_release_ownership.release_idle_sessions(idle_cp.store) == []
    assert ticket.durable


def test_handle_of_a_released_session_reports_the_idle_release(open_checkpointer: Open) -> None:
    cp = open_checkpointer(idle_release_seconds=IDLE)
    with cp.session("s") as session:
        make_idle(cp)
        take_and_release_ownership.release_idle_sessions(cp.store)
        with pytest.raises(ReleasedWhenIdle):
            session.append(conversation("a"))
    with cp.session("s") as session:
        assert session.append(conversation("a")) == 1


def test_session_taken_by_another_is_not_released(idle_cp: SyncCheckpointer, open_checkpointer: Open) -> None:
    open_checkpointer().start_session("s", takeover=True)
    make_idle(idle_cp)
    take_and_release_ownership.release_idle_sessions(idle_cp.store)

    with pytest.raises(SessionBusy):
        idle_cp.start_session("s")
    assert list(Run.objects.order_by("number").values_list("status", flat=True)) == ["lost", "running"]


def test_released_error_is_a_not_owner_error() -> None:
    assert issubclass(ReleasedWhenIdle, NotOwner)


@pytest.mark.parametrize("seconds", [0, -1])
def test_idle_time_must_be_positive(open_checkpointer: Open, seconds: float) -> None:
    with pytest.raises(InvalidInput, match="idle_release_seconds"):
        open_checkpointer(idle_release_seconds=seconds)
