"""`manage.py import_transcripts`: import transcripts of other programs as sessions."""

from __future__ import annotations

import getpass
import json
import os
import signal
import sys
from argparse import ArgumentTypeError
from threading import Event
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.importers import detect_format
from checkpoints.importers.import_file_and_appended_lines import ImportOptions
from checkpoints.importers.import_from_path_or_memory import import_transcripts
from checkpoints.importers.import_progress_bar_and_summary import ProgressBar, iterate_summary_lines
from checkpoints.importers.import_report import ImportReport
from checkpoints.importers.price_table import load_price_table
from checkpoints.importers.watch_folder import FolderWatch, watch_transcripts
from checkpoints.sync_client import SyncCheckpointer

#: Exit status if lines were left out as damaged, and if a file was refused or a folder not read.
DAMAGED_STATUS: Final = 3
REFUSED_STATUS: Final = 4
#: Exit status if the import was interrupted, as shells have it.
INTERRUPTED_STATUS: Final = 130
_MAX_WORKERS: Final = 64


class Command(BaseCommand):
    help = (
        "Import transcripts of other programs: files or folders such as ~/.claude. Again: only what is new. "
        "Exit status: 0 everything was read, 3 damaged lines were left out, 4 a file or folder was refused, "
        "130 interrupted."
    )
    #: Those of the website would load all its pages first, which takes longer than a small import.
    requires_system_checks = ("checkpoints",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="+")
        parser.add_argument(
            "--format", default="", choices=sorted(detect_format.FORMATS), help="without it, it is detected"
        )
        parser.add_argument("--session-id", help="for one file; without it, sessions have the ids of the transcripts")
        parser.add_argument("--agent", default="", help="the agent whose transcripts these are")
        parser.add_argument("--imported-by", default="", help="your name in the history; without it, your login")
        parser.add_argument("--prices", help="price table for transcripts without costs: a file of TOML or JSON")
        parser.add_argument("--reread", action="store_true", help="read unchanged files again")
        parser.add_argument(
            "--workers",
            type=_parse_worker_count,
            help="number of processes that import the files of a folder; without it, as many as it is worth",
        )
        parser.add_argument("--watch", action="store_true", help="go on: import what changes, until interrupted")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="one JSON report for each path")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["session_id"] and len(options["path"]) > 1:
            raise CommandError("--session-id names one file; several were given.")
        if options["watch"] and len(options["path"]) > 1:
            raise CommandError("--watch follows one path; several were given.")
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        try:
            wishes = ImportOptions(
                options["format"],
                options["session_id"] or "",
                options["agent"],
                options["imported_by"] or _get_os_username(),
                load_price_table(options["prices"]) if options["prices"] else None,
            )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["watch"]:
            self._watch_source_folder(checkpointer, options["path"][0], wishes, options["workers"])
            return
        reports, problems = [], []
        for path in options["path"]:
            bar = ProgressBar(sys.stderr)
            try:
                reports.append(self._import_path(checkpointer, path, wishes, bar, options))
            except (CheckpointsError, OSError) as error:
                problems.append(str(error))
                continue
            except KeyboardInterrupt:
                why = "Interrupted. What was imported stays; the same command imports the rest."
                raise CommandError(why, returncode=INTERRUPTED_STATUS) from None
            finally:
                bar.write_newline_if_drawn()
            self._print_report(reports[-1], as_json=options["json"])
        _raise_if_files_refused_or_lines_skipped(reports, problems)

    def _import_path(
        self,
        checkpointer: SyncCheckpointer,
        path: str,
        wishes: ImportOptions,
        bar: ProgressBar,
        options: dict[str, Any],
    ) -> ImportReport:
        return import_transcripts(
            checkpointer,
            path,
            format=wishes.format,
            session_id=wishes.session_id or None,
            agent=wishes.agent,
            imported_by=wishes.imported_by,
            prices=wishes.prices,
            skip_unchanged=not options["reread"],
            progress=bar,
            workers=options["workers"],
        )

    def _watch_source_folder(
        self, checkpointer: SyncCheckpointer, path: str, wishes: ImportOptions, workers: int | None
    ) -> None:
        bar = ProgressBar(sys.stderr)
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # also while the first import runs

        def print_totals_and_clear_refused(report: ImportReport) -> None:
            bar.write_newline_if_drawn()
            self.stdout.write(
                f"{len(set(report.session_ids)):,} sessions, {report.new_messages:,} new messages. "
                f"Watching {path}; Ctrl+C ends it."
            )
            for refused in report.refused:
                self.stderr.write(f"Refused: {refused.path}: {refused.why}")
            report.refused.clear()

        try:
            watch = FolderWatch(checkpointer, path, wishes, workers=workers)
            watch_transcripts(watch, stop=Event(), progress=bar, on_change=print_totals_and_clear_refused)
        except KeyboardInterrupt:
            self.stdout.write("The watch has ended. What was imported stays.")

    def _print_report(self, report: ImportReport, *, as_json: bool) -> None:
        self.stdout.write(json.dumps(report.to_dict()) if as_json else "\n".join(iterate_summary_lines(report)))


def _parse_worker_count(text: str) -> int:
    """Parse a number of processes. Raises `ArgumentTypeError`."""
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_WORKERS:
        raise ArgumentTypeError(f"{text!r} is no number from 1 to {_MAX_WORKERS}.")
    if int(text) > 1 and not hasattr(os, "fork"):
        raise ArgumentTypeError("this system cannot fork processes; leave --workers out.")
    return int(text)


def _get_os_username() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no login and no entry of the user
        return ""


def _raise_if_files_refused_or_lines_skipped(reports: list[ImportReport], problems: list[str]) -> None:
    """Raise the error with the exit status of what was not read."""
    refused = sum(len(report.refused) for report in reports)
    if problems or refused:
        lines = problems or [
            f"{refused:,} {'file or folder was' if refused == 1 else 'files or folders were'} refused."
        ]
        raise CommandError("\n".join(lines), returncode=REFUSED_STATUS)
    if skipped := sum(report.skipped for report in reports):
        places = "1 damaged place was" if skipped == 1 else f"{skipped:,} damaged places were"
        raise CommandError(f"{places} left out; the rest was imported.", returncode=DAMAGED_STATUS)
