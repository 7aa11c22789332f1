"""`manage.py prune`: remove old versions by a retention rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import quarantine
from checkpoints.models import Session
from checkpoints.sync_client import SyncCheckpointer

#: Number of sessions that are read at once, and after which progress is reported.
BATCH_SIZE = 100


class Command(BaseCommand):
    help = "Remove versions that a retention rule does not keep, and the messages that nothing reaches any more."
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("session_id", nargs="*", help="these sessions; without any, all of the workspace")
        parser.add_argument("--keep-last", type=int, metavar="N", help="keep the last N versions")
        parser.add_argument("--keep-every", type=int, metavar="N", help="keep every N-th version")
        parser.add_argument("--older-than", type=float, metavar="DAYS", help="keep what is younger than so many days")
        parser.add_argument("--dry-run", action="store_true", help="say what would go, remove nothing")
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="the totals as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        checkpointer = SyncCheckpointer(workspace=options["workspace"], using=options["database"])
        days = options["older_than"]
        if options["keep_last"] is None and options["keep_every"] is None and days is None:
            raise CommandError("Say what to keep: --keep-last, --keep-every or --older-than.")
        totals = {"sessions": 0, "versions": 0, "messages": 0, "dry_run": options["dry_run"]}
        unreadable = 0
        try:
            for session_id in options["session_id"] or _iterate_session_ids(checkpointer):
                try:
                    counts = checkpointer.prune(
                        session_id,
                        keep_last=options["keep_last"],
                        keep_every=options["keep_every"],
                        older_than=None if days is None else timedelta(days=days),
                        dry_run=options["dry_run"],
                    )
                except CheckpointsError as error:
                    if not quarantine.is_error_about_one_session(error):
                        raise
                    self.stderr.write(f"{session_id}: {error}")
                    unreadable += 1
                    continue
                totals["sessions"] += 1
                totals["versions"] += counts.versions
                totals["messages"] += counts.messages
                if totals["sessions"] % BATCH_SIZE == 0:
                    self.stderr.write(f"{totals['sessions']} sessions, {totals['versions']} versions so far")
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        self._print_totals(totals, as_json=options["json"])
        if unreadable:
            raise CommandError(f"Sessions with rows that do not match, of which nothing was removed: {unreadable}.")

    def _print_totals(self, totals: dict[str, int], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(totals))
            return
        verb = "would go" if totals["dry_run"] else "removed"
        self.stdout.write(
            f"{totals['versions']} versions and {totals['messages']} messages of {totals['sessions']} sessions {verb}."
        )


def _iterate_session_ids(checkpointer: SyncCheckpointer) -> Iterator[str]:
    store, last = checkpointer.store, 0
    sessions = Session.objects.using(store.using).filter(workspace_id=store.workspace_id).order_by("pk")
    while batch := list(sessions.filter(pk__gt=last).values_list("pk", "session_id")[:BATCH_SIZE]):
        last = batch[-1][0]
        yield from (session_id for _, session_id in batch)
