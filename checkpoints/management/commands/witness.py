"""`manage.py witness`: make the witness, or set it to what the database holds."""

from __future__ import annotations

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from checkpoints.exceptions import CheckpointsError
from checkpoints.integrity import find_and_accept_missing_sessions
from checkpoints.integrity.accept_restored_head import accept_stored_head_in_witness
from checkpoints.models import Session
from checkpoints.seals.witness import SETTING, get_witness
from checkpoints.seals.witness_database import DatabaseWitness
from checkpoints.seals.witness_file import FileWitness
from checkpoints.seals.witness_folder import FolderWitness


class Command(BaseCommand):
    help = "Makes the witness, or takes what the database holds as the newest state. Each change is audited."
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action", choices=["create", "adopt"], help="make the file, folder or table, or only note the stored heads"
        )
        parser.add_argument("--session", metavar="ID", help="only this session, in every workspace that has it")
        parser.add_argument("--all", action="store_true", help="all sessions; `create` always takes all")
        parser.add_argument(
            "--missing",
            action="store_true",
            help="also note the sessions that this database lacks as gone: those of this name, or with --all every "
            "one; only if the witness is of this database alone",
        )
        parser.add_argument("--reason", required=True, help="why, for the audit trail")
        parser.add_argument("--database", default="default", help="connection alias")

    def handle(self, *args: Any, **options: Any) -> None:
        witness, using = get_witness(), options["database"]
        if witness is None:
            raise CommandError(f"{SETTING} is empty: there is no witness to set.")
        if options["action"] == "create" and options["missing"]:
            raise CommandError("--missing goes with adopt.")
        if options["action"] == "create":
            _create_witness_storage(witness, using)
        elif bool(options["session"]) == options["all"]:
            raise CommandError("Give either --session ID or --all.")
        sessions = Session.objects.using(using).order_by("pk")
        if options["action"] == "adopt" and options["session"]:
            sessions = sessions.filter(session_id=options["session"])
        pks = list(sessions.values_list("pk", flat=True))
        if not pks and options["session"] and not options["missing"]:
            raise CommandError(f"There is no session {options['session']!r} in this database.")
        changed = 0
        for pk in pks:
            try:
                changed += accept_stored_head_in_witness(using, pk, actor=getpass.getuser(), reason=options["reason"])
            except CheckpointsError as error:
                raise CommandError(f"{changed} of {len(pks)} sessions were noted. {error}") from error
        self.stdout.write(f"{changed} of {len(pks)} sessions were noted; the others were known as they are.")
        if options["missing"]:
            self._accept_missing_sessions(using, options["session"], options["reason"])

    def _accept_missing_sessions(self, using: str, session_id: str | None, reason: str) -> None:
        """Note that sessions which the database lacks are gone: those of one name, or all."""
        try:
            missing = (
                find_and_accept_missing_sessions.find_sessions_missing_from_database(using)
                if session_id is None
                else find_and_accept_missing_sessions.find_sessions_of_name_missing_from_database(using, session_id)
            )
            for session in missing:
                find_and_accept_missing_sessions.accept_missing_session_in_witness(
                    using, session, actor=getpass.getuser(), reason=reason
                )
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        if missing:
            self.stdout.write(f"{len(missing)} sessions that the database lacks were noted as gone.")
        elif session_id is not None:
            self.stdout.write(
                "The witness knows no session of this name whose row is missing. A row may have got another name."
            )


def _create_witness_storage(witness: object, using: str) -> None:
    """Make the file, the folder or the table of a witness. Raises `CommandError`."""
    if isinstance(witness, DatabaseWitness) and witness.alias == using:
        raise CommandError(f"{SETTING} is the database of the sessions; use another one.")
    if not isinstance(witness, DatabaseWitness | FileWitness | FolderWitness):
        raise CommandError("This command cannot make a witness of this kind; use adopt.")
    try:
        if isinstance(witness, DatabaseWitness):
            DatabaseWitness.create_storage(witness.alias)
        else:
            type(witness).create_storage(witness.path)
    except (OSError, DatabaseError) as error:
        raise CommandError(f"{witness} cannot be made ({type(error).__name__}).") from error
