from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from harness_site.postgresql_role_statements import (
    InvalidRoleName,
    RoleNames,
    generate_role_statements,
    validate_role_name,
)


class Command(BaseCommand):
    help = "Prints SQL that makes roles for agents, the site and migrations on PostgreSQL, each with what it needs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = RoleNames()
        parser.add_argument("--agent", default=names.agent, help=f"role of agents (default: {names.agent})")
        parser.add_argument("--site", default=names.site, help=f"role of web processes (default: {names.site})")
        parser.add_argument("--migration", default=names.migration, help=f"owner (default: {names.migration})")

    def handle(self, *args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("SQLite has no roles: whoever opens the file may do everything. Use PostgreSQL.")
        names = RoleNames(agent=options["agent"], site=options["site"], migration=options["migration"])
        for name in (names.agent, names.site, names.migration):
            try:
                validate_role_name(name)
            except InvalidRoleName as error:
                raise CommandError(str(error)) from error
        for statement in generate_role_statements(names):
            self.stdout.write(f"{statement};")
