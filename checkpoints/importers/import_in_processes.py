"""Import of many files by several processes: each file is read and written by one of them.

A worker imports several small files in one transaction, and a large file by itself. It reports after each group, so
that neither it nor the parent holds more than a group. A worker that is killed leaves nothing of its transaction; its
files are reported as refused, and the next import reads them again. The report is the one of an import by one process:
its lists have the order of the files.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from django.db import connections, transaction

from checkpoints.db.connection import has_pool
from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import StorageBusy, StorageError
from checkpoints.importers.claude_code.transcript_reader import is_internal_subagent_file
from checkpoints.importers.find_and_read_transcript_files import SourceFile
from checkpoints.importers.import_changed_files import (
    UNEXPECTED_CONTENT,
    IncrementalFileImport,
    save_imported_file_rows,
)
from checkpoints.importers.import_errors import ImportOvertaken
from checkpoints.importers.import_file_and_appended_lines import FileImport, ImportOptions
from checkpoints.importers.import_report import (
    LISTS,
    MAX_DAMAGED_KEPT,
    ImportProgress,
    ImportReport,
    Progress,
    RefusedFile,
)
from checkpoints.importers.new_session_batch import NewSessionBatch
from checkpoints.importers.parallel_file_groups import group_files_by_session_and_size, split_into_transactions
from checkpoints.models import ImportedFile
from checkpoints.store.database_client_state import Store

#: Number of attempts to import a file that another process is in the way of.
_ATTEMPTS: Final = 5
#: Seconds between two looks of a waiting worker whether its parent is alive.
_PARENT_POLL_SECONDS: Final = 0.5
_OBSTACLES: Final = (ImportOvertaken, StorageBusy)
#: Number of new objects after which a worker looks for garbage. Python's own number is 700, which one line can exceed.
_GARBAGE_THRESHOLD: Final = 10_000


@dataclass
class _WorkerProcess:
    """Process of a worker as its parent sees it: the files that it imports now, and how many bytes of them it read."""

    process: BaseProcess
    link: Connection
    files: Sequence[SourceFile] = ()
    read: int = 0


def close_connections_and_import_in_processes(
    store: Store,
    options: ImportOptions,
    report: ImportReport,
    files: Sequence[SourceFile],
    progress: Progress | None,
    *,
    workers: int,
) -> None:
    """Import files by several processes of this machine, which end with this one.

    Args:
        store: State of the client. Its connections are closed, because processes cannot share them.
        options: Wishes of whoever imports.
        report: Report to which the counts of all workers are added.
        files: Files to import.
        progress: Function that is called with an `ImportProgress` now and then.
        workers: Largest number of processes.
    """
    for each in connections.all(initialized_only=True):
        each.close()
        if has_pool(each):
            each.close_pool()  # type: ignore[attr-defined]
    groups = deque(group_files_by_session_and_size(files))
    running: list[_WorkerProcess] = []
    merged = _MergedReport(report, files)
    try:
        running.extend(_start_worker(store, options) for _ in range(min(workers, len(groups))))
        _GroupDistributor(merged, files, groups, progress).distribute_groups_to_workers(running)
    finally:
        merged.append_sorted_lists_to_report()
        for worker in running:
            if worker.files:
                worker.process.terminate()
            worker.link.close()
        for worker in running:
            worker.process.join()


class _MergedReport:
    """Report about all files: counts are added as they come, lists at the end in the order of the files."""

    def __init__(self, report: ImportReport, files: Sequence[SourceFile]) -> None:
        self.report = report
        self._positions = {file.path: position for position, file in enumerate(files)}
        self._lists: defaultdict[str, list[tuple[int, Any]]] = defaultdict(list)

    def add_file_report(self, file: SourceFile, report: ImportReport) -> None:
        """Add the counts of the report about one file, and keep its lists."""
        position = self._positions[file.path]
        for name in LISTS:
            self._lists[name] += [(position, item) for item in getattr(report, name)]
            setattr(report, name, [])
        self.report.merge(report)
        if len(self._lists["damaged"]) > 2 * MAX_DAMAGED_KEPT:
            self._lists["damaged"] = self._sort_list_by_file_position("damaged")[:MAX_DAMAGED_KEPT]

    def append_sorted_lists_to_report(self) -> None:
        """Add the lists of all files to the report."""
        lists = {name: [item for _, item in self._sort_list_by_file_position(name)] for name in self._lists}
        self.report.merge(ImportReport(**lists))  # type: ignore[arg-type]

    def _sort_list_by_file_position(self, name: str) -> list[tuple[int, Any]]:
        return sorted(self._lists[name], key=lambda pair: pair[0])


class _GroupDistributor:
    """Distribution of groups of files to workers, and collection of their reports."""

    def __init__(
        self,
        merged: _MergedReport,
        files: Sequence[SourceFile],
        groups: deque[list[SourceFile]],
        progress: Progress | None,
    ) -> None:
        self._merged, self._groups, self._progress = merged, groups, progress
        self._count, self._total = len(files), sum(file.size for file in files)
        self._done_files = self._done_bytes = 0

    def distribute_groups_to_workers(self, running: Sequence[_WorkerProcess]) -> None:
        """Give groups to workers until none is left; report the files of workers that have died."""
        for worker in running:
            self._send_next_group_to_worker(worker)
        while busy := [worker for worker in running if worker.files]:
            ready = connection.wait([worker.link for worker in busy])
            for worker in busy:
                if worker.link in ready:
                    self._receive_and_handle_worker_message(worker, busy)
        while self._groups:
            self._report_files_as_refused(self._groups.popleft(), "all processes of the import have ended before it")

    def _send_next_group_to_worker(self, worker: _WorkerProcess) -> None:
        worker.files, worker.read = (self._groups.popleft() if self._groups else ()), 0
        if worker.files:
            try:
                worker.link.send(worker.files)
            except OSError:  # it has died; the end of its messages says so
                return

    def _receive_and_handle_worker_message(self, worker: _WorkerProcess, busy: Sequence[_WorkerProcess]) -> None:
        path = worker.files[0].path
        try:
            message = worker.link.recv()
        except (EOFError, OSError):
            worker.process.join()
            why = f"the process that imported it has ended with status {worker.process.exitcode}; import it again"
            self._report_files_as_refused(worker.files, why)
            worker.files = ()
            return
        if isinstance(message, int):
            worker.read = message
        else:
            for file, report in zip(worker.files, message, strict=True):
                self._merged.add_file_report(file, report)
            self._count_files_as_done(worker.files)
            self._send_next_group_to_worker(worker)
        if self._progress is not None:
            read = min(self._done_bytes + sum(each.read for each in busy), self._total)
            number = min(self._done_files + 1, self._count)
            self._progress(ImportProgress(path, number, self._count, read, self._total, self._merged.report))

    def _report_files_as_refused(self, files: Sequence[SourceFile], why: str) -> None:
        for file in files:
            self._merged.add_file_report(
                file, ImportReport(refused=[RefusedFile(file.path_text, why, is_temporary=True)])
            )
        self._count_files_as_done(files)

    def _count_files_as_done(self, files: Sequence[SourceFile]) -> None:
        self._done_files += len(files)
        self._done_bytes += sum(file.size for file in files)


# workers


def _start_worker(store: Store, options: ImportOptions) -> _WorkerProcess:
    context = get_context("fork")
    link, other = context.Pipe()
    process = context.Process(
        target=_run_worker, args=(other, link, store.using, store.workspace, options, os.getpid()), daemon=True
    )
    process.start()
    other.close()
    return _WorkerProcess(process, link)


def _run_worker(
    link: Connection, parents_link: Connection, using: str, workspace: str, options: ImportOptions, parent: int
) -> None:
    """Import the groups of files that the parent sends, until it ends or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parents_link.close()
    gc.freeze()  # the modules, which the parent has loaded, are no garbage
    gc.set_threshold(_GARBAGE_THRESHOLD)
    store = Store(using, workspace)
    try:
        while True:
            while not link.poll(_PARENT_POLL_SECONDS):
                if os.getppid() != parent:
                    return
            files = link.recv()
            link.send(import_file_group_in_transactions(store, options, files, link.send))
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the parent has ended
        return
    finally:
        connections.close_all()


