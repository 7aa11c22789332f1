"""Import of transcripts of any known format: a file, a folder, or values from memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import InvalidInput
from checkpoints.importers import detect_format
from checkpoints.importers.find_and_read_transcript_files import (
    SourceFile,
    build_unreadable_folder_refusal,
    find_source_files,
)
from checkpoints.importers.import_changed_files import IncrementalFileImport
from checkpoints.importers.import_errors import NothingToImport
from checkpoints.importers.import_file_and_appended_lines import (
    ImportOptions,
    add_value_or_report_damage,
    build_import_context,
)
from checkpoints.importers.import_in_processes import close_connections_and_import_in_processes
from checkpoints.importers.import_report import ImportReport, Progress
from checkpoints.importers.parallel_file_groups import can_forked_processes_use_database, choose_number_of_workers
from checkpoints.importers.price_table import PriceTable
from checkpoints.store.database_client_state import Store


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
        _import_values_from_memory(checkpointer.store, source, options, report)
        return report
    path = Path(source).expanduser()
    unreadable: list[OSError] = []
    files = find_source_files(path, unreadable)
    report.refused += map(build_unreadable_folder_refusal, unreadable)
    if session_id is not None and not path.is_file():
        raise InvalidInput("A session_id names one file; a folder's sessions are called like its files.")
    incremental_import = IncrementalFileImport(checkpointer.store, options, report)
    import_files_unless_unchanged(
        incremental_import, path, files, progress, skip_unchanged=skip_unchanged, workers=workers
    )
    return report


def _import_values_from_memory(
    store: Store, values: Iterable[Any], options: ImportOptions, report: ImportReport
) -> None:
    if not options.session_id or not options.format:
        raise InvalidInput("Messages from memory need a session_id and a format.")
    context = build_import_context(
        store, options, report, detect_format.get_format_by_name(options.format), None, options.session_id
    )
    reader = context.format.open_reader(context)
    for number, value in enumerate(values, 1):
        add_value_or_report_damage(reader, context, number, value)
    reader.flush()


def import_files_unless_unchanged(
    incremental_import: IncrementalFileImport,
    path: Path,
    files: Sequence[SourceFile],
    progress: Progress | None,
    *,
    skip_unchanged: bool,
    workers: int | None = 1,
) -> None:
    """Import the files of `path`, by several processes if there are several; raise what refuses the only one."""
    unchanged = incremental_import.collect_paths_of_unchanged_files(files) if skip_unchanged else set[Path]()
    incremental_import.report.unchanged = len(unchanged)
    changed = [file for file in files if file.path not in unchanged]
    import_files_in_processes_or_one_by_one(
        incremental_import, changed, progress, is_single=path.is_file(), workers=workers
    )
    report = incremental_import.report
    if not (report.sessions or report.refused or report.unchanged or report.files):
        raise NothingToImport(path, "no file in it is a transcript of a known format")


def import_files_in_processes_or_one_by_one(
    incremental_import: IncrementalFileImport,
    changed: Sequence[SourceFile],
    progress: Progress | None,
    *,
    is_single: bool,
    workers: int | None,
) -> None:
    """Import files without asking whether they have changed, by several processes if there are several."""
    using = incremental_import.store.using
    number = choose_number_of_workers(using, changed) if workers is None else workers
    try:
        if number > 1 and len(changed) > 1 and can_forked_processes_use_database(using):
            close_connections_and_import_in_processes(
                incremental_import.store,
                incremental_import.options,
                incremental_import.report,
                changed,
                progress,
                workers=number,
            )
        else:
            incremental_import.import_files_in_this_process(changed, progress, is_single=is_single)
    finally:
        incremental_import.save_queued_imported_file_rows()
