"""`manage.py verify_integrity`: verify that every row of a session is one that this library wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity.verification import VerificationCounts, find_session_problems
from checkpoints.models import Session
from checkpoints.seals.keys import KEY_SETTING, get_seal_keys

#: Number of sessions that are read at once, and after which progress is reported.
BATCH_SIZE = 100


class Command(BaseCommand):
    help = "Checks the seals and the transcripts of sessions. Exits with 1 where a row is not as it was written."
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--session", metavar="ID", help="only this one, in every workspace that has it")
        which.add_argument("--all", action="store_true", help="all sessions")
        parser.add_argument("--after", type=int, default=0, metavar="N", help="go on where an earlier run ended")
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        counts, sessions, problems = VerificationCounts(), 0, []
        try:
            if get_seal_keys() is None:
                raise CommandError(f"{KEY_SETTING} is empty: there are no seals to check.")
            for session in _iterate_sessions(options["database"], options["session"], options["after"]):
                for problem in find_session_problems(options["database"], session, counts):
                    problems.append({"session": session.session_id, **asdict(problem)})
                    self.stderr.write(f"{session.session_id}: row {problem.row} of {problem.table}: {problem.why}")
                sessions += 1
                if sessions % BATCH_SIZE == 0:
                    self.stderr.write(
                        f"{sessions} sessions, {counts.rows} rows so far; go on with --after {session.pk}"
                    )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["session"] and not sessions:
            raise CommandError(f"There is no session {options['session']!r} in this database.")
        if options["json"]:
            self.stdout.write(json.dumps({"sessions": sessions, "rows": counts.rows, "problems": problems}))
        else:
            self.stdout.write(f"{counts.rows} rows of {sessions} sessions, {len(problems)} not as they were written.")
        if problems:
            raise CommandError("The database holds rows that this library did not write.")


def _iterate_sessions(using: str, session_id: str | None, last: int) -> Iterator[Session]:
    sessions = Session.objects.using(using).order_by("pk")
    if session_id is not None:
        sessions = sessions.filter(session_id=session_id)
    while batch := list(sessions.filter(pk__gt=last)[:BATCH_SIZE]):
        last = batch[-1].pk
        yield from batch
