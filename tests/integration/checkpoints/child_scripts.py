"""Scripts without Django settings that run as child processes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import django.db
from django.core.management import call_command
from django.db.migrations.state import ModelState

from checkpoints import Checkpointer, SyncCheckpointer, check_pending_tool_calls, exceptions
from checkpoints.calls import registry_of_running_tools
from checkpoints.sessions.new_session_fields import NewSessionFields
from tests.integration.checkpoints import project_routers
from tests.support.processes import send_to_parent, wait_for_parent


def save_once(place: str, how: str, folder: str | None = None) -> dict[str, Any]:
    """Open a database in one of the documented ways, save a version, and return what is stored."""
    if folder is not None:
        os.chdir(folder)
    with SyncCheckpointer.open(place) if how == "open" else SyncCheckpointer(place) as cp:
        cp.start_session("s", "hello")
        cp.save_checkpoint("s", [{"a": 1}], {}, 0.5)
    return list_session_ids(place)


def save_once_async(place: str, how: str, folder: str | None = None) -> dict[str, Any]:
    if folder is not None:
        os.chdir(folder)

    async def main() -> None:
        async with Checkpointer.open(place) if how == "open" else Checkpointer(place) as cp:
            await cp.start_session("s", "hello")
            await cp.save_checkpoint("s", [{"a": 1}], {}, 0.5)
            assert await check_pending_tool_calls(cp, "s") == []

    asyncio.run(main())
    return list_session_ids(place)


def save_beside_routers(place: str, name: str) -> dict[str, Any]:
    """Open a database by path in a process with a router of its project, and save."""
    django.db.router.routers = [getattr(project_routers, name)()]
    return save_once(place, "path")


def list_session_ids(place: str) -> dict[str, Any]:
    cp = SyncCheckpointer(place)
    loaded = cp.load_latest("s") or {}
    return {key: loaded[key] for key in ("version", "transcript", "plan", "budget_spent_usd")}


def open_fresh_database(url: str, migrate: bool | None) -> str:
    """Open a fresh database and use it; return the name of the error, if any."""
    try:
        with SyncCheckpointer.open(url, migrate=migrate) as cp:
            cp.start_session("s")
    except exceptions.CheckpointsError as error:
        return type(error).__name__
    return "works"


def create_and_remove_tables(url: str) -> dict[str, Any]:
    """Create the tables, remove them, and create them again; return the models that were built most often, with the
    numbers of tables after each step.
    """
    built = Counter[str]()
    render = ModelState.render

    def count_and_render(state: ModelState, apps: Any) -> Any:
        built[state.name] += 1
        return render(state, apps)

    with SyncCheckpointer.open(url, migrate=False) as cp:
        numbers = []
        for target in ("0001", "zero", "0001"):
            built.clear()
            with patch.object(ModelState, "render", count_and_render):
                call_command("migrate", "checkpoints", target, database=cp.store.using, verbosity=0)
            names = django.db.connections[cp.store.using].introspection.table_names()
            numbers.append(len([name for name in names if name.startswith("checkpoints_")]))
    return {"times built": max(built.values()), "tables": numbers}


def open_and_save_when_told(url: str, session_id: str) -> int:
    """Create and use a new database when the parent says so, together with other processes."""
    send_to_parent("ready")
    wait_for_parent()
    with SyncCheckpointer.open(url, migrate=True) as cp:
        cp.start_session(session_id)
        return cp.save_checkpoint(session_id, [{"a": 1}], None, 0)


def use_two_databases(first: str, second: str) -> list[Any]:
    """Use two databases in one script; each has its own sessions."""
    for place, text in ((first, "one"), (second, "two")):
        with SyncCheckpointer(place) as cp:
            cp.start_session("s")
            cp.save_checkpoint("s", [{"text": text}], None, 0)
    return [(SyncCheckpointer(place).load_latest("s") or {})["transcript"] for place in (first, second, first)]


def write_in_forked_processes(url: str) -> list[int]:
    """Use the database, then fork three processes that open it, as a server that loads its program first; return
    their exit codes: the number of versions that they read back wrongly or not at all.
    """
    parent = SyncCheckpointer(url, migrate=True)
    children = []
    parent.start_session("parent")
    for number in range(3):
        if (child := os.fork()) == 0:
            failures = 100
            try:
                failures = _count_versions_read_back_wrongly(SyncCheckpointer(url), f"child {number}")
            finally:
                os._exit(failures)
        children.append(child)
    parent.release_session("parent")
    failures = _count_versions_read_back_wrongly(parent, "parent")
    return [failures, *(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)]


def _count_versions_read_back_wrongly(cp: SyncCheckpointer, session_id: str) -> int:
    failures = 0
    for number in range(5):
        try:
            with cp.session(session_id) as session:
                session.append([{"role": "user", "content": f"{session_id} {number}"}])
            last = (cp.load_latest(session_id) or {"transcript": [{}]})["transcript"][-1]
            failures += last.get("content") != f"{session_id} {number}"
        except Exception:
            failures += 1
    return failures


def write_after_fork(place: str) -> str:
    """Write in a forked child, which must not use the ownership of its parent."""
    cp = SyncCheckpointer(place)
    cp.start_session("s")
    from checkpoints.framework_states import (
        message_list_without_lease,  # its models need the settings of the checkpointer
    )

    child = os.fork()
    if child == 0:
        writes: list[Callable[[], object]] = [
            lambda: cp.save_checkpoint("s", [], None, 0),
            lambda: cp.start_session("of the child"),
            lambda: cp.resume("s"),
            lambda: cp.append_checkpoint("s", [{"role": "user"}], expected_version=0),
            lambda: message_list_without_lease.remove_all_messages(cp.store, "s", NewSessionFields()),
        ]
        refused = 0
        for write in writes:
            with suppress(exceptions.OpenedInAnotherProcess):
                write()
                continue
            refused += 1
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    cp.save_checkpoint("s", [], None, 0)
    assert [row["session_id"] for row in cp.list_sessions()] == ["s"]
    return str(os.waitstatus_to_exitcode(status))


def append_to_known_session_after_fork(place: str) -> str:
    """Append in a forked child to a session that its parent has written to, without owning it."""
    cp = SyncCheckpointer(place)
    from checkpoints.framework_states import (
        message_list_without_lease,  # its models need the settings of the checkpointer
    )
    from checkpoints.framework_states.write_transcript_version import VersionContent

    def append(text: str) -> None:
        content = VersionContent(None, added=[{"role": "user", "content": text}])
        message_list_without_lease.write_next_version_built_by_callback(
            cp.store, "list", NewSessionFields("List"), lambda *_: content, is_repeatable=True
        )

    append("first")
    child = os.fork()
    if child == 0:
        try:
            append("of the child")
        except exceptions.OpenedInAnotherProcess:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    append("second")
    assert os.waitstatus_to_exitcode(status) == 0
    return ", ".join(message["content"] for message in (cp.load_latest("list") or {})["transcript"])


def look_for_tool_of_parent_after_fork() -> int:
    """Return 1 if a forked child believes that the tool runs in it which runs in its parent."""
    place = registry_of_running_tools.CallPlace("run", "s", "pay", "call_1", None, None)
    registry_of_running_tools.ToolRun(place, print).increment_running_count()
    child = os.fork()
    if child == 0:
        os._exit(registry_of_running_tools.is_tool_running(place))
    _, status = os.waitpid(child, 0)
    assert registry_of_running_tools.is_tool_running(place)
    return os.waitstatus_to_exitcode(status)


def beat_in_child_forked_while_locked(place: str) -> int:
    """Return 0 if the heartbeat works in a child that was forked while another thread held its locks."""
    cp = SyncCheckpointer(place)
    from checkpoints.sessions import heartbeat  # its models need the settings of the checkpointer

    cp.start_session("s")
    locked, forked = threading.Event(), threading.Event()

    def hold_locks() -> None:
        heartbeat._threads_lock.acquire()  # in the order of the heartbeat, which may run now
        with cp.store._lock:
            locked.set()
            forked.wait(0.2)
            heartbeat._threads_lock.release()
            forked.wait(10)

    holder = threading.Thread(target=hold_locks)
    holder.start()
    locked.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(int(heartbeat._renew_leases_release_idle_and_get_pause(cp.store.using, {}, lambda _: None)))
    forked.set()
    holder.join()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
