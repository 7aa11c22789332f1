"""`manage.py export_session`: export a session as the library's file, as JSON lines, or as an HTML page."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandError, CommandParser

from checkpoints.archive.atomic_file import open_atomic_replacement
from checkpoints.audit import insert_unchained_events
from checkpoints.enums import ActorKind, AuditKind
from checkpoints.exceptions import CheckpointsError
from checkpoints.management.commands import export_session
from checkpoints.models import Workspace
from harness_site.accounts import load_masking_rules
from harness_site.core.masking import mask_argument_secrets_throughout_session, masker
from harness_site.core.rendering.text_shortening import format_byte_size
from harness_site.sessions import html_export, jsonl_export
from harness_site.sessions.selectors import session_head, session_rows
from harness_site.sessions.selectors.session_head import SessionHead
from harness_site.sessions.session_lookup_masking_and_404 import mask_secrets_in_names_of_other_sessions_until_response

#: Bytes between two progress messages.
_STEP: Final = 2_000_000


def _generate_jsonl(head: SessionHead) -> Iterator[bytes]:
    return jsonl_export.verify_session_and_generate_jsonl_lines(head.row.pk)


def _generate_html(head: SessionHead) -> Iterator[bytes]:
    return (text.encode() for text in html_export.verify_session_and_generate_html_pieces(head))


_FORMS: Final[dict[str, Callable[[SessionHead], Iterator[bytes]]]] = {"jsonl": _generate_jsonl, "html": _generate_html}


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
        head = self._load_session_head(workspace, options["session_id"])
        with masker.use_masking_rules(
            None if options["unmasked"] else load_masking_rules.load_workspace_masking_rules(workspace)
        ):
            mask_argument_secrets_throughout_session.mask_session_secrets_until_response(head.row.pk)
            mask_secrets_in_names_of_other_sessions_until_response(head)
            size = self._write_pieces_to_file_and_count_bytes(
                Path(options["path"]).absolute(), _FORMS[options["format"]](head)
            )
        _record_export_event(workspace, head, options["format"], masked=not options["unmasked"])
        self.stdout.write(f"Version {head.row.version}, {size:,} bytes: {options['path']}")

    def _load_session_head(self, workspace: Workspace, session_id: str) -> SessionHead:
        pk = session_rows.find_session_pk(workspace.pk, session_id)
        head = None if pk is None else session_head.load_session_head(workspace.pk, pk)
        if head is None:
            raise CommandError(f"There is no session {session_id!r} in workspace {workspace.slug!r}.")
        return head

    def _write_pieces_to_file_and_count_bytes(self, path: Path, pieces: Iterator[bytes]) -> int:
        written_bytes = reported = 0
        try:
            with open_atomic_replacement(path) as file:
                for chunk in pieces:
                    written_bytes += file.write(chunk)
                    if written_bytes - reported >= _STEP:
                        reported = written_bytes
                        self.stderr.write(f"{format_byte_size(written_bytes)} written …")
        except CheckpointsError as error:
            raise CommandError(str(error)) from error
        return written_bytes


def _record_export_event(workspace: Workspace, head: SessionHead, form: str, *, masked: bool) -> None:
    details = {"what": "session", "form": form, "version": head.row.version, "masked": masked}
    insert_unchained_events.record_event_of_workspace(
        "default",
        workspace.pk,
        AuditKind.EXPORTED,
        session_pk=head.row.pk,
        actor="export",
        actor_kind=ActorKind.MACHINE,
        details=details,
    )
