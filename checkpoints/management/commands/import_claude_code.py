"""`manage.py import_claude_code`: import transcripts of Claude Code as sessions."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.client import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from checkpoints.importers.claude_code import import_claude_code
from checkpoints.importers.progress import ProgressBar, format_summary
from checkpoints.models import DEFAULT_WORKSPACE


class Command(BaseCommand):
    help = "Import transcripts of Claude Code: a file, a project's folder, or ~/.claude. Again: only what is new."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="+")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="one JSON report for each path")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        for path in options["path"]:
            bar = ProgressBar(sys.stderr)
            try:
                report = import_claude_code(checkpointer, path, progress=bar)
            except (CheckpointsError, OSError) as error:
                raise CommandError(str(error)) from error
            finally:
                bar.finish_line()
            self.stdout.write(json.dumps(report.to_dict()) if options["json"] else "\n".join(format_summary(report)))
