"""`manage.py seal_sessions`: seal the rows that were written before a key was configured."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import backfill_row_seals
from checkpoints.models import Session
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys

BATCH_SIZE = 100


class Command(BaseCommand):
    help = (
        "Seals the rows that have no seal, once, after HARNESS_SEAL_KEY was configured. It seals what the database "
        "holds now, so run it on a database that you trust. It can be interrupted and repeated."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        using, rows, sessions, last = options["database"], 0, 0, 0
        try:
            if get_seal_keys() is None:
                raise CommandError(f"{KEY_SETTING} is empty: there is no key to seal with.")
            while batch := list(
                Session.objects.using(using)
                .filter(pk__gt=last)
                .order_by("pk")
                .values_list("pk", flat=True)[:BATCH_SIZE]
            ):
                for pk in batch:
                    rows += backfill_row_seals.seal_unsealed_session_rows(using, pk)
                sessions, last = sessions + len(batch), batch[-1]
                self.stderr.write(f"{sessions} sessions, {rows} rows so far")
            rows += backfill_row_seals.seal_rows_without_session(using)
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{rows} rows of {sessions} sessions were sealed.")
