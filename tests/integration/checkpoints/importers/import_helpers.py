"""Functions for child processes that import transcripts: killed ones and concurrent ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.importers.watch_folder import FolderWatch
from tests.support.processes import die, send_to_parent, wait_for_parent


def import_and_die(url: str, path: str, statement: int) -> str:
    """Import, and die before the given statement; return "over" if the import has fewer statements."""
    from django.db import connections

    checkpointer = SyncCheckpointer.open(url)
    numbers = count(1)

    def counted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if next(numbers) == statement:
            die()
        return execute(sql, params, many, context)

    with connections[checkpointer.store.using].execute_wrapper(counted):
        import_transcripts(checkpointer, path)
    return "over"


def import_at_once(url: str, path: str) -> str:
    """Import a file when the parent says so."""
    checkpointer = SyncCheckpointer.open(url)
    send_to_parent("ready")
    wait_for_parent()
    while True:
        try:
            import_transcripts(checkpointer, path)
        except ImportOvertaken:
            continue
        return "done"


def import_by_workers(url: str, path: str, statement: int = 0, fault: str = "", mark: str = "") -> dict[str, Any]:
    """Import a folder by two workers; return the report.

    Before the given statement, the first worker that comes to it dies, or kills or interrupts its parent.
    """
    from django.db import connections

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background ignores it
    checkpointer = SyncCheckpointer.open(url)
    parent, numbers = os.getpid(), count(1)
    faults = {
        "kill worker": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "kill parent": lambda: os.kill(parent, signal.SIGKILL),
        "interrupt parent": lambda: os.kill(parent, signal.SIGINT),
    }

    def counted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if os.getpid() != parent and next(numbers) == statement:
            with suppress(FileExistsError), Path(mark).open("x") as file:
                file.write(str(os.getpid()))
                file.flush()
                faults[fault]()
        return execute(sql, params, many, context)

    with connections[checkpointer.store.using].execute_wrapper(counted):
        try:
            return import_transcripts(checkpointer, path, workers=2).to_dict()
        except KeyboardInterrupt:
            return {"interrupted": multiprocessing.active_children() == []}


def run_import_command(url: str, arguments: list[str]) -> tuple[int, str]:
    """Run the command on a database; return its exit status and its output."""
    using, said = SyncCheckpointer.open(url).store.using, StringIO()
    try:
        call_command("import_transcripts", *arguments, f"--database={using}", stdout=said)
    except CommandError as error:
        return error.returncode, said.getvalue()
    return 0, said.getvalue()


def run_import_command_on_two_processors(url: str, folder: str, pids: str, interrupt: bool = False) -> tuple[int, str]:
    """Run the command without a number of workers, as if there were two processors; return its status and message.

    The process ids of its workers are appended to the file `pids`. With `interrupt`, it gets Ctrl+C from one of them.
    """
    from django.db import connections

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.sched_getaffinity = lambda pid: {0, 1}
    using, parent = SyncCheckpointer.open(url).store.using, os.getpid()

    def noted(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if os.getpid() != parent:
            with Path(pids).open("a") as file:
                file.write(f"{os.getpid()}\n")
            if interrupt:
                os.kill(parent, signal.SIGINT)
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(noted):
        try:
            call_command("import_transcripts", folder, f"--database={using}", stdout=StringIO())
        except CommandError as error:
            return error.returncode, str(error)
    return 0, ""


def watch_with_workers(url: str, folder: str) -> list[int]:
    """Watch a folder by two workers: what is there, then one new file, then many, of which one grows afterwards.

    Return the numbers of sessions after each step, and the number of messages that the growth added.
    """
    watch = FolderWatch(SyncCheckpointer.open(url), folder, workers=2)
    watch.import_existing()
    sessions = [watch.report.sessions]
    Path(folder, "later.json").write_text('[{"role": "user", "content": "Later"}]')
    watch.import_changes()
    sessions.append(watch.report.sessions)
    line = '{"role": "user", "content": "Hello"}\n'
    for number in range(40):
        Path(folder, f"many-{number}.jsonl").write_text(line)
    watch.import_changes()
    sessions.append(watch.report.sessions)
    messages = watch.report.new_messages
    with Path(folder, "many-7.jsonl").open("a") as file:
        file.write('{"role": "assistant", "content": "Good morning"}\n')
    watch.import_changes()
    return [*sessions, watch.report.new_messages - messages]
