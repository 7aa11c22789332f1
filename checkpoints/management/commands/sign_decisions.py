"""`manage.py sign_decisions`: sign the decisions that were made before the site had a key."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import quarantine, sign_existing_decisions
from checkpoints.models import Decision, Session


class Command(BaseCommand):
    help = (
        "Signs the decisions of people that have no signature, once, after HARNESS_DECISION_SIGNING_KEY was "
        "configured. It signs what the database holds now, so run it on a database that you trust. A session with a "
        "row that does not match is named and left as it is; then the exit code is 1."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--session", metavar="ID", help="only this one, in every workspace that has it")
        which.add_argument("--all", action="store_true", help="all sessions")
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        using, signed, refused = options["database"], 0, 0
        sessions = Session.objects.using(using).order_by("pk")
        if options["session"]:
            sessions = sessions.filter(session_id=options["session"])
            if not sessions:
                raise CommandError(f"There is no session {options['session']!r} in this database.")
        unsigned = Decision.objects.using(using).filter(signature=None).values("session")
        for pk, name in list(sessions.filter(pk__in=unsigned).values_list("pk", "session_id")):
            try:
                signed += sign_existing_decisions.sign_unsigned_decisions_of_session(using, pk, actor=getpass.getuser())
            except CheckpointsError as error:
                if not quarantine.is_error_about_one_session(error):
                    raise CommandError(f"{signed} decisions were signed. {error}") from error
                refused += 1
                self.stderr.write(f"{name}: {error}")
                quarantine.try_quarantine_session_if_altered(pk, using=using)
        self.stdout.write(f"{signed} decisions were signed.")
        if refused:
            raise CommandError(
                f"The decisions of {refused} sessions were not signed: each has a row that does not match. Restore "
                "their rows and run the command again, or delete these sessions."
            )
