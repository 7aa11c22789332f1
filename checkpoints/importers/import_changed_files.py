"""Incremental import of files: the database remembers how each was when it was imported, and unchanged ones are
skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from checkpoints.db.translate_errors_and_return_connections import database_operation
from checkpoints.exceptions import CheckpointsError, StorageError
from checkpoints.formats.canonical_json import parse_json, to_canonical_json
from checkpoints.formats.digests import digest_text
from checkpoints.importers.claude_code.transcript_reader import is_internal_subagent_file
from checkpoints.importers.find_and_read_transcript_files import SourceFile
from checkpoints.importers.import_errors import EncodingRefused, FormatRefused, ImportOvertaken
from checkpoints.importers.import_file_and_appended_lines import FileImport, ImportOptions
from checkpoints.importers.import_report import ImportProgress, ImportReport, Progress, RefusedFile
from checkpoints.importers.new_session_batch import NewSessionBatch
from checkpoints.models import ImportedFile, Session
from checkpoints.store.database_client_state import Store

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


class IncrementalFileImport:
    """Import of many files one by one, which remembers how each was, so that a later one can skip unchanged files."""

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
        self.store, self.options, self.report = store, options, report
        self._obstacles, self._batch = obstacles, batch
        #: Files that were read and are not yet remembered.
        self._read: list[ImportedFile] = []

    def import_files_in_this_process(
        self, changed: Sequence[SourceFile], progress: Progress | None, *, is_single: bool
    ) -> None:
        """Import files by this process; raise what refuses the only one."""
        total, read = sum(file.size for file in changed), 0
        for number, file in enumerate(changed, 1):

            def report_progress(offset: int, file: SourceFile = file, number: int = number, read: int = read) -> None:
                if progress is not None:
                    position = min(read + offset, total)
                    progress(ImportProgress(file.path, number, len(changed), position, total, self.report))

            self.import_file_or_report_refusal(file, report_progress, is_single=is_single)
            if len(self._read) >= _REMEMBERED_FILES:
                self.save_queued_imported_file_rows()
            read += file.size
            report_progress(0, read=read)

    def import_file_or_report_refusal(
        self, file: SourceFile, on_read: Callable[[int], None], *, is_single: bool
    ) -> None:
        """Import one file; raise what refuses it if it is the only one, else report it."""
        try:
            if is_single or not is_internal_subagent_file(file.path):
                self.import_file_or_raise(file, on_read)
                return
            self.report.helpers.append(file.path_text)
        except FormatRefused as error:
            if is_single:
                raise
            if self.options.format or isinstance(error, EncodingRefused):
                self.report.refused.append(RefusedFile(file.path_text, f"{error.why}. {error.hint}"))
                return
            self.report.empty.append(file.path_text)
        except UNEXPECTED_CONTENT as error:
            if is_single or isinstance(error, self._obstacles):
                raise
            is_temporary = isinstance(error, TEMPORARY_ERRORS)
            self.report.refused.append(RefusedFile(file.path_text, f"{error} ({type(error).__name__})", is_temporary))
            return
        self.queue_row_of_imported_file(file, "", [], live=False)

    def import_file_or_raise(self, file: SourceFile, on_read: Callable[[int], None] | None = None) -> FileImport:
        """Import one file, and note how it was then. Raises what refuses it."""
        file_import = self.read_into_file_import(file, on_read)
        self.flush_and_queue_imported_file_row(file_import)
        return file_import

    def read_into_file_import(self, file: SourceFile, on_read: Callable[[int], None] | None = None) -> FileImport:
        """Read one file, for `flush_and_queue_imported_file_row`. Raises what refuses it."""
        file_import = FileImport(self.store, self.options, self.report, file, self._batch)
        self.report.files += 1
        self.report.formats[file_import.format.name] += 1
        file_import.read_unread_values(on_read)
        return file_import

    def flush_and_queue_imported_file_row(self, file_import: FileImport) -> None:
        """Write what was read of a file, and note how it was then. Raises what refuses it."""
        sessions, file = file_import.flush(), file_import.file
        if file_import.is_empty:
            self.report.empty.append(file.path_text)
        self.queue_row_of_imported_file(file, file_import.format.name, sessions, live=file_import.is_live)

    def queue_row_of_imported_file(
        self, file: SourceFile, format_name: str, sessions: Sequence[str], *, live: bool
    ) -> None:
        """Note a file as it was read, for `save_queued_imported_file_rows`."""
        self._read.append(
            ImportedFile(
                workspace_id=self.store.workspace_id,
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

    def take_queued_imported_file_rows(self) -> list[ImportedFile]:
        """Return the noted files, for `save_imported_file_rows`; they are noted no more."""
        rows, self._read = self._read, []
        return rows

    def save_queued_imported_file_rows(self) -> None:
        """Remember the noted files in the database. Others are read again next time, which changes nothing."""
        save_imported_file_rows(self.store, self.take_queued_imported_file_rows())

    def collect_paths_of_unchanged_files(self, files: Sequence[SourceFile]) -> set[Path]:
        """List the files whose last import still holds, from their sizes and times alone."""
        rows = {
            digest: (size, modified_ns, sessions, live)
            for digest, size, modified_ns, sessions, live in ImportedFile.objects.using(self.store.using)
            .filter(workspace_id=self.store.workspace_id)
            .values_list("path_digest", "size", "modified_ns", "sessions", "live")
            .iterator()
        }
        same: dict[Path, list[str]] = {}
        for file in files:
            row = rows.get(digest_text(file.path_text))
            if row is not None and row[:2] == (file.size, file.modified_ns) and not row[3]:
                same[file.path] = parse_json(row[2])
        existing = self._load_existing_session_ids({session for sessions in same.values() for session in sessions})
        return {path for path, sessions in same.items() if existing.issuperset(sessions)}

    def _load_existing_session_ids(self, session_ids: set[str]) -> set[str]:
        existing: set[str] = set()
        wanted = sorted(session_ids)
        rows = Session.objects.using(self.store.using).filter(workspace_id=self.store.workspace_id)
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
