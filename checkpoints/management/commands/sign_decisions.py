"""`manage.py sign_decisions`: sign the decisions that were made before the site had a key."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import sign_existing_decisions
from checkpoints.models import Decision, Session


class Command(BaseCommand):
    help = (
        "Signs the decisions of people that have no signature, once, after HARNESS_DECISION_SIGNING_KEY was "
        "configured. It signs what the database holds now, so run it on a database that you trust."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--session", metavar="ID", help="only this one, in every workspace that has it")
        which.add_argument("--all", action="store_true", help="all sessions")
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        using, signed = options["database"], 0
        sessions = Session.objects.using(using).order_by("pk")
        if options["session"]:
            sessions = sessions.filter(session_id=options["session"])
            if not sessions:
                raise CommandError(f"There is no session {options['session']!r} in this database.")
        unsigned = Decision.objects.using(using).filter(signature=None).values("session")
        pks = list(sessions.filter(pk__in=unsigned).values_list("pk", flat=True))
        for pk in pks:
            try:
                signed += sign_existing_decisions.sign_unsigned_decisions_of_session(using, pk, actor=getpass.getuser())
            except CheckpointsError as error:
                raise CommandError(f"{signed} decisions were signed. {error}") from error
        self.stdout.write(f"{signed} decisions were signed.")
