"""Follow a folder of transcripts while agents write to it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Final

from checkpoints import SyncCheckpointer
from checkpoints.db import clock
from checkpoints.exceptions import CheckpointsError
from checkpoints.importers.escape_non_utf8_path import format_path
from checkpoints.importers.find_and_read_transcript_files import (
    SourceFile,
    build_source_file_from_stat,
    build_unreadable_folder_refusal,
    find_source_files,
)
from checkpoints.importers.import_changed_files import (
    TEMPORARY_ERRORS,
    UNEXPECTED_CONTENT,
    IncrementalFileImport,
)
from checkpoints.importers.import_errors import FormatRefused, NothingToImport
from checkpoints.importers.import_file_and_appended_lines import FileImport, ImportOptions
from checkpoints.importers.import_from_path_or_memory import (
    import_files_in_processes_or_one_by_one,
    import_files_unless_unchanged,
)
from checkpoints.importers.import_report import ImportReport, Progress, RefusedFile

#: Seconds between two looks at the folder.
DEFAULT_INTERVAL: Final = 0.5
#: Number of looks at the files that grow, of which one is a look at the whole folder.
_LOOKS_PER_INTERVAL: Final = 4
#: Number of files that stay open, so that only what is appended is read.
_MAX_OPEN: Final = 32
#: Seconds between two looks for transcripts that have not gone on for so long that they count as ended.
_SETTLE_SECONDS: Final = 30.0


class FolderWatch:
    """Watch of one file or folder: imports what is there, then what changes."""

    def __init__(
        self,
        checkpointer: SyncCheckpointer,
        path: str | Path,
        options: ImportOptions | None = None,
        *,
        workers: int | None = 1,
    ) -> None:
        """Create a watch; `workers` is the number of processes that import many files at once.

        None: as many as `import_transcripts` starts then.
        """
        self._workers = workers
        self.path = Path(path).expanduser()
        self.report = ImportReport()
        self._incremental_import = IncrementalFileImport(checkpointer.store, options or ImportOptions(), self.report)
        self._known: dict[Path, tuple[int, int]] = {}
        self._open: OrderedDict[Path, FileImport] = OrderedDict()
        self._live: set[Path] = set()
        #: Why files, or the folder, could not be imported at the last look; they are tried again at the next.
        self._failed: dict[str, str] = {}
        #: Folders that could not be read at the last look.
        self._unreadable: set[str] = set()

    def _find_files_and_report_unreadable_folders(self) -> list[SourceFile]:
        """Find the files; none if there are none. A folder that cannot be read is reported once."""
        unreadable: list[OSError] = []
        try:
            return find_source_files(self.path, unreadable)
        except NothingToImport:
            return []
        finally:
            refused = {folder.path: folder for folder in map(build_unreadable_folder_refusal, unreadable)}
            self.report.refused += [refused[path] for path in refused.keys() - self._unreadable]
            self._unreadable = {*refused}

    def import_existing(self, progress: Progress | None = None) -> None:
        """Import what is there already, without reading unchanged files."""
        files = self._find_files_and_report_unreadable_folders()
        if not files:
            return
        self._known = {file.path: (file.size, file.modified_ns) for file in files}
        try:
            with self._report_failures_and_retry_files_later(files):
                import_files_unless_unchanged(
                    self._incremental_import, self.path, files, progress, skip_unchanged=True, workers=self._workers
                )
        except NothingToImport:
            pass  # the files may get their first lines later
        now = clock.now()
        self._live = {file.path for file in files if file.was_changed_recently(now)}

    def import_changes(self) -> int:
        """Import what has changed since the last look. Returns the number of files that were read."""
        return self._import_changed_files(self._find_files_and_report_unreadable_folders())

    def import_growing_files(self) -> int:
        """Import what files have got that were growing at the last look, and look for no others. Returns their
        number."""
        files = []
        for path, opened in self._open.items():
            with suppress(OSError):  # the next look at the folder finds out
                if not path.is_symlink():
                    files.append(build_source_file_from_stat(path, opened.file.relative))
        return self._import_changed_files(files)

    def _import_changed_files(self, files: Sequence[SourceFile]) -> int:
        changed = [file for file in files if self._known.get(file.path) != (file.size, file.modified_ns)]
        self._known |= {file.path: (file.size, file.modified_ns) for file in changed}
        unopened = [file for file in changed if file.path not in self._open]
        if len(unopened) > _MAX_OPEN:
            self._import_many_files(unopened)
            changed_alone = [file for file in changed if file.path in self._open]
        else:
            changed_alone = changed
        for file in changed_alone:
            with self._report_failures_and_retry_files_later([file]):
                self._import_appended_or_whole_file(file)
        return len(changed)

    def _import_many_files(self, files: Sequence[SourceFile]) -> None:
        """Import many files at once, by several processes if they are worth it."""
        with self._report_failures_and_retry_files_later(files):
            import_files_in_processes_or_one_by_one(
                self._incremental_import, files, None, is_single=False, workers=self._workers
            )
        now = clock.now()
        self._live |= {file.path for file in files if file.was_changed_recently(now)}

    @contextmanager
    def _report_failures_and_retry_files_later(self, files: Sequence[SourceFile]) -> Iterator[None]:
        """Forget files that cannot be imported just now, so that the next look finds them changed.

        The same failure is reported once, however often it comes again.
        """
        reported, by_name = len(self.report.refused), {file.path_text: file.path for file in files}
        try:
            yield
        except NothingToImport:
            raise
        except TEMPORARY_ERRORS as error:
            self.report.refused += [RefusedFile(name, str(error), is_temporary=True) for name in by_name]
        except (CheckpointsError, OSError) as error:
            self.report.refused.append(RefusedFile(format_path(self.path), str(error)))
        refused = self.report.refused[reported:]
        del self.report.refused[reported:]
        self.report.refused += [file for file in refused if self._failed.get(file.path) != file.why]
        self._failed = {name: why for name, why in self._failed.items() if name not in by_name}
        self._failed |= {file.path: file.why for file in refused if file.is_temporary}
        for file in refused:
            if file.is_temporary and file.path in by_name:
                self._known.pop(by_name[file.path], None)

    def reimport_transcripts_that_ended(self) -> int:
        """Import transcripts again that have not gone on for long: they count as ended. Returns their number."""
        now = clock.now()
        files = self._find_files_and_report_unreadable_folders() if self._live else []
        ended = [file for file in files if file.path in self._live and not file.was_changed_recently(now)]
        for file in ended:
            self._open.pop(file.path, None)
            with self._report_failures_and_retry_files_later([file]):
                self._import_appended_or_whole_file(file)
        return len(ended)

    def _import_appended_or_whole_file(self, file: SourceFile) -> None:
        """Import what a file has beyond what was read; a file that is shorter or not of lines is read as a whole."""
        opened = self._open.pop(file.path, None)
        try:
            if (
                opened is not None
                and opened.file.is_lines
                and opened.offset <= file.size
                and file.was_changed_recently(clock.now())
            ):
                opened.file.size, opened.file.modified_ns = file.size, file.modified_ns
                sessions = opened.import_unread_values()
                self._incremental_import.queue_row_of_imported_file(
                    file, opened.format.name, sessions, live=opened.is_live
                )
            else:
                opened = self._incremental_import.import_file_or_raise(file)
        except FormatRefused:
            return  # a new file may have no line yet; it is tried again when it grows
        except TEMPORARY_ERRORS:
            raise
        except UNEXPECTED_CONTENT as error:
            self.report.refused.append(RefusedFile(file.path_text, str(error)))
            return
        self._incremental_import.save_queued_imported_file_rows()
        (self._live.add if opened.is_live else self._live.discard)(file.path)
        if opened.is_live:
            self._open[file.path] = opened
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)


def watch_transcripts(
    watch: FolderWatch,
    *,
    stop: Event,
    interval: float = DEFAULT_INTERVAL,
    progress: Progress | None = None,
    on_change: Callable[[ImportReport], None] | None = None,
) -> None:
    """Import what is there, then what changes, until `stop` is set.

    Args:
        watch: Watch of a file or folder.
        stop: Event that ends the watch.
        interval: Seconds between two looks at the folder. Files that grow are looked at four times as often.
        progress: Function that is called with an `ImportProgress` during the first import.
        on_change: Function that is called with the report after the first import and after each change.
    """
    watch.import_existing(progress)
    if on_change is not None:
        on_change(watch.report)
    settled_at = time.monotonic()
    looks = 0
    while not stop.wait(interval / _LOOKS_PER_INTERVAL):
        looks += 1
        count = watch.import_growing_files() if looks % _LOOKS_PER_INTERVAL else watch.import_changes()
        if time.monotonic() - settled_at > _SETTLE_SECONDS:
            settled_at = time.monotonic()
            count += watch.reimport_transcripts_that_ended()
        if count and on_change is not None:
            on_change(watch.report)
