"""`manage.py import_transcripts`: import conversations in the providers' own formats as sessions."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.client import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from checkpoints.importers.anthropic import import_messages
from checkpoints.importers.openai import import_chat, import_responses
from checkpoints.importers.progress import ProgressBar, format_summary
from checkpoints.models import DEFAULT_WORKSPACE

_FORMATS: Final = {"openai-chat": import_chat, "openai-responses": import_responses, "anthropic": import_messages}


class Command(BaseCommand):
    help = "Import conversations from files of JSON or JSON lines. Again: only what is new."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", nargs="+")
        parser.add_argument("--format", required=True, choices=sorted(_FORMATS))
        parser.add_argument("--session-id", help="for one file; without it, sessions are called like their files")
        parser.add_argument("--agent", default="", help="the agent whose conversations these are")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="one JSON report for each path")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["session_id"] and len(options["path"]) > 1:
            raise CommandError("--session-id names one file; several were given.")
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        importing = _FORMATS[options["format"]]
        for path in options["path"]:
            bar = ProgressBar(sys.stderr)
            try:
                report = importing(
                    checkpointer, path, session_id=options["session_id"], agent=options["agent"], progress=bar
                )
            except (CheckpointsError, OSError) as error:
                raise CommandError(str(error)) from error
            finally:
                bar.finish_line()
            self.stdout.write(json.dumps(report.to_dict()) if options["json"] else "\n".join(format_summary(report)))
