"""`manage.py export_session`: a session as the library's file, as lines of JSON, or as a page to read offline."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.files.atomic import replacing
from checkpoints.management.commands import export_session
from checkpoints.models import Workspace
from checkpoints.queries import sessions
from checkpoints.queries.sessions import SessionHead
from checkpoints.saving import audit
from harness_site.accounts import call_secrets, secrecy
from harness_site.rendering import masking
from harness_site.rendering.text import size
from harness_site.sessions import jsonl, offline

#: Progress is told again after so many bytes.
_STEP: Final = 2_000_000


def _jsonl(head: SessionHead) -> Iterator[bytes]:
    return jsonl.lines(head.row.pk)


def _html(head: SessionHead) -> Iterator[bytes]:
    return (piece.encode() for piece in offline.pieces(head))


_FORMS: Final[dict[str, Callable[[SessionHead], Iterator[bytes]]]] = {"jsonl": _jsonl, "html": _html}


class Command(export_session.Command):
    help = "Write a session to one file: the one that proves itself and can be imported, records, or a page."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--format", choices=("file", *_FORMS), default="file")
        parser.add_argument(
            "--unmasked", action="store_true", help="with secrets, in jsonl and html; a file always holds them"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["format"] == "file":
            super().handle(*args, **options)
            return
        if options["database"] != "default" or options["json"]:
            raise CommandError("--database and --json go with --format file.")
        workspace = Workspace.objects.filter(slug=options["workspace"]).first()
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        head = self._head(workspace, options["session_id"])
        with masking.reading(None if options["unmasked"] else secrecy.rules_of(workspace)):
            call_secrets.hide(head.row.pk)
            written = self._write(Path(options["path"]).absolute(), _FORMS[options["format"]](head))
        _tell(workspace, head, options["format"], masked=not options["unmasked"])
        self.stdout.write(f"Version {head.row.version}, {written:,} bytes: {options['path']}")

    def _head(self, workspace: Workspace, session_id: str) -> SessionHead:
        pk = sessions.pk_of(workspace.pk, session_id)
        head = None if pk is None else sessions.head(workspace.pk, pk)
        if head is None:
            raise CommandError(f"There is no session {session_id!r} in workspace {workspace.slug!r}.")
        return head

    def _write(self, path: Path, pieces: Iterator[bytes]) -> int:
        written = told = 0
        try:
            with replacing(path) as file:
                for piece in pieces:
                    written += file.write(piece)
                    if written - told >= _STEP:
                        told = written
                        self.stderr.write(f"{size(written)} written …")
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        return written


def _tell(workspace: Workspace, head: SessionHead, form: str, *, masked: bool) -> None:
    details = {"what": "session", "form": form, "version": head.row.version, "masked": masked}
    audit.append(
        "default",
        workspace.pk,
        AuditKind.EXPORTED,
        session_pk=head.row.pk,
        actor="export",
        actor_kind=ActorKind.MACHINE,
        details=details,
    )
