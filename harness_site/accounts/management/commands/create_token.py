from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from checkpoints.constants import DEFAULT_WORKSPACE
from checkpoints.enums import ActorKind
from checkpoints.models import Workspace
from harness_site.accounts import api_tokens
from harness_site.accounts.models import TokenRole


class Command(BaseCommand):
    help = "Makes an API token and prints it, alone on a line of the standard output. It cannot be shown again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="how pages and the audit trail call it")
        parser.add_argument("role", choices=TokenRole.values)
        parser.add_argument("--workspace", default=DEFAULT_WORKSPACE)
        parser.add_argument("--days", type=int, help="valid for so many days; without it, until it is revoked")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace.objects.filter(slug=options["workspace"]).first()
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r} in this database.")
        days: int | None = options["days"]
        if days is not None and not 0 < days <= 3650:
            raise CommandError("--days has to be between 1 and 3650.")
        lifetime = None if days is None else timedelta(days=days)
        by = api_tokens.TokenIssuer(ActorKind.MACHINE, "manage.py create_token")
        try:
            _, secret = api_tokens.create_token_with_secret(
                workspace, name=options["name"], role=TokenRole(options["role"]), lifetime=lifetime, by=by
            )
        except api_tokens.TokenNameTaken as error:
            raise CommandError(str(error)) from error
        self.stdout.write(secret)
