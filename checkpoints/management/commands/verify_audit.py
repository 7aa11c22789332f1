"""`manage.py verify_audit`: seal waiting entries, verify the hash chain of the audit trail, and store the result."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints import audit
from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.exceptions import InvalidInput
from checkpoints.models import Workspace


class Command(BaseCommand):
    help = (
        "Checks that no entry of the audit trail was changed, removed or moved, after it has sealed the entries that "
        "wait for it, and stores the result for the website. Exits with 1 where one was."
    )
    #: Checks load the views of the site, which takes longer than the work of this command.
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="its slug; without it, every workspace is checked")
        parser.add_argument(
            "--anchor",
            help="NUMBER:SEAL as an earlier run printed it, kept where this database cannot be written from "
            f"(of the workspace given, else of {DEFAULT_WORKSPACE})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            anchor = audit.parse_anchor(options["anchor"]) if options["anchor"] else None
        except InvalidInput as error:
            raise CommandError(str(error)) from error
        workspace_name = options["workspace"] or (DEFAULT_WORKSPACE if anchor else None)
        workspaces = Workspace.objects.order_by("pk")
        if workspace_name:
            workspaces = workspaces.filter(slug=workspace_name)
            if not workspaces:
                raise CommandError(f"There is no workspace {workspace_name!r} in this database.")
        flawed = [
            workspace.slug
            for workspace in workspaces
            if not self._seal_and_verify_trail_and_print_result(workspace, anchor)
        ]
        if flawed:
            raise CommandError("The audit trail is not what was recorded.")

    def _seal_and_verify_trail_and_print_result(self, workspace: Workspace, anchor: tuple[int, str] | None) -> bool:
        verdict = audit.seal_and_verify_chain_and_store_result(workspace.pk, anchor=anchor)
        for flaw in verdict.flaws:
            self.stderr.write(f"{workspace.slug}: {flaw.what}")
        if verdict.is_intact:
            self.stdout.write(f"{workspace.slug}: {verdict.checked} entries, all as they were recorded.")
            if verdict.anchor:
                self.stdout.write(f"{workspace.slug}: anchor {verdict.anchor}")
        return verdict.is_intact
