"""`manage.py import_claude_code`: transcripts of Claude Code become sessions."""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.adapters.claude_code import import_claude_code
from checkpoints.adapters.importing.telling import Bar, summary
from checkpoints.client import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
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
            bar = Bar(sys.stderr)
            try:
                report = import_claude_code(checkpointer, path, progress=bar)
            except (CheckpointsError, OSError) as error:
                raise CommandError(str(error)) from error
            finally:
                bar.end()
            self.stdout.write(json.dumps(report.as_dict()) if options["json"] else "\n".join(summary(report)))
