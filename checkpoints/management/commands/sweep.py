"""`manage.py sweep`: find runs that are gone, and calls to other agents whose deadline has passed."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.peers.sweeping import Round, sweep
from checkpoints.resuming.sweeping import LIMIT


class Command(BaseCommand):
    help = (
        "End runs whose lease has run out and put the calls they left open before a person; give up calls to other "
        "agents whose deadline has passed. The site does the same by itself, every few seconds."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, default=LIMIT, help="sessions, and calls, to handle at most")
        parser.add_argument("--workspace", help="only this one")
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help='{"lost": […], "expired": […], "complete": […]}')

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = sweep(options["database"], workspace=options["workspace"], limit=options["limit"])
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(asdict(done)) if options["json"] else _in_words(done))


def _in_words(done: Round) -> str:
    return "\n".join(
        [
            *(f"run lost: {session_id}" for session_id in done.lost),
            *(f"no answer in time: {call_id}" for call_id in done.expired),
            *(f"complete: join {join} of {session_id}" for session_id, join in done.complete),
            f"{len(done.lost)} runs were gone, {len(done.expired)} calls to other agents were given up.",
        ]
    )
