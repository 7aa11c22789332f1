from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints import integrity
from checkpoints.exceptions import InvalidInput
from checkpoints.models import DEFAULT_WORKSPACE, Workspace


class Command(BaseCommand):
    help = "Checks that no entry of the audit trail was changed, removed or moved. Exits with 1 where one was."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="its slug; without it, every workspace is checked")
        parser.add_argument(
            "--anchor",
            help="NUMBER:SEAL as an earlier run printed it, kept where this database cannot be written from "
            f"(of the workspace given, else of {DEFAULT_WORKSPACE})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            anchor = integrity.parse_anchor(options["anchor"]) if options["anchor"] else None
        except InvalidInput as error:
            raise CommandError(str(error)) from error
        named = options["workspace"] or (DEFAULT_WORKSPACE if anchor else None)
        workspaces = Workspace.objects.order_by("pk")
        if named:
            workspaces = workspaces.filter(slug=named)
            if not workspaces:
                raise CommandError(f"There is no workspace {named!r} in this database.")
        flawed = [workspace.slug for workspace in workspaces if not self._check(workspace, anchor)]
        if flawed:
            raise CommandError("The audit trail is not what was recorded.")

    def _check(self, workspace: Workspace, anchor: tuple[int, str] | None) -> bool:
        verdict = integrity.verify(workspace.pk, anchor=anchor)
        for flaw in verdict.flaws:
            self.stderr.write(f"{workspace.slug}: {flaw.what}")
        if verdict.intact:
            self.stdout.write(f"{workspace.slug}: {verdict.checked} entries, all as they were recorded.")
            if verdict.anchor:
                self.stdout.write(f"{workspace.slug}: anchor {verdict.anchor}")
        return verdict.intact
