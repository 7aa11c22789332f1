"""Import of transcripts of any known format: a file, a folder, or values from memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.db.database_operation import database_operation
from checkpoints.exceptions import CheckpointsError, InvalidInput, StorageError
from checkpoints.formats.canonical import parse_json, to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.importers import detect_format
from checkpoints.importers.claude_code.transcript_reader import is_internal_subagent_file
from checkpoints.importers.import_errors import EncodingRefused, FormatRefused, ImportOvertaken, NothingToImport
from checkpoints.importers.import_report import ImportProgress, ImportReport, Progress, RefusedFile
from checkpoints.importers.imported_session_builder import ImportContext, TranscriptFormat, TranscriptReader
from checkpoints.importers.new_session_batch import NewSessionBatch
from checkpoints.importers.parallel_file_groups import can_fork, choose_number_of_workers
from checkpoints.importers.price_table import PriceTable
from checkpoints.importers.session_writer import ImportWriter
from checkpoints.importers.transcript_source_files import (
    FEW_SAMPLE_VALUES,
    FileReader,
    SourceFile,
    build_refused_folder,
    find_reason_to_convert,
    find_source_files,
    read_sample,
)
from checkpoints.models import ImportedFile, Session
from checkpoints.store.client_state import Store

#: Number of bytes between two progress reports.
_PROGRESS_STEP_BYTES = 256 * 1024
_CHUNK_SIZE = 500
#: Number of files that are remembered by one statement.
_REMEMBERED_FILES = 20
#: Errors after which the same file can be imported later.
TEMPORARY_ERRORS = (ImportOvertaken, StorageError)
#: Errors of one file that do not stop a folder; the last ones are of content that no reader expects.
UNEXPECTED_CONTENT = (
    CheckpointsError,
    OSError,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True)
class ImportOptions:
    """Wishes of whoever imports. `format` is empty if it is to be detected; the other texts may be empty too."""

    format: str = ""
    session_id: str = ""
    agent: str = ""
    imported_by: str = ""
    prices: PriceTable | None = None


def import_transcripts(
    checkpointer: SyncCheckpointer,
    source: str | Path | Sequence[dict[str, Any]],
    *,
    format: str = "",
    session_id: str | None = None,
    agent: str = "",
    imported_by: str = "",
    prices: PriceTable | None = None,
    skip_unchanged: bool = False,
    progress: Progress | None = None,
    workers: int | None = 1,
) -> ImportReport:
    """Import transcripts of other programs as sessions.

    What an earlier import wrote is left alone, so an import that was interrupted is simply repeated. In a folder, a
    file that is refused is reported and does not stop the others.

    Args:
        checkpointer: Client of the workspace to import into.
        source: Path of a file or folder, or the values that a file would have.
        format: Name of the format. Empty: detected by the content of each file; values from memory need it.
        session_id: Identifier of the session, for one file or values from memory. None: the transcript's own, or the
            name of the file.
        agent: Name of the agent, for lists and filters. Empty: that of the format.
        imported_by: Name of whoever imports, for the history of the sessions.
        prices: Price table for transcripts that state no costs.
        skip_unchanged: Whether files that have not changed since their last import are left out without reading them.
        progress: Function that is called with an `ImportProgress` now and then.
        workers: Number of processes that import the files of a folder, which are forked from this one. None: one for
            each processor that this process may use, at most 8, if there is enough to import. A file that another
            import or a run is in the way of is then reported and stops no other. A process that has other threads
            should not be forked. One process imports into a database that is in memory.

    Returns:
        Counts of what was read and added, and what could not be read.

    Raises:
        NothingToImport: There is no transcript of a known format.
        FormatRefused: The one file is not of the given format.
        ImportRefused: The session of the one file cannot be written to.
        ImportOvertaken: Another import or run has written to a session meanwhile.
        InvalidInput: `session_id` or `format` is missing for values from memory, or `session_id` is given for a folder.
    """
    options = ImportOptions(format, session_id or "", agent, imported_by, prices)
    report = ImportReport()
    if not isinstance(source, str | Path):
        _import_values(checkpointer.store, source, options, report)
        return report
    path = Path(source).expanduser()
    unreadable: list[OSError] = []
    files = find_source_files(path, unreadable)
    report.refused += map(build_refused_folder, unreadable)
    if session_id is not None and not path.is_file():
        raise InvalidInput("A session_id names one file; a folder's sessions are called like its files.")
    FolderImport(checkpointer.store, options, report).import_files(
        path, files, progress, skip_unchanged=skip_unchanged, workers=workers
    )
    return report


def _import_values(store: Store, values: Iterable[Any], options: ImportOptions, report: ImportReport) -> None:
    if not options.session_id or not options.format:
        raise InvalidInput("Messages from memory need a session_id and a format.")
    context = _build_context(store, options, report, detect_format.get_format(options.format), None, options.session_id)
    reader = context.format.open_reader(context)
    for number, value in enumerate(values, 1):
        _add_value_or_report_damage(reader, context, number, value)
    reader.finish()


def _build_context(
    store: Store,
    options: ImportOptions,
    report: ImportReport,
    chosen: TranscriptFormat,
    file: SourceFile | None,
    name: str,
    batch: NewSessionBatch | None = None,
) -> ImportContext:
    now = clock.now()
    return ImportContext(
        store=store,
        report=report,
        format=chosen,
        path=None if file is None else file.path,
        name=name,
        modified_at=now if file is None else file.modified_at,
        session_id=options.session_id,
        agent=options.agent,
        live=file is not None and file.is_live(now),
        imported_by=options.imported_by,
        prices=options.prices,
        open_writer=partial(ImportWriter, batch=batch),
    )


def _add_value_or_report_damage(reader: TranscriptReader, context: ImportContext, number: int, value: Any) -> None:
    """Read a value; one that cannot be stored is reported."""
    try:
        reader.add_value(number, value)
    except InvalidInput as error:
        text = json.dumps(value, ensure_ascii=False, default=str)
        context.report.add_damaged_place(context.path or Path("messages"), number, error.detail, text)


class FileImport:
    """Import of one file, which can go on when lines have been appended to it."""

    def __init__(
        self,
        store: Store,
        options: ImportOptions,
        report: ImportReport,
        file: SourceFile,
        batch: NewSessionBatch | None = None,
    ) -> None:
        self.file, self._report = file, report
        self.session_ids: list[str] = []
        #: Whether nothing of what was read last is a message.
        self.is_empty = False
        self._known_sessions = self._known_messages = 0
        chosen = _choose_format(file, options)
        self.format = chosen
        self._context = _build_context(store, options, report, chosen, file, file.relative, batch)
        self.is_live = self._context.live
        self._values = FileReader(file, report, live=self.is_live)
        self._reader = chosen.open_reader(self._context)

    @property
    def offset(self) -> int:
        return self._values.offset

    def import_appended_values(self, on_read: Callable[[int], None] | None = None) -> list[str]:
        """Import what the file has beyond what was read. Returns the ids of its sessions."""
        self.read_appended_values(on_read)
        return self.finish()

    def read_appended_values(self, on_read: Callable[[int], None] | None = None) -> None:
        """Read what the file has beyond what was read. Of a small file nothing is written before `finish`."""
        self._values.file = self.file
        self._known_sessions, self._known_messages = len(self._report.session_ids), self._report.messages
        reported = self._values.offset
        for value in self._values.iterate_values():
            _add_value_or_report_damage(self._reader, self._context, value.number, value.value)
            if on_read is not None and self._values.offset - reported >= _PROGRESS_STEP_BYTES:
                reported = self._values.offset
                on_read(reported)

    def finish(self) -> list[str]:
        """Write what was read. Returns the ids of the sessions of the file."""
        self._reader.finish()
        self.file.document = None
        self.is_empty = self._report.messages == self._known_messages
        self.session_ids += self._report.session_ids[self._known_sessions :]
        return self.session_ids


def _choose_format(file: SourceFile, options: ImportOptions) -> TranscriptFormat:
    if not options.format:
        few_values = read_sample(file, FEW_SAMPLE_VALUES)
        _require_readable_encoding(file)
        certain = detect_format.find_certain_format(few_values) if len(few_values) >= FEW_SAMPLE_VALUES else None
        if certain is not None:
            return certain
    values = read_sample(file)
    _require_readable_encoding(file)
    if options.format:
        chosen = detect_format.get_format(options.format)
        detect_format.require_format(file.path, values, chosen)
        return chosen
    detected = detect_format.detect_format(values)
    if detected is None:
        why = "most of its entries are of no known format" if values else "it has no JSON objects"
        raise FormatRefused(file.path, why)
    return detected


def _require_readable_encoding(file: SourceFile) -> None:
    """Raise `EncodingRefused` for a file of lines that has to be converted before it can be read."""
    if why := find_reason_to_convert(file):
        raise EncodingRefused(file.path, why)


class FolderImport:
    """Import of many files, with what is known about their last import."""

    def __init__(
        self,
        store: Store,
        options: ImportOptions,
        report: ImportReport,
        *,
        obstacles: tuple[type[CheckpointsError], ...] = (ImportOvertaken,),
        batch: NewSessionBatch | None = None,
    ) -> None:
        """Create the import; `obstacles` are errors that are raised although they are of one file of many.

        If there is a `batch`, new sessions are added to it.
        """
        self._store, self._options, self.report = store, options, report
        self._obstacles, self._batch = obstacles, batch
        #: Files that were read and are not yet remembered.
        self._read: list[ImportedFile] = []

    def import_files(
        self,
        path: Path,
        files: Sequence[SourceFile],
        progress: Progress | None,
        *,
        skip_unchanged: bool,
        workers: int | None = 1,
    ) -> None:
        """Import the files, by several processes if there are several; raises what refuses the only one."""
        unchanged = self._list_unchanged_files(files) if skip_unchanged else set[Path]()
        self.report.unchanged = len(unchanged)
        changed = [file for file in files if file.path not in unchanged]
        self.import_changed_files(changed, progress, is_single=path.is_file(), workers=workers)
        if not (self.report.sessions or self.report.refused or self.report.unchanged or self.report.files):
            raise NothingToImport(path, "no file in it is a transcript of a known format")

    def import_changed_files(
        self, changed: Sequence[SourceFile], progress: Progress | None, *, is_single: bool, workers: int | None
    ) -> None:
        """Import files, by several processes if there are several; raises what refuses the only one."""
        using = self._store.using
        number = choose_number_of_workers(using, changed) if workers is None else workers
        try:
            if number > 1 and len(changed) > 1 and can_fork(using):
                from checkpoints.importers.import_in_processes import import_in_processes  # it uses this module

                import_in_processes(self._store, self._options, self.report, changed, progress, workers=number)
            else:
                self._import_one_after_the_other(changed, progress, is_single=is_single)
        finally:
            self.save_imported_files()

    def _import_one_after_the_other(
        self, changed: Sequence[SourceFile], progress: Progress | None, *, is_single: bool
    ) -> None:
        total, read = sum(file.size for file in changed), 0
        for number, file in enumerate(changed, 1):

            def report_progress(offset: int, file: SourceFile = file, number: int = number, read: int = read) -> None:
                if progress is not None:
                    position = min(read + offset, total)
                    progress(ImportProgress(file.path, number, len(changed), position, total, self.report))

            self.import_or_report(file, report_progress, is_single=is_single)
            if len(self._read) >= _REMEMBERED_FILES:
                self.save_imported_files()
            read += file.size
            report_progress(0, read=read)

    def import_or_report(self, file: SourceFile, on_read: Callable[[int], None], *, is_single: bool) -> None:
        """Import one file; raise what refuses it if it is the only one, else report it."""
        try:
            if is_single or not is_internal_subagent_file(file.path):
                self.import_file(file, on_read)
                return
            self.report.helpers.append(file.path_text)
        except FormatRefused as error:
            if is_single:
                raise
            if self._options.format or isinstance(error, EncodingRefused):
                self.report.refused.append(RefusedFile(file.path_text, f"{error.why}. {error.hint}"))
                return
            self.report.empty.append(file.path_text)
        except UNEXPECTED_CONTENT as error:
            if is_single or isinstance(error, self._obstacles):
                raise
            is_temporary = isinstance(error, TEMPORARY_ERRORS)
            self.report.refused.append(RefusedFile(file.path_text, f"{error} ({type(error).__name__})", is_temporary))
            return
        self.add_imported_file_row(file, "", [], live=False)

    def import_file(self, file: SourceFile, on_read: Callable[[int], None] | None = None) -> FileImport:
        """Import one file, and note how it was then. Raises what refuses it."""
        file_import = self.read_file(file, on_read)
        self.finish_file(file_import)
        return file_import

    def read_file(self, file: SourceFile, on_read: Callable[[int], None] | None = None) -> FileImport:
        """Read one file, for `finish_file`. Raises what refuses it."""
        file_import = FileImport(self._store, self._options, self.report, file, self._batch)
        self.report.files += 1
        self.report.formats[file_import.format.name] += 1
        file_import.read_appended_values(on_read)
        return file_import

    def finish_file(self, file_import: FileImport) -> None:
        """Write what was read of a file, and note how it was then. Raises what refuses it."""
        sessions, file = file_import.finish(), file_import.file
        if file_import.is_empty:
            self.report.empty.append(file.path_text)
        self.add_imported_file_row(file, file_import.format.name, sessions, live=file_import.is_live)

    def add_imported_file_row(self, file: SourceFile, format_name: str, sessions: Sequence[str], *, live: bool) -> None:
        """Note a file as it was read, for `save_imported_files`."""
        self._read.append(
            ImportedFile(
                workspace_id=self._store.workspace_id,
                path_digest=digest_text(file.path_text),
                path=file.path_text,
                format=format_name,
                size=file.size,
                modified_ns=file.modified_ns,
                sessions=to_canonical_json(list(sessions)),
                live=live,
                read_at=datetime.now(UTC),
            )
        )

    def take_imported_file_rows(self) -> list[ImportedFile]:
        """Return the noted files, for `save_imported_file_rows`; they are noted no more."""
        rows, self._read = self._read, []
        return rows

    def save_imported_files(self) -> None:
        """Remember the noted files in the database. Others are read again next time, which changes nothing."""
        save_imported_file_rows(self._store, self.take_imported_file_rows())

    def _list_unchanged_files(self, files: Sequence[SourceFile]) -> set[Path]:
        """List the files whose last import still holds, from their sizes and times alone."""
        rows = {
            digest: (size, modified_ns, sessions, live)
            for digest, size, modified_ns, sessions, live in ImportedFile.objects.using(self._store.using)
            .filter(workspace_id=self._store.workspace_id)
            .values_list("path_digest", "size", "modified_ns", "sessions", "live")
            .iterator()
        }
        same: dict[Path, list[str]] = {}
        for file in files:
            row = rows.get(digest_text(file.path_text))
            if row is not None and row[:2] == (file.size, file.modified_ns) and not row[3]:
                same[file.path] = parse_json(row[2])
        existing = self._list_existing_session_ids({session for sessions in same.values() for session in sessions})
        return {path for path, sessions in same.items() if existing.issuperset(sessions)}

    def _list_existing_session_ids(self, session_ids: set[str]) -> set[str]:
        existing: set[str] = set()
        wanted = sorted(session_ids)
        rows = Session.objects.using(self._store.using).filter(workspace_id=self._store.workspace_id)
        for start in range(0, len(wanted), _CHUNK_SIZE):
            chunk = wanted[start : start + _CHUNK_SIZE]
            existing.update(rows.filter(session_id__in=chunk).values_list("session_id", flat=True))
        return existing


def save_imported_file_rows(store: Store, rows: Sequence[ImportedFile]) -> None:
    """Remember in the database how files were when they were imported."""
    if not rows:
        return
    with database_operation(store.using):
        ImportedFile.objects.using(store.using).bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["workspace", "path_digest"],
            update_fields=["path", "format", "size", "modified_ns", "sessions", "live", "read_at"],
        )
