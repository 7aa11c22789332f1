"""`manage.py sweep`: end lost runs, and calls to other agents whose deadline has passed. It deletes nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import BATCH_LIMIT
from checkpoints.exceptions import CheckpointsError
from checkpoints.peers.sweep_lost_runs_and_deadlines import SweepRound, sweep_lost_runs_and_deadlines_of_workspaces


class Command(BaseCommand):
    help = (
        "End runs whose lease has run out and put the calls they left open before a person; give up calls to other "
        "agents whose deadline has passed. The site does the same by itself, every few seconds."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--limit", type=int, default=BATCH_LIMIT, help="sessions, and calls, to handle at most")
        parser.add_argument("--workspace", help="only this one")
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help='{"lost": […], "expired": […], "complete": […]}')

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            sweep_round = sweep_lost_runs_and_deadlines_of_workspaces(
                options["database"], workspace=options["workspace"], limit=options["limit"]
            )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(asdict(sweep_round)) if options["json"] else _format_sweep_round(sweep_round))


def _format_sweep_round(sweep_round: SweepRound) -> str:
    return "\n".join(
        [
            *(f"run lost: {session_id}" for session_id in sweep_round.lost),
            *(f"no answer in time: {call_id}" for call_id in sweep_round.expired),
            *(f"complete: join {join} of {session_id}" for session_id, join in sweep_round.complete),
            f"{len(sweep_round.lost)} runs were gone, {len(sweep_round.expired)} calls to other agents were given up.",
        ]
    )
