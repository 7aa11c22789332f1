"""`manage.py delete_session`: remove a session and everything of it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.sync_client import SyncCheckpointer


class Command(BaseCommand):
    help = "Remove a session: its versions, messages, calls, decisions and history. This cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session_id", nargs="+")
        parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        verb = "would go" if options["dry_run"] else "removed"
        for session_id in options["session_id"]:
            try:
                counts = checkpointer.delete_session(session_id, dry_run=options["dry_run"])
            except CheckpointsError as error:
                raise CommandError(str(error)) from error
            self.stdout.write(f"{session_id}: {counts.versions} versions and {counts.messages} messages {verb}.")
