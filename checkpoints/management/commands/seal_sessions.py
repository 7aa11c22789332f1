"""`manage.py seal_sessions`: seal the rows that were written before a key was configured."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import backfill_row_seals, quarantine
from checkpoints.models import Session
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys

BATCH_SIZE = 100


class Command(BaseCommand):
    help = (
        "Seals the rows that have no seal, once, after HARNESS_SEAL_KEY was configured. It seals what the database "
        "holds now, so run it on a database that you trust. It can be interrupted and repeated. A session with a row "
        "that does not match is named and left as it is; then the exit code is 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        using, rows, sessions, last = options["database"], 0, 0, 0
        refused: list[int] = []
        try:
            if get_seal_keys() is None:
                raise CommandError(f"{KEY_SETTING} is empty: there is no key to seal with.")
            while batch := list(
                Session.objects.using(using)
                .filter(pk__gt=last)
                .order_by("pk")
                .values_list("pk", "session_id")[:BATCH_SIZE]
            ):
                for pk, name in batch:
                    try:
                        rows += backfill_row_seals.seal_unsealed_session_rows(using, pk)
                    except CheckpointsError as error:
                        if not quarantine.is_error_about_one_session(error):
                            raise
                        refused.append(pk)
                        self.stderr.write(f"{name}: {error}")
                        quarantine.try_quarantine_session_if_altered(pk, using=using)
                sessions, last = sessions + len(batch), batch[-1][0]
                self.stderr.write(f"{sessions} sessions, {rows} rows so far")
            rows += backfill_row_seals.seal_unsealed_audit_events_and_early_responses(using)
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{rows} rows of {sessions - len(refused)} sessions were sealed.")
        if refused:
            raise CommandError(
                f"{len(refused)} of {sessions} sessions were not sealed: each has a row that does not match. Restore "
                "their rows and run the command again, or delete these sessions."
            )
