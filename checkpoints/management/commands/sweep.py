"""`manage.py sweep`: find runs that are gone."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.checkpointer import SyncCheckpointer
from checkpoints.exceptions import CheckpointsError
from checkpoints.models import DEFAULT_WORKSPACE
from checkpoints.resuming.sweeping import LIMIT


class Command(BaseCommand):
    help = "End runs whose lease has run out, and put the calls they left open before a person."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, default=LIMIT, help="sessions to handle at most")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="the session ids as a JSON array")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        try:
            swept = checkpointer.sweep_lost_runs(limit=options["limit"])
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(swept))
        else:
            self.stdout.write("\n".join([*swept, f"{len(swept)} runs were gone."]))
