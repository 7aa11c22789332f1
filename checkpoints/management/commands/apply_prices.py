"""`manage.py apply_prices`: estimate the costs of imported sessions again, from a price table."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.importers.price_table import load_price_table
from checkpoints.importers.reestimate_costs import reestimate_costs_of_imported_sessions
from checkpoints.sync_client import SyncCheckpointer


class Command(BaseCommand):
    help = "Estimate the costs of imported sessions whose source states none. Stated costs stay as they are."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("table", help="price table: a file of TOML or JSON")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        try:
            estimates = reestimate_costs_of_imported_sessions(
                checkpointer.store, load_price_table(options["table"]), applied_by=getpass.getuser()
            )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"Looked at {estimates.sessions:,} sessions: "
            f"estimated {estimates.estimated:,}, changed {estimates.changed:,}."
        )
        for model, count in sorted(estimates.unpriced.items()):
            self.stdout.write(f"No price for {model}: {count:,} sessions stay unknown.")