def import_file_group_in_transactions(
    store: Store, options: ImportOptions, files: Sequence[SourceFile], on_read: Callable[[int], Any]
) -> list[ImportReport]:
    """Import files in their order, small ones in common transactions.

    A file that this does not work for is imported by itself, and stops no other.

    Args:
        store: State of the client.
        options: Wishes of whoever imports.
        files: Files to import.
        on_read: Function that is called now and then with the number of bytes read of all files.

    Returns:
        The report about each file.
    """
    reports: list[ImportReport] = []
    for part in split_into_transactions(files):
        read = sum(file.size for file in files[: len(reports)])
        if read:
            on_read(read)
        together: dict[int, ImportReport] = {}
        if len(part) > 1:
            with suppress(*UNEXPECTED_CONTENT):
                together = _import_files_in_one_transaction(store, options, part)
        for number, file in enumerate(part):
            reports.append(
                together.get(number) or _import_single_file_with_retries(store, options, file, on_read, read)
            )
    return reports


def _import_files_in_one_transaction(
    store: Store, options: ImportOptions, files: Sequence[SourceFile]
) -> dict[int, ImportReport]:
    """Import files in one transaction, each or nothing of it. Returns the reports by the number of the file.

    What is missing in them was not imported.
    """
    opened: dict[int, tuple[IncrementalFileImport, FileImport]] = {}
    batch = NewSessionBatch(store)
    for number, file in enumerate(files):
        incremental_import = IncrementalFileImport(store, options, ImportReport(), batch=batch)
        if not is_internal_subagent_file(file.path):
            with suppress(*UNEXPECTED_CONTENT), batch.collect_file_sessions_or_roll_back(number):
                opened[number] = incremental_import, incremental_import.read_into_file_import(file)
    reports: dict[int, ImportReport] = {}
    rows: list[ImportedFile] = []
    with database_operation(store.using), transaction.atomic(using=store.using):
        for number, (incremental_import, file_import) in opened.items():
            try:
                with batch.collect_file_sessions_or_roll_back(number):
                    incremental_import.flush_and_queue_imported_file_row(file_import)
            except UNEXPECTED_CONTENT:
                if transaction.get_rollback(using=store.using):
                    raise
            else:
                rows += incremental_import.take_queued_imported_file_rows()
                reports[number] = incremental_import.report
        batch.insert_sessions()
        save_imported_file_rows(store, rows)
    return reports


def _import_single_file_with_retries(
    store: Store, options: ImportOptions, file: SourceFile, on_read: Callable[[int], Any], read_before: int
) -> ImportReport:
    """Import one file, again if another process is in the way. `read_before` is the number of bytes read before it."""
    refused = ImportReport()
    for _ in range(_ATTEMPTS):
        incremental_import = IncrementalFileImport(store, options, ImportReport(), obstacles=_OBSTACLES)
        try:
            incremental_import.import_file_or_report_refusal(
                file, lambda offset: on_read(read_before + offset), is_single=False
            )
        except _OBSTACLES as error:
            refused.refused = [RefusedFile(file.path_text, str(error), is_temporary=True)]
        else:
            with suppress(StorageError):  # then the file is read again next time, which changes nothing
                incremental_import.save_queued_imported_file_rows()
            return incremental_import.report
    return refused
