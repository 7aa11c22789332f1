"""`manage.py verify_integrity`: verify that every row of a session is one that this library wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import find_and_accept_missing_sessions, verify_and_quarantine_sessions
from checkpoints.integrity.verify_session_rows import IntegrityProblem, VerificationCounts
from checkpoints.models import Session
from checkpoints.seals.seal_keys import KEY_SETTING, get_seal_keys


class Command(BaseCommand):
    help = (
        "Checks the seals, the digests, the transcripts and the signed decisions of sessions. Exits with 1 where a row "
        "is not as it was written, or is sealed with a key that is not configured."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--session", metavar="ID", help="only this one, in every workspace that has it")
        which.add_argument("--all", action="store_true", help="all sessions")
        parser.add_argument("--resume", action="store_true", help="go on where an interrupted --all ended")
        parser.add_argument("--database", default="default", help="connection alias")
        parser.add_argument("--json", action="store_true", help="the result as one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        counts, found = VerificationCounts(), _Findings()
        try:
            if get_seal_keys() is None:
                self.stderr.write(
                    f"{KEY_SETTING} is empty: texts are compared with their digests, which whoever changes a text can "
                    "compute too, and nothing notices other changes."
                )
            for checked in self._iterate_checked_selected_sessions_and_quarantine(options, counts):
                for name, problem in found.add_session_and_list_named_problems(checked):
                    self.stderr.write(f"{name}: row {problem.row} of {problem.table}: {problem.why}")
                if checked.is_progress_stored:
                    self.stderr.write(
                        f"{found.sessions} sessions, {counts.rows} rows so far; --resume goes on from here"
                    )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if options["session"] and not found.sessions:
            raise CommandError(f"There is no session {options['session']!r} in this database.")
        self._print_result(found, counts, as_json=options["json"])
        if found.altered:
            raise CommandError("The database holds rows that this library did not write.")
        if found.problems:
            raise CommandError(f"The database holds rows by keys that are not configured: complete {KEY_SETTING}.")

    def _print_result(self, found: _Findings, counts: VerificationCounts, *, as_json: bool) -> None:
        for key_id, count in sorted(found.sessions_by_unknown_key.items()):
            self.stderr.write(
                f"{count} sessions have rows by the key {key_id}, which is not configured: complete {KEY_SETTING}"
            )
        if as_json:
            result = {"sessions": found.sessions, "rows": counts.rows, "problems": found.problems}
            self.stdout.write(json.dumps({**result, "unknown_keys": found.sessions_by_unknown_key}))
        else:
            self.stdout.write(
                f"{counts.rows} rows of {found.sessions} sessions, {found.altered} not as they were written."
            )

    def _iterate_checked_selected_sessions_and_quarantine(
        self, options: dict[str, Any], counts: VerificationCounts
    ) -> Iterator[verify_and_quarantine_sessions.CheckedSession]:
        using = options["database"]
        if options["session"] is not None:
            sessions = Session.objects.using(using).filter(session_id=options["session"]).order_by("pk")
            keys = list(sessions.values_list("pk", flat=True))
            yield from verify_and_quarantine_sessions.iterate_checked_sessions_and_quarantine_unreadable(
                using, keys, counts
            )
            return
        resume, missing = options["resume"], find_and_accept_missing_sessions.find_sessions_missing_from_database(using)
        for workspace_pk in verify_and_quarantine_sessions.list_workspace_keys_to_check(using, resume=resume):
            yield from verify_and_quarantine_sessions.iterate_checked_sessions_of_workspace_and_quarantine_altered(
                using, workspace_pk, counts, resume=resume, missing=missing
            )


@dataclass
class _Findings:
    """What a verification has found; a key that is not configured is named with the first session that has it."""

    sessions: int = 0
    altered: int = 0
    problems: list[dict[str, str]] = field(default_factory=list)
    sessions_by_unknown_key: Counter[str] = field(default_factory=Counter)

    def add_session_and_list_named_problems(
        self, checked: verify_and_quarantine_sessions.CheckedSession
    ) -> list[tuple[str, IntegrityProblem]]:
        """Add a session. Returns its problems that are named, each with the name of the session."""
        self.sessions += checked.pk is not None
        named: list[tuple[str, IntegrityProblem]] = []
        for problem in checked.problems:
            if problem.unknown_key is None:
                self.altered += 1
            else:
                self.sessions_by_unknown_key[problem.unknown_key] += 1
            if problem.unknown_key is None or self.sessions_by_unknown_key[problem.unknown_key] == 1:
                self.problems.append({"session": checked.session_id, **problem.to_dict()})
                named.append((checked.session_id or "without a session", problem))
        return named
