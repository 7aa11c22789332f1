"""Imports by several processes: all of it once, also after a worker or the parent is killed or interrupted."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction

from checkpoints import SyncCheckpointer
from checkpoints.importers import import_transcripts
from checkpoints.importers.find_and_read_transcript_files import SourceFile, find_source_files
from checkpoints.importers.import_changed_files import IncrementalFileImport
from checkpoints.importers.import_file_and_appended_lines import FileImport, ImportOptions
from checkpoints.importers.import_in_processes import import_file_group_in_transactions
from checkpoints.importers.imported_calls import ImportedCallLog
from checkpoints.importers.imported_session_and_run import SessionEnd
from checkpoints.importers.parallel_file_groups import (
    can_forked_processes_use_database,
    choose_number_of_workers,
    group_files_by_session_and_size,
    split_into_transactions,
)
from checkpoints.importers.session_writer import ImportWriter
from checkpoints.management.commands.import_transcripts import (
    DAMAGED_STATUS,
    INTERRUPTED_STATUS,
    REFUSED_STATUS,
)
from checkpoints.models import ImportedFile, Message, Session, ToolCall, Workspace
from tests.conftest import StartChild
from tests.integration.checkpoints.importers.import_helpers import (
    import_by_workers,
    run_import_command,
    run_import_command_on_two_processors,
    watch_with_workers,
)
from tests.integration.checkpoints.importers.transcript_writer import THEN, TranscriptWriter
from tests.support.exhaustive_mode import EXHAUSTIVE
from tests.support.processes import PATIENCE, database_url

#: Number of files, of which the first has many turns.
FILES = 30
#: Time at which the files have changed: their transcripts have ended.
LONG_AGO = 1_740_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(FILES):
        session = f"5e55a0a0-0000-4000-8000-{number:012}"
        writer = TranscriptWriter(folder / f"{session}.jsonl", prefix=f"f{number}-", sessionId=session)
        for turn in range(150 if number == 0 else 1):
            writer.user(f"Question {turn} of file {number}")
            writer.calls(f"call_{number}_{turn}", "Read", {"n": turn}, message=f"msg_{number}_{turn}")
            writer.result(f"call_{number}_{turn}", f"content {number}")
        os.utime(writer.path, (LONG_AGO, LONG_AGO))
    return folder


def read_content() -> tuple[object, ...]:
    return (
        sorted(Message.objects.values_list("message_id", "position", "chain")),
        sorted(ToolCall.objects.values_list("idempotency_key", "status", "result", "step")),
        sorted(Session.objects.values_list("session_id", "title", "status", "message_count", "latest_version")),
        sorted(ImportedFile.objects.values_list("path", "size", "sessions")),
    )


def import_alone(cp: SyncCheckpointer, folder: Path) -> tuple[dict[str, Any], tuple[object, ...]]:
    """Import a folder by one process, and remove what it wrote. Returns the report and the content."""
    report, content = import_transcripts(cp, folder).to_dict(), read_content()
    for row in Session.objects.all():
        cp.delete_session(row.session_id)
    ImportedFile.objects.all().delete()
    return report, content


def test_workers_import_what_one_process_imports(cp: SyncCheckpointer, folder: Path, start_child: StartChild) -> None:
    for number in (3, 17, 28):
        TranscriptWriter(folder / f"5e55a0a0-0000-4000-8000-{number:012}.jsonl").raw("{\n")
        (folder / f"empty-{number}.json").write_text("{}")
    report, content = import_alone(cp, folder)
    assert len(report["damaged"]) == len(report["empty"]) == 3
    told = start_child(import_by_workers, url=database_url(), path=str(folder)).result()
    assert told == report
    assert read_content() == content


def test_files_of_one_session_are_imported_in_their_order(
    cp: SyncCheckpointer, tmp_path: Path, start_child: StartChild
) -> None:
    folder = tmp_path / "streams"
    folder.mkdir()
    for number, size in enumerate((10, 2_000_000, 10, 1_500_000, 10)):
        stream = TranscriptWriter(folder / f"{number}-run.jsonl", prefix=f"r{number}-")
        stream.user(f"Part {number}")
        stream.says("x" * size, message=f"msg_{number}")
        TranscriptWriter(folder / f"{number}-other.jsonl", f"other-{number}", prefix=f"o{number}-").user("Hello")
    report, content = import_alone(cp, folder)
    assert start_child(import_by_workers, url=database_url(), path=str(folder)).result() == report
    assert read_content() == content


def test_files_of_spans_are_in_one_group_and_others_apart(tmp_path: Path) -> None:
    for number in range(45):
        (tmp_path / f"{number:02}.json").write_text('[{"role": "user", "content": "Hello"}]')
        (tmp_path / f"{number:02}-spans.json").write_text('{"resourceSpans": []}')
    groups = group_files_by_session_and_size(find_source_files(tmp_path))
    spans = [file.path.name for group in groups for file in group if "spans" in file.path.name]
    assert [len(group) for group in groups] == [45, 20, 20, 5]
    assert spans == [file.path.name for file in groups[0]] == sorted(spans)
    assert [len(part) for part in split_into_transactions(groups[0])] == [20, 20, 5]


def test_number_of_workers_is_that_of_the_processors_if_there_is_much_to_import(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "checkpoints.importers.parallel_file_groups.can_forked_processes_use_database", lambda using: True
    )
    small = [SourceFile(tmp_path / str(number), str(number), 100, 0) for number in range(60)]
    large = [SourceFile(tmp_path / str(number), str(number), 1024 * 1024, 0) for number in range(2)]
    numbers = {}
    for processors in (1, 3, 32):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, count=processors: set(range(count)))
        numbers[processors] = [choose_number_of_workers("default", files) for files in (small, large)]
    assert numbers == {1: [1, 1], 3: [3, 3], 32: [8, 8]}
    assert [choose_number_of_workers("default", files) for files in (small[:59], large[:1], [])] == [1, 1, 1]


@pytest.mark.django_db(transaction=True)
def test_process_inside_a_transaction_is_not_forked() -> None:
    can_outside = can_forked_processes_use_database("default")
    with transaction.atomic():
        assert not can_forked_processes_use_database("default")
    assert can_outside


def test_command_imports_by_as_many_processes_as_there_are_processors(
    cp: SyncCheckpointer, folder: Path, start_child: StartChild, tmp_path: Path
) -> None:
    for number in range(60):
        (folder / f"{number}.json").write_text('[{"role": "user", "content": "Hello"}]')
    pids = tmp_path / "pids"
    run = {"url": database_url(), "folder": str(folder), "pids": str(pids)}
    assert start_child(run_import_command_on_two_processors, **run).result() == [0, ""]
    assert (len(set(pids.read_text().split())), Session.objects.count()) == (2, FILES + 60)


def test_interrupted_command_says_how_to_go_on(
    cp: SyncCheckpointer, folder: Path, start_child: StartChild, tmp_path: Path
) -> None:
    for number in range(60):
        (folder / f"{number}.json").write_text('[{"role": "user", "content": "Hello"}]')
    run = {"url": database_url(), "folder": str(folder), "pids": str(tmp_path / "pids"), "interrupt": True}
    told = "Interrupted. What was imported stays; the same command imports the rest."
    assert start_child(run_import_command_on_two_processors, **run).result() == [INTERRUPTED_STATUS, told]
    call_command("import_transcripts", str(folder), stdout=StringIO())
    assert Session.objects.count() == FILES + 60


FAULTS = ("kill worker", "kill parent", "interrupt parent")
#: Statements of a worker before which a fault can happen: near the beginning, in the middle, near the end.
STATEMENTS = (2, 12, 30)


@pytest.mark.parametrize(
    ("fault", "statement"),
    [*product(FAULTS, STATEMENTS)]
    if EXHAUSTIVE
    else [*zip(FAULTS, STATEMENTS, strict=True), (FAULTS[1], STATEMENTS[0])],
)
def test_next_import_completes_what_a_fault_has_ended(
    cp: SyncCheckpointer, folder: Path, start_child: StartChild, tmp_path: Path, fault: str, statement: int
) -> None:
    _, content = import_alone(cp, folder)
    mark = tmp_path / "mark"
    child = start_child(
        import_by_workers, url=database_url(), path=str(folder), statement=statement, fault=fault, mark=str(mark)
    )
    if fault == "kill parent":
        assert child.died_by() == signal.SIGKILL
        _wait_for_end(int(mark.read_text()))
    elif fault == "interrupt parent":
        assert child.result() == {"interrupted": True}
    else:
        refused = child.result()["refused"]
        assert refused
        assert {each["why"] for each in refused} == {
            "the process that imported it has ended with status -9; import it again"
        }
        assert not ImportedFile.objects.filter(path__in=[each["path"] for each in refused]).exists()
    import_transcripts(cp, folder, skip_unchanged=True)
    assert read_content() == content


def _wait_for_end(pid: int) -> None:
    """Wait until a process that is no child has ended."""
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, "the worker goes on without its parent"
        time.sleep(0.05)


def test_files_of_one_transaction_are_written_by_as_many_statements_as_two_of_them(
    cp: SyncCheckpointer, folder: Path
) -> None:
    files, counts = find_source_files(folder)[1:13], list[int]()
    for group in (files[:2], files[2:]):
        written: list[str] = []

        def count_write(execute: Any, sql: str, params: Any, many: bool, context: Any, log: Any = written) -> Any:
            if not sql.startswith("SELECT"):
                log.append(sql)
            return execute(sql, params, many, context)

        with connections[cp.store.using].execute_wrapper(count_write):
            import_file_group_in_transactions(cp.store, ImportOptions(), group, lambda read: None)
        counts.append(len(written))
    assert counts[0] == counts[1]
    assert (Session.objects.count(), Message.objects.count(), ToolCall.objects.count()) == (12, 36, 12)


def test_session_that_two_files_of_one_transaction_have_gets_the_messages_of_both(
    cp: SyncCheckpointer, folder: Path
) -> None:
    for number in (1, 2):
        stream = TranscriptWriter(folder / f"{number}-run.jsonl", prefix=f"r{number}-", sessionId="both")
        stream.user(f"Part {number}")
        os.utime(stream.path, (LONG_AGO, LONG_AGO))
    files = [file for file in find_source_files(folder) if file.path.stem.endswith("-run")]
    reports = import_file_group_in_transactions(cp.store, ImportOptions(session_id="both"), files, lambda read: None)
    assert [report.refused for report in reports] == [[], []]
    loaded = cp.load_latest("both")
    assert loaded is not None
    assert [message["content"] for message in loaded["transcript"]] == ["Part 1", "Part 2"]


def test_file_that_cannot_be_written_takes_no_other_with_it(cp: SyncCheckpointer, folder: Path) -> None:
    files = find_source_files(folder)[1:5]
    cp.start_session(files[2].path.stem, "Mine")
    reports = import_file_group_in_transactions(cp.store, ImportOptions(), files, lambda read: None)
    assert [[refused.path for refused in report.refused] for report in reports] == [[], [], [str(files[2].path)], []]
    written = [[file.path.stem] if file is not files[2] else [] for file in files]
    assert [report.session_ids for report in reports] == written
    assert ImportedFile.objects.count() == 3


def _make_live(path: Path) -> None:
    """Rewrite a transcript so that its messages and its file are of this hour."""
    path.write_text(path.read_text().replace(f"{THEN:%Y-%m-%dT%H}", f"{datetime.now(UTC):%Y-%m-%dT%H}"))


@pytest.mark.parametrize("is_live", [False, True])
def test_error_of_one_file_takes_back_its_rows_and_no_other_file(
    cp: SyncCheckpointer, folder: Path, monkeypatch: pytest.MonkeyPatch, is_live: bool
) -> None:
    if is_live:  # its session is written by itself, before those of the others
        _make_live(find_source_files(folder)[2].path)
    files, finish, finished = (
        find_source_files(folder)[1:5],
        ImportWriter.update_session_and_close_calls_at_end,
        list[str](),
    )
    committed: list[str] = []

    def fail_once(self: ImportWriter, end: SessionEnd, calls: ImportedCallLog) -> None:
        finish(self, end, calls)
        finished.append(self.origin.session_id)
        if is_live:
            transaction.on_commit(partial(committed.append, self.origin.session_id), using=cp.store.using)
        if finished.count(files[1].path.stem) == 1 and self.origin.session_id == files[1].path.stem:
            raise ValueError("of this file")

    monkeypatch.setattr(ImportWriter, "update_session_and_close_calls_at_end", fail_once)
    reports = import_file_group_in_transactions(cp.store, ImportOptions(), files, lambda read: None)
    assert [report.new_sessions for report in reports] == [1, 1, 1, 1]
    assert (Session.objects.count(), Message.objects.count(), ToolCall.objects.count()) == (4, 12, 4)
    assert finished == [file.path.stem for file in (*files, files[1])]
    # What is to be done at the commit is not done for the rows that were taken back.
    assert committed.count(files[1].path.stem) == is_live


def test_sessions_of_file_that_is_refused_while_it_is_read_are_counted(cp: SyncCheckpointer, folder: Path) -> None:
    talks = folder / "talks.jsonl"
    talks.write_text('{"messages": [{"role": "user", "content": "Hello"}]}\n' * 2)
    os.utime(talks, (LONG_AGO, LONG_AGO))
    cp.start_session("talks/2", "Mine")
    files = find_source_files(folder)[-2:]
    other, refused = import_file_group_in_transactions(cp.store, ImportOptions(), files, lambda read: None)
    assert [each.path for each in refused.refused] == [str(talks)]
    assert (other.new_sessions, refused.new_sessions, Session.objects.count()) == (1, 1, 3)


def test_group_whose_connection_is_lost_is_imported_file_by_file(
    cp: SyncCheckpointer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, finish, lost = (
        find_source_files(folder)[1:5],
        IncrementalFileImport.flush_and_queue_imported_file_row,
        list[Path](),
    )

    def lose_connection_once(self: IncrementalFileImport, file_import: FileImport) -> None:
        if file_import.file == files[2] and not lost:
            lost.append(file_import.file.path)
            connections[cp.store.using].connection.close()
        finish(self, file_import)

    monkeypatch.setattr(IncrementalFileImport, "flush_and_queue_imported_file_row", lose_connection_once)
    reports = import_file_group_in_transactions(cp.store, ImportOptions(), files, lambda read: None)
    assert len(lost) == 1
    assert [(report.refused, report.sessions) for report in reports] == [([], 1)] * 4
    assert (Session.objects.count(), ImportedFile.objects.count()) == (4, 4)


def test_command_with_workers_has_the_same_exit_statuses(
    cp: SyncCheckpointer, folder: Path, start_child: StartChild
) -> None:
    run = ["--workers=2", str(folder)]
    status, text = start_child(run_import_command, url=database_url(), arguments=run).result()
    assert (status, text.splitlines()[0].partition(":")[0]) == (0, f"Read {FILES} files, {3 * FILES + 447} lines")
    with (folder / f"5e55a0a0-0000-4000-8000-{1:012}.jsonl").open("a") as file:
        file.write("{\n")
    (folder / "other.json").write_text('[{"role": "user", "content": "Hello"}]')
    status, text = start_child(run_import_command, url=database_url(), arguments=run).result()
    assert (status, Session.objects.count()) == (DAMAGED_STATUS, FILES + 1)
    assert f"{FILES - 1} unchanged files not read again." in text
    cp.start_session("mine", "Mine")
    (folder / "mine.json").write_text('[{"role": "user", "content": "Hello"}]')
    (folder / "third.json").write_text('[{"role": "user", "content": "Hello"}]')
    status, text = start_child(run_import_command, url=database_url(), arguments=run).result()
    assert (status, Session.objects.count()) == (REFUSED_STATUS, FILES + 3)
    assert f"Refused: {folder / 'mine.json'}: Nothing can be imported into session 'mine'" in text


def test_watch_begins_with_workers(workspace: Workspace, folder: Path, start_child: StartChild) -> None:
    assert start_child(watch_with_workers, url=database_url(), folder=str(folder)).result() == [
        FILES,
        FILES + 1,
        FILES + 41,
        1,
    ]


@pytest.mark.parametrize("number", ["0", "-1", "65", "two"])
def test_number_of_workers_has_limits(workspace: Workspace, folder: Path, number: str) -> None:
    with pytest.raises(CommandError, match="is no number from 1 to 64"):
        call_command("import_transcripts", f"--workers={number}", str(folder))
