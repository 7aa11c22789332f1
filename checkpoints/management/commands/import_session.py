"""`manage.py import_session`: import a session from its file."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.sync_client import SyncCheckpointer


class Command(BaseCommand):
    help = "Take a session over from a file that export_session wrote."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path")
        parser.add_argument("--session-id", help="refuse a file that holds another session than this one")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="what was imported as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        try:
            session = checkpointer.import_session(options["path"], session_id=options["session_id"])
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(session)))
            return
        review_text = f" {session.undecided} calls need a decision." if session.undecided else ""
        self.stdout.write(f"Session {session.session_id!r} is here at version {session.version}.{review_text}")
