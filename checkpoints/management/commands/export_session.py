"""`manage.py export_session`: write a session to one file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.sync_client import SyncCheckpointer


class Command(BaseCommand):
    help = "Write a session with everything of it to one file that proves itself."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session_id")
        parser.add_argument("path", help="the file to write; one that is there is replaced at once")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="what was written as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        try:
            file = checkpointer.export_session(options["session_id"], options["path"])
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(file) | {"path": str(file.path)}))
        else:
            self.stdout.write(f"Version {file.version}, {file.size:,} bytes: {file.path}")
